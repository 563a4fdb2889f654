"""Commands of the live service: serve, learn, drive it with simulated users, keys, and rolling back."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.configuration import PREFIX, ConfigOption
from rankloop.cli.options import FieldsOf, SeedOption, argument, expand_options, option
from rankloop.errors import RankloopError
from rankloop.live.learner.settings import LEARNING, LearnerSettings
from rankloop.live.settings import OutputSettings, ServiceSettings

if TYPE_CHECKING:
    from rankloop.live.store.database import Store

STORE_HELP = "A folder, or the URL of a PostgreSQL database."
StoreArgument = Annotated[str, argument("STORE", STORE_HELP)]
ServedStoreArgument = Annotated[
    str, argument("STORE", STORE_HELP, envvar=f"{PREFIX}_STORE", show_envvar=False)
]
StoreLogOption = Annotated[
    Path | None,
    option("The folder of the log.", "--log", shown="log in the folder STORE"),
]
KeyOption = Annotated[
    str | None,
    option("The key to authenticate with.", shown="", envvar="RANKLOOP_KEY"),
]
FIRST_KEY = "first"
SHARED = ("window", *OutputSettings.model_fields)
UrlArgument = Annotated[str, argument("URL", "Where the service is.")]


@expand_options
def serve(
    store: ServedStoreArgument,
    policy: Annotated[
        list[Path] | None,
        option(
            "A model file or a stored fit; the first one is deployed if nothing is. May be repeated.",
            shown="the incoming order, softened",
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        option(
            "Names of the features that requests may contain, separated by commas; or a table (Parquet, "
            "CSV) of doc_id and features, so that requests need only ids. May be repeated.",
            shown="",
        ),
    ] = None,
    host: Annotated[str, option("The address to listen on; without keys, only this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, option("The port to listen on; 0 for any free port.", min=0, max=65535)] = 8017,
    log: StoreLogOption = None,
    surface: Annotated[
        list[str] | None,
        option(
            "NAME=STORE: serve another store at the paths that begin with /NAME, with policies, bias, "
            "evidence and a learner of its own, and with the keys of the first. `--features NAME=…` and "
            "`--policy NAME=…` are for it. May be repeated.",
            shown="",
        ),
    ] = None,
    first_key: Annotated[
        bool,
        option(
            "If the store never had a key, make one with all scopes and print it: for containers, which are "
            "reached from other machines at once.",
            "--first-key",
        ),
    ] = False,
    *,
    _config: ConfigOption = None,
    settings: ServiceSettings,
    origin: Annotated[
        list[str] | None,
        option("An origin whose pages may send events from browsers (CORS). May be repeated.", shown=""),
    ] = None,
    upkeep: Annotated[
        bool,
        option(
            "Seal impressions in a process next to the server; not needed if a learner runs elsewhere.",
            "--upkeep/--no-upkeep",
        ),
    ] = True,
    learn: Annotated[bool, option("Learn from the clicks, too.", "--learn", panel=LEARNING)] = False,
    # What it shares with the service are options of that already.
    learner: Annotated[LearnerSettings, FieldsOf(LearnerSettings, without=SHARED)],
) -> None:
    """Serve rankings and log them; with --learn, learn better ones from the clicks.

    Everything is in STORE: what was shown, with exact propensities, what was clicked, which policies there
    are, and which of them are live. A second process seals impressions into a log that `check`, `fit` and
    `evaluate` read.
    """
    from rankloop.cli import console
    from rankloop.live.diagnostics import LOGGER, configure_logging
    from rankloop.live.learner.process import start_process
    from rankloop.live.server import build_server, check_port, prepare, read_feature_options
    from rankloop.live.store.database import open_store
    from rankloop.live.surfaces import Surface, open_surfaces, read_places, split_options

    configure_logging(settings)
    settings = settings.model_copy(update={"origins": tuple(origin or ())})
    learner = learner.model_copy(update={name: getattr(settings, name) for name in SHARED})
    places = read_places(surface or (), log)
    given = {name: read_feature_options(own) for name, own in split_options(features or (), places).items()}
    policies = split_options(map(str, policy or ()), places)
    check_port(host, port)
    opened = open_store(store, log=log)
    stores = {"": opened, **open_surfaces(opened, places)}
    if first_key:
        _print_first_key(opened)
    for name, own in stores.items():
        prepare(own, policies[name])
    served = {name: Surface(own, *given[name]) for name, own in stores.items() if name}
    with nullcontext() if settings.log_format == "json" else console.announce_compilation():
        names, table = given[""]
        server = build_server(
            opened, settings, host=host, port=port, table=table, names=names, surfaces=served
        )
    helpers = []
    if upkeep or learn:
        locations = {"": store, **{name: place.location for name, place in places.items()}}
        helpers = [
            start_process(own, locations[name], learner, sealing_only=not learn, name=name)
            for name, own in stores.items()
        ]
    for name, own in stores.items():
        LOGGER.info("rankloop serves %s at http://%s:%d/%s (Ctrl-C stops it)", own.location, host, port, name)
    try:
        server.run()
    except KeyboardInterrupt:
        LOGGER.info("stopped; nothing is lost")
    finally:
        for helper in helpers:
            helper.terminate()
        for helper in helpers:
            helper.join(10.0)
        for own in stores.values():
            own.close()


def _print_first_key(store: Store) -> None:
    from rankloop.live.diagnostics import LOGGER
    from rankloop.live.store.keys import SCOPES, add_first_key

    with store.engine.begin() as connection:
        key = add_first_key(connection, FIRST_KEY, SCOPES)
    if key is not None:
        LOGGER.warning("the first key of this store, shown once, with all scopes: %s", key)


@expand_options
def learn(
    store: ServedStoreArgument,
    log: StoreLogOption = None,
    *,
    seal_only: Annotated[bool, option("Seal, and learn nothing.", "--seal-only")] = False,
    once: Annotated[bool, option("Do what is due now, and stop.", "--once")] = False,
    _config: ConfigOption = None,
    settings: LearnerSettings,
) -> None:
    """Learn from the clicks in a store, next to the servers: seal, learn, prove, deploy or ask."""
    from rankloop.cli import console
    from rankloop.live.diagnostics import LOGGER, configure_logging
    from rankloop.live.learner.learner import LiveLearner
    from rankloop.live.learner.process import run_learner
    from rankloop.live.store.database import open_store

    configure_logging(settings)
    opened = open_store(store, log=log, create=False)
    try:
        if once:
            for line in LiveLearner(opened, settings, sealing_only=seal_only).step():
                console.print_out(line)
        else:
            run_learner(opened, settings, sealing_only=seal_only)
    except KeyboardInterrupt:
        LOGGER.info("stopped; nothing is lost")
    finally:
        opened.close()


def drive(
    url: UrlArgument,
    data: Annotated[
        str, option("Queries and documents: a LETOR file or folder, or synthetic(…).")
    ] = "synthetic(queries=300, features=20)",
    users: Annotated[str, option("How simulated users click: {users}.")] = "paper@5",
    impressions: Annotated[int, option("How many pages they look at.", min=1)] = 10_000,
    concurrency: Annotated[int, option("How many users there are at once.", min=1)] = 4,
    pause: Annotated[float, option("Seconds between two pages of one user.", min=0.0)] = 0.0,
    inverted: Annotated[
        bool, option("Users click what is irrelevant, to try the safeguards.", "--inverted")
    ] = False,
    key: KeyOption = None,
    seed: SeedOption = 0,
) -> None:
    """Send simulated users to a service: they ask for rankings and click."""
    from rankloop.cli import console
    from rankloop.data import dataset
    from rankloop.live.drive import DriveOptions, DriveResult
    from rankloop.live.drive import drive as drive_service

    options = DriveOptions(users, impressions, concurrency, pause, inverted, seed)

    def tell(result: DriveResult) -> None:
        console.print_err(result.line())

    with console.telling("what was shown and clicked so far stays in the store"):
        result = drive_service(url, dataset(data).train, options, key=key, tell=tell)
    console.print_out(result.line())
    if not result.impressions:
        raise RankloopError(f"{url} refused all requests; is the key right, and does it have both scopes?")


def key(
    store: StoreArgument,
    name: Annotated[str, argument("NAME", "What the key is for.")],
    scope: Annotated[
        list[str] | None,
        option("rank, events or admin; may be repeated.", shown=""),
    ] = None,
    remove: Annotated[bool, option("Remove the key instead.", "--remove")] = False,
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


def health(
    store: ServedStoreArgument,
    host: Annotated[
        str, option("Where the server of this machine listens.", envvar=f"{PREFIX}_HOST")
    ] = "127.0.0.1",
    port: Annotated[int, option("Its port.", envvar=f"{PREFIX}_PORT")] = 8017,
) -> None:
    """Say whether the server here answers or, where none listens, whether the learner of STORE lives.

    The exit code is 0 if all is well, and 1 otherwise: for the health checks of containers, of both kinds.
    """
    from rankloop.cli import console
    from rankloop.live.client import Client, ServiceError
    from rankloop.live.learner.health import read_health
    from rankloop.live.server import is_served
    from rankloop.live.store.database import open_store, read

    here = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    if is_served(here, port):
        client = Client(f"http://{here}:{port}", retries=0, timeout=10.0)
        try:
            answer, well = client.send("GET", "/readyz"), True
        except (OSError, ServiceError) as error:
            answer, well = {"ready": False, "problems": [str(error)]}, False
        finally:
            client.close()
    else:
        opened = open_store(store, create=False)
        try:
            with read(opened) as connection:
                found = read_health(connection)
        finally:
            opened.close()
        well = found.alive
        answer = {"alive": well, "problems": found.problems}
    console.print_json(answer)
    if not well:
        raise typer.Exit(1)


def backup(
    store: StoreArgument,
    folder: Annotated[Path, argument("FOLDER", "Where the copy goes; it does not exist yet, or is empty.")],
    log: StoreLogOption = None,
) -> None:
    """Copy a store into a folder while the service runs; the copy is a store that can be served."""
    from rankloop.cli import console
    from rankloop.live.backup import back_up
    from rankloop.live.store.database import open_store

    opened = open_store(store, log=log, create=False)
    try:
        with console.telling(console.NOTHING_WRITTEN):
            back_up(opened, folder)
    finally:
        opened.close()
    console.print_out(f"copied {store} to {folder}")


def rollback(
    url: UrlArgument,
    to: Annotated[
        int | None, option("The number of the deployment to restore.", shown="the one before")
    ] = None,
    why: Annotated[str, option("The reason, for the history.")] = "rolled back by hand",
    key: KeyOption = None,
) -> None:
    """Restore the deployment before the current one, or an earlier one, at once."""
    _send(url, key, "POST", "/rollback", {"why": why, "to": to})


def learner(
    url: UrlArgument,
    action: Annotated[
        str,
        argument(
            "ACTION",
            "show; pause: learn and deploy nothing; resume: lift a pause, and what a person decided; or "
            "end-trial: take back what is on trial.",
        ),
    ] = "show",
    why: Annotated[str, option("The reason, for the history.")] = "decided by hand",
    key: KeyOption = None,
) -> None:
    """Show whether the learner lives and what it watches, pause it, resume it, or end its trial."""
    if action == "show":
        _send(url, key, "GET", "/learner", None)
    else:
        _send(url, key, "POST", "/learner", {"action": action, "why": why})


def _send(url: str, key: str | None, method: str, path: str, message: object) -> None:
    """Ask a service, and print its answer."""
    from rankloop.cli import console
    from rankloop.live.client import Client, ServiceError

    client = Client(url, key=key)
    try:
        console.print_json(client.send(method, path, message))
    except (OSError, ServiceError) as error:
        raise RankloopError(str(error)) from error
    finally:
        client.close()
