from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from rankloop.live import Client, Service, ServiceSettings, Store, build_server, open_store
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.store.policies import deploy, register_policy
from rankloop.models import Linear

FEATURES = ("a", "b", "c")


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store is."""
    if request.param == "sqlite":
        return str(tmp_path / "store")
    return new_database(request.getfixturevalue("postgres"))


def new_database(uri: str) -> str:
    name = f"rankloop_{time.monotonic_ns()}"
    engine = create_engine(
        uri.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return uri.replace("/postgres?", f"/{name}?")


@pytest.fixture
def store(location: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(location, log=tmp_path / "log")
    yield opened
    opened.close()


def linear(*weights: float, names: tuple[str, ...] = FEATURES) -> Any:
    """A linear model with these weights."""
    return Linear(len(weights), np.array([*weights, 0.0]), feature_names=names)


def put(store: Store, *policies: LivePolicy, shares: tuple[float, ...] = (1.0,), **options: Any) -> None:
    """Register policies, and deploy them with these shares."""
    with store.engine.begin() as connection:
        for policy in policies:
            register_policy(connection, policy, "test")
        parts = [Share(policy.name, share) for policy, share in zip(policies, shares, strict=True)]
        deploy(connection, parts, who="test", why="a test", **options)


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    """A service with one linear policy."""
    put(store, policy_of(linear(1.0, -0.5, 0.2), "start"))
    running = Service(store, ServiceSettings(top=3), rng=np.random.default_rng(5))
    yield running
    running.close()


@contextmanager
def serving(store: Store, settings: ServiceSettings | None = None, **options: Any) -> Iterator[str]:
    """A server on a free port of this machine; yields its URL."""
    server = build_server(store, settings, port=0, **options)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(600.0)
        assert not thread.is_alive()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Makes clients that are closed when the test ends."""
    clients: list[Client] = []

    def make(url: str, **options: Any) -> Client:
        clients.append(Client(url, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
