"""Commands of the live service: serve, learn, drive it with simulated users, keys, and rolling back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.options import SeedOption
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.errors import RankloopError
from rankloop.live.learner.settings import LEARNING, LearnerSettings
from rankloop.live.settings import ServiceSettings

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
KeyOption = Annotated[
    str | None,
    typer.Option(envvar="RANKLOOP_KEY", help="The key to authenticate with.", show_default=False),
]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Where the service is.")]
# The window is an option of the service already.
LEARNING_OPTIONS = [
    name
    for name, field in LearnerSettings.model_fields.items()
    if field.json_schema_extra is not None and name != "window"
]


@spec_options(LearnerSettings, LEARNING_OPTIONS, parameter="learning_options")
@spec_options(ServiceSettings)
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
    *,
    given: Given,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="An origin whose pages may send events from browsers (CORS). May be repeated.",
            show_default=False,
        ),
    ] = None,
    upkeep: Annotated[
        bool,
        typer.Option(
            "--upkeep/--no-upkeep",
            help="Seal impressions in a process next to the server; not needed if a learner runs elsewhere.",
        ),
    ] = True,
    learn: Annotated[
        bool, typer.Option("--learn", help="Learn from the clicks, too.", rich_help_panel=LEARNING)
    ] = False,
    learning_options: Given,
) -> None:
    """Serve rankings and log them; with --learn, learn better ones from the clicks.

    Everything is in STORE: what was shown, with exact propensities, what was clicked, which policies there
    are, and which of them are live. A second process seals impressions into a log that `check`, `fit` and
    `evaluate` read.
    """
    from rankloop.cli import console
    from rankloop.live.learner.process import start_process
    from rankloop.live.server import build_server, check_port, prepare, read_feature_options
    from rankloop.live.store.database import open_store

    settings = read_spec(ServiceSettings, {**given, "origins": tuple(origin or ())})
    learner_settings = read_spec(LearnerSettings, {**learning_options, "window": settings.window})
    names, table = read_feature_options(features or ())
    check_port(host, port)
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


@spec_options(LearnerSettings)
def learn(
    store: StoreArgument,
    log: StoreLogOption = None,
    *,
    seal_only: Annotated[bool, typer.Option("--seal-only", help="Seal, and learn nothing.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and stop.")] = False,
    given: Given,
) -> None:
    """Learn from the clicks in a store, next to the servers: seal, learn, prove, deploy or ask."""
    from rankloop.cli import console
    from rankloop.live.learner.learner import LiveLearner
    from rankloop.live.learner.process import run_learner
    from rankloop.live.store.database import open_store

    settings = read_spec(LearnerSettings, given)
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
    url: UrlArgument,
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
        raise RankloopError(f"{url} refused all requests; is the key right, and does it have both scopes?")


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
    from rankloop.live.store.keys import add_key, check_scopes, remove_key

    if not remove:
        check_scopes(scope or ())
    opened = open_store(store, create=not remove)
    try:
        with opened.engine.begin() as connection:
            if remove:
                remove_key(connection, name)
            else:
                typer.echo(add_key(connection, name, scope or ()))
    finally:
        opened.close()


def rollback(
    url: UrlArgument,
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
