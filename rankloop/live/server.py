"""Runs the service: opens the store, deploys a first policy, and serves over HTTP until it is stopped."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from rankloop.errors import RankloopError
from rankloop.live.http.app import build_app
from rankloop.live.http.connections import Connections
from rankloop.live.http.guards import is_loopback
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import INCOMING, LivePolicy, policy_of
from rankloop.live.service import Service
from rankloop.live.settings import ServiceSettings
from rankloop.live.store.database import Store, insert_new, read
from rankloop.live.store.keys import load_keys
from rankloop.live.store.policies import current_deployment, deploy, register_policy
from rankloop.live.store.tables import notebook
from rankloop.live.surfaces import DocumentTable, Surface
from rankloop.logs.feature_tables import FeatureTable
from rankloop.offline.fit_result import load_policy
from rankloop.types import Float32

if TYPE_CHECKING:
    import uvicorn

STARTER = "rankloop serve"
FIRST_NOTE = "first deployment"
# Connections that wait to be accepted, and files that the rest of a server opens.
BACKLOG, OTHER_FILES = 128, 200
# Names of features do not end like this: a file was meant that is not there.
TABLE_SUFFIXES = (".parquet", ".csv", ".gz")


def prepare(store: Store, policies: Sequence[str | os.PathLike[str]] = ()) -> None:
    """Register policies from files, and deploy the first one if nothing is deployed yet.

    Without any policy, a softened incoming order is deployed: documents that the caller lists first are the
    most likely to be shown first.
    """
    loaded = [policy_of(load_policy(path), Path(path).stem) for path in policies]
    with store.engine.begin() as connection:
        # Other servers that start on a new store wait for the end of this transaction.
        insert_new(connection, notebook, [{"name": FIRST_NOTE, "content": "true"}])
        for policy in loaded:
            register_policy(connection, policy, STARTER)
        if current_deployment(connection) is None:
            first = loaded[0] if loaded else LivePolicy("incoming-order", INCOMING)
            register_policy(connection, first, STARTER)
            deploy(connection, [Share(first.name, 1.0)], who=STARTER, why="the first policy")


def read_feature_options(given: Sequence[str]) -> tuple[tuple[str, ...], DocumentTable | None]:
    """Names of features, and a table of them by document, from options that are either.

    Raises:
        RankloopError: there are two tables, a table does not exist, or it is not keyed by doc_id alone.
    """
    names: list[str] = []
    table: DocumentTable | None = None
    for text in given:
        if not Path(text).is_file():
            if Path(text).suffix.lower() in TABLE_SUFFIXES or "/" in text:
                raise RankloopError(f"{text}: there is no such file; names of features look like price,age")
            names += [name.strip() for name in text.split(",") if name.strip()]
            continue
        if table is not None:
            raise RankloopError(f"{text}: only one table of features can be loaded")
        file = FeatureTable(Path(text))
        if file.ids != ("doc_id",) or file.names is None:
            raise RankloopError(f"{text}: expected a table of doc_id and one column per feature")
        rows: dict[str, Float32] = {}
        for part in file.rows():
            rows.update(zip(part.ids["doc_id"].to_pylist(), part.matrix, strict=True))
        table = (file.names, rows)
    return tuple(names), table


def check_host(store: Store, host: str) -> None:
    """Refuse to listen to other machines as long as there are no keys."""
    with read(store) as connection:
        keys = load_keys(connection)
    if not keys and not is_loopback(host):
        raise RankloopError(
            f"without keys, the service listens on this machine only, not on {host}: make a key first "
            f"(`rankloop key {store.location} NAME --scope rank`)"
        )


def raise_file_limit(connections: int) -> None:
    """Let this process open as many files as its connections need, as far as the system allows.

    Raises:
        RankloopError: it does not allow so many.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + BACKLOG + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise RankloopError(
                f"{connections} connections need {needed} open files, but this system allows {hard}: allow "
                f"more (`ulimit -n`), or choose fewer with --max-connections"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before anything else is started.

    Raises:
        RankloopError: another program listens there, or the address is not of this machine.
    """
    try:
        with socket.create_server((host.strip("[]"), port), family=_family(host)):
            pass
    except OSError as error:
        raise RankloopError(
            f"port {port} of {host} cannot be used: {error.strerror or error}; --port chooses another one"
        ) from error


def is_served(host: str, port: int) -> bool:
    """Whether a program listens there."""
    try:
        with socket.create_connection((host.strip("[]"), port), 5.0):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        # It does not answer, which is not the same.
        return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def build_server(
    store: Store,
    settings: ServiceSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8017,
    table: DocumentTable | None = None,
    names: tuple[str, ...] = (),
    rng: np.random.Generator | None = None,
    surfaces: Mapping[str, Surface] = MappingProxyType({}),
) -> uvicorn.Server:
    """The server of a store; ``run()`` serves until it is stopped.

    Args:
        store: the store.
        settings: limits and defaults.
        host: where to listen; other than this machine only if there are keys.
        port: 0 for any that is free.
        table: names of features, and their values by document id.
        names: names of features that requests may give, besides those of policies.
        rng: chooses policies and seeds; by default from the system's entropy.
        surfaces: other stores, which are served at the paths that begin with their names.
    """
    import uvicorn

    check_host(store, host)
    settings = settings or ServiceSettings()
    raise_file_limit(settings.max_connections)
    connections = Connections(settings.header_seconds, settings.body_seconds, settings.max_connections)
    others = {
        name: Service(own.store, settings, rng=rng, table=own.table, names=own.names)
        for name, own in surfaces.items()
    }
    first = Service(store, settings, rng=rng, table=table, names=names)
    app = build_app(first, host=host, surfaces=others)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=connections.protocol,  # type: ignore[arg-type]
        backlog=BACKLOG,
        # Its lines go where those of the service go.
        log_config=None,
        # Clients could fill a disk with warnings about what they send.
        log_level="error",
        ws="none",
        access_log=False,
        timeout_graceful_shutdown=5,
        server_header=False,
        # The peer is who connects, not who a header names.
        proxy_headers=False,
    )
    return uvicorn.Server(config)
