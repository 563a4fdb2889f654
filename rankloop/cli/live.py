"""Commands of the live service: serve, learn, drive it with simulated users, keys, and rolling back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rankloop.cli.options import SeedOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from rankloop.live.learner.settings import LearnerSettings

_Settings = TypeVar("_Settings", bound="BaseModel")

LIMITS, LEARNING, RETENTION = "Limits", "Learning", "Retention"

StoreArgument = Annotated[
    str,
    typer.Argument(metavar="STORE", help="A folder, or the URL of a PostgreSQL database."),
]
StoreLogOption = Annotated[
    Path | None,
    typer.Option(
        "--log", help=r"The folder of the log. \[default: log in the folder STORE]", show_default=False
    ),
]
WindowOption = Annotated[
    float, typer.Option(help="How long after an impression its events count, in seconds; then it is sealed.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(envvar="RANKLOOP_KEY", help="The key to authenticate with.", show_default=False),
]
DeployOption = Annotated[
    str,
    typer.Option(
        help="ask: a person deploys what is proven better. auto: canary, then full, on evidence.",
        rich_help_panel=LEARNING,
    ),
]
LearnModelOption = Annotated[
    str,
    typer.Option("--model", help="lightgbm, mlp or linear, as in `rankloop fit`.", rich_help_panel=LEARNING),
]
LearnBiasOption = Annotated[
    str | None,
    typer.Option(
        "--bias",
        help="How users click: a file that `rankloop bias` wrote, or the name of simulated users such as "
        r"paper@5. \[default: estimated from the log]",
        show_default=False,
        rich_help_panel=LEARNING,
    ),
]
LearningOption = Annotated[
    str,
    typer.Option(
        "--learning", help="doubly-robust, robust or paper, as in `rankloop fit`.", rich_help_panel=LEARNING
    ),
]
MostOption = Annotated[
    float,
    typer.Option(
        help="The share that learned policies may get without a person; the rest stays with the last policy "
        "that a person deployed.",
        rich_help_panel=LEARNING,
    ),
]
EveryOption = Annotated[
    float, typer.Option(help="How often to look at the store, in seconds.", rich_help_panel=LEARNING)
]
LeastOption = Annotated[
    int,
    typer.Option(
        help="Number of sealed impressions before the first policy is learned.", rich_help_panel=LEARNING
    ),
]
CanaryOption = Annotated[
    float, typer.Option(help="The share of the traffic that tries a new policy.", rich_help_panel=LEARNING)
]
ExploreOption = Annotated[
    float, typer.Option(help="The share of the traffic that explores.", rich_help_panel=LEARNING)
]
RetainDaysOption = Annotated[
    float | None,
    typer.Option(
        help=r"Delete parts of the log that are older than this many days. \[default: keep everything]",
        show_default=False,
        rich_help_panel=RETENTION,
    ),
]
RetainBytesOption = Annotated[
    int | None,
    typer.Option(
        help=r"Delete the oldest parts if the log is larger than this. \[default: keep everything]",
        show_default=False,
        rich_help_panel=RETENTION,
    ),
]


def serve(
    store: StoreArgument,
    policy: Annotated[
        list[Path] | None,
        typer.Option(
            help="A model file or a stored fit; the first one is deployed if nothing is. May be repeated. "
            r"\[default: the incoming order, softened]",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Names of the features that requests may contain, separated by commas; or a table (Parquet, "
            "CSV) of doc_id and features, so that requests need only ids. May be repeated.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; without keys, only this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 for any free port.", min=0, max=65535)
    ] = 8017,
    log: StoreLogOption = None,
    window: WindowOption = 1800.0,
    top: Annotated[int, typer.Option(help="How many documents to show if the request does not set it.")] = 10,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin whose pages may send events from browsers (CORS). May be repeated.",
            show_default=False,
        ),
    ] = None,
    max_candidates: Annotated[
        int, typer.Option(help="Maximum number of candidates per request.", rich_help_panel=LIMITS)
    ] = 1000,
    max_body: Annotated[
        int, typer.Option(help="Maximum size of a request in bytes.", rich_help_panel=LIMITS)
    ] = 4_000_000,
    rate: Annotated[
        float,
        typer.Option(
            help="Maximum number of requests per second and key; 0 for no limit.", rich_help_panel=LIMITS
        ),
    ] = 0.0,
    model_seconds: Annotated[
        float,
        typer.Option(
            help="How many seconds a model may take before the incoming order is served instead.",
            rich_help_panel=LIMITS,
        ),
    ] = 0.2,
    upkeep: Annotated[
        bool,
        typer.Option(
            "--upkeep/--no-upkeep",
            help="Seal impressions in a process beside the server; not needed if a learner runs elsewhere.",
        ),
    ] = True,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn from the clicks, too.", rich_help_panel=LEARNING)
    ] = False,
    deploy: DeployOption = "ask",
    model: LearnModelOption = "lightgbm",
    learning: LearningOption = "doubly-robust",
    bias: LearnBiasOption = None,
    every: EveryOption = 10.0,
    least: LeastOption = 1000,
    canary: CanaryOption = 0.1,
    explore: ExploreOption = 0.1,
    most: MostOption = 1.0,
    retain_days: RetainDaysOption = None,
    retain_bytes: RetainBytesOption = None,
) -> None:
    """Serve rankings and log them; with --learn, learn better ones from the clicks.

    Everything is in STORE: what was shown, with exact propensities, what was clicked, which policies there
    are, and which of them are live. A second process seals impressions into a log that `check`, `fit` and
    `evaluate` read.
    """
    from rankloop.cli import console
    from rankloop.live.learner.process import start_process
    from rankloop.live.server import build_server, prepare, read_feature_options
    from rankloop.live.settings import ServiceSettings
    from rankloop.live.store.database import open_store

    settings = _checked(
        ServiceSettings,
        {
            "top": top,
            "max_candidates": max_candidates,
            "max_body": max_body,
            "rate": rate,
            "model_seconds": model_seconds,
            "window": window,
            "origins": tuple(origin or ()),
        },
    )
    learner_settings = _learner_settings(
        deploy=deploy,
        model=model,
        learning=learning,
        bias=bias,
        window=window,
        every=every,
        least=least,
        canary=canary,
        explore=explore,
        most=most,
        retain_days=retain_days,
        retain_bytes=retain_bytes,
    )
    names, table = read_feature_options(features or ())
    opened = open_store(store, log=log)
    prepare(opened, policy or ())
    with console.announce_compilation():
        server = build_server(opened, settings, host=host, port=port, table=table, names=names)
    helper = None
    if upkeep or learn:
        helper = start_process(store, opened.log, learner_settings, sealing_only=not learn)
    console.print_err(f"rankloop serves {opened.location} at http://{host}:{port} (Ctrl-C stops it)")
    try:
        server.run()
    finally:
        if helper is not None:
            helper.terminate()
            helper.join(10.0)
        opened.close()


def learn(
    store: StoreArgument,
    log: StoreLogOption = None,
    window: WindowOption = 1800.0,
    seal_only: Annotated[bool, typer.Option("--seal-only", help="Seal, and learn nothing.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and stop.")] = False,
    deploy: DeployOption = "ask",
    model: LearnModelOption = "lightgbm",
    learning: LearningOption = "doubly-robust",
    bias: LearnBiasOption = None,
    every: EveryOption = 10.0,
    least: LeastOption = 1000,
    canary: CanaryOption = 0.1,
    explore: ExploreOption = 0.1,
    most: MostOption = 1.0,
    retain_days: RetainDaysOption = None,
    retain_bytes: RetainBytesOption = None,
) -> None:
    """Learn from the clicks in a store, beside the servers: seal, learn, prove, deploy or ask."""
    from rankloop.cli import console
    from rankloop.live.learner.learner import LiveLearner
    from rankloop.live.learner.process import run_learner
    from rankloop.live.store.database import open_store

    settings = _learner_settings(
        deploy=deploy,
        model=model,
        learning=learning,
        bias=bias,
        window=window,
        every=every,
        least=least,
        canary=canary,
        explore=explore,
        most=most,
        retain_days=retain_days,
        retain_bytes=retain_bytes,
    )
    opened = open_store(store, log=log, create=False)
    try:
        if once:
            for line in LiveLearner(opened, settings, sealing_only=seal_only).step():
                console.print_out(line)
        else:
            run_learner(opened, settings, sealing_only=seal_only, tell=console.print_err)
    except KeyboardInterrupt:
        console.print_err("stopped; nothing is lost")
    finally:
        opened.close()


def drive(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the service is.")],
    data: Annotated[
        str, typer.Option(help="Queries and documents: a LETOR file or folder, or synthetic(…).")
    ] = "synthetic(queries=300, features=20)",
    users: Annotated[str, typer.Option(help="How simulated users click.")] = "paper@5",
    interactions: Annotated[int, typer.Option(help="How many pages they look at.", min=1)] = 10_000,
    concurrency: Annotated[int, typer.Option(help="How many users there are at once.", min=1)] = 4,
    pause: Annotated[float, typer.Option(help="Seconds between two pages of one user.", min=0.0)] = 0.0,
    inverted: Annotated[
        bool, typer.Option("--inverted", help="Users click what is irrelevant, to try the safeguards.")
    ] = False,
    key: KeyOption = None,
    seed: SeedOption = 0,
) -> None:
    """Send simulated users to a service: they ask for rankings and click."""
    from rankloop.cli import console
    from rankloop.data import dataset
    from rankloop.live.drive import DriveOptions, DriveResult
    from rankloop.live.drive import drive as drive_service

    options = DriveOptions(users, interactions, concurrency, pause, inverted, seed)

    def tell(result: DriveResult) -> None:
        console.print_err(result.line())

    result = drive_service(url, dataset(data).train, options, key=key, tell=tell)
    console.print_out(result.line())
    if not result.interactions:
        raise RankloopError(f"{url} answered none of the requests")


def key(
    store: StoreArgument,
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="rank, events or admin; may be repeated.", show_default=False),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the key instead.")] = False,
) -> None:
    """Make a key for clients of a store, and print it once; only its hash is stored."""
    from rankloop.live.store.database import open_store
    from rankloop.live.store.keys import add_key, remove_key

    opened = open_store(store)
    try:
        with opened.engine.begin() as connection:
            if remove:
                remove_key(connection, name)
            else:
                typer.echo(add_key(connection, name, scope or ()))
    finally:
        opened.close()


def rollback(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the service is.")],
    to: Annotated[
        int | None, typer.Option(help=r"The number of the deployment to restore. \[default: the one before]")
    ] = None,
    why: Annotated[str, typer.Option(help="The reason, for the history.")] = "rolled back by hand",
    key: KeyOption = None,
) -> None:
    """Restore the deployment before the current one, or an earlier one, at once."""
    from rankloop.live.client import Client, ServiceError

    client = Client(url, key=key)
    try:
        done = client.send("POST", "/rollback", {"why": why, "to": to})
    except (OSError, ServiceError) as error:
        raise RankloopError(str(error)) from error
    finally:
        client.close()
    typer.echo(json.dumps(done, indent=2))


def _learner_settings(**values: object) -> LearnerSettings:
    from rankloop.live.learner.settings import LearnerSettings

    return _checked(LearnerSettings, values)


def _checked(kind: type[_Settings], values: dict[str, object]) -> _Settings:
    from pydantic import ValidationError

    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise RankloopError(f"--{option}: {first['msg']}, got {first['input']!r}") from error
