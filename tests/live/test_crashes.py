"""Nothing acknowledged is lost: the server and the sealing are killed at random moments, under load.

acknowledged ⊆ recovered ⊆ sent, and every event counts once
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from rankloop.live import Client, ServiceError, Store, sealing
from rankloop.live.store.database import read
from rankloop.live.store.tables import events, impressions
from tests.live.campaigns import campaign

SERVER = Path(__file__).with_name("crash_server.py")
CLIENTS = 3


class Load:
    """Clients who rank and click without pause, and remember what was sent and what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.port, self.stop = port, threading.Event()
        self.lock = threading.Lock()
        self.sent: set[str] = set()
        self.acknowledged: dict[str, list[str]] = {}
        self.clicks_sent: set[tuple[str, str]] = set()
        self.clicked: set[tuple[str, str]] = set()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _run(self, number: int) -> None:
        client, count = Client(f"http://127.0.0.1:{self.port}", retries=0, timeout=5.0), 0
        while not self.stop.is_set():
            count += 1
            name = f"client{number}-{count}"
            self.sent.add(name)
            try:
                shown = client.rank("q", {one: [float(count % 3)] for one in "wxyz"}, id=name)["ranking"]
                with self.lock:
                    self.acknowledged[name] = shown
                key = (name, shown[0])
                self.clicks_sent.add(key)
                event = {"id": f"{name}-click", "impression": name, "document": shown[0]}
                if client.send_events([event])["accepted"]:
                    self.clicked.add(key)
                # Sent twice, counted once.
                client.send_events([event])
            except (OSError, ServiceError):
                time.sleep(0.05)
        client.close()


def start(store: Store, location: str, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SERVER), location, str(store.log), str(port)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    client = Client(f"http://127.0.0.1:{port}", retries=0, timeout=2.0)
    for _ in range(600):
        assert process.poll() is None
        try:
            client.send("GET", "/readyz")
            break
        except (OSError, ServiceError):
            time.sleep(0.1)
    client.close()
    return process


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def crash(store: Store, location: str, times: int, seed: int) -> Load:
    """Kill the server at random moments and start it again, while clients go on."""
    rng, port = np.random.default_rng(seed), free_port()
    with Load(port) as load:
        for _ in range(times):
            process = start(store, location, port)
            time.sleep(rng.uniform(0.3, 1.5))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        process = start(store, location, port)
        time.sleep(1.0)
        load.stop.set()
        for thread in load.threads:
            thread.join()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return load


def check(store: Store, load: Load) -> None:
    sealing.seal(store, time.time() + 1)
    table = pq.read_table(store.log / "impressions.parquet").to_pylist()
    logged: dict[str, dict[int, str]] = {}
    for row in table:
        page = logged.setdefault(row["impression_id"], {})
        assert row["position"] not in page, "a row is in the log twice"
        page[row["position"]] = row["doc_id"]
    assert {*load.acknowledged} <= {*logged} <= load.sent
    for name, shown in load.acknowledged.items():
        assert [logged[name][place] for place in sorted(logged[name])] == shown
    clicked = {(row["impression_id"], row["doc_id"]) for row in table if row["clicked"]}
    assert load.clicked <= clicked <= load.clicks_sent
    with read(store) as connection:
        ids = connection.scalars(select(events.c.id)).all()
        assert connection.scalars(select(impressions.c.id).where(impressions.c.part.is_(None))).all() == []
    assert len(ids) == len({*ids})
    assert len(load.acknowledged) > 10


@pytest.mark.parametrize(
    "location", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
def test_killed_at_random_moments(store: Store, location: str) -> None:
    check(store, crash(store, location, 2, seed=1))


@pytest.mark.long
@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_a_replica_that_is_killed_costs_nothing(store: Store, location: str) -> None:
    """Two servers on one PostgreSQL: a client that asks the other one again loses nothing."""
    ports = [free_port(), free_port()]
    servers = [start(store, location, port) for port in ports]
    clients = [Client(f"http://127.0.0.1:{port}", retries=0, timeout=5.0) for port in ports]
    shown: dict[str, list[str]] = {}
    for count in range(60):
        if count == 20:
            os.kill(servers[0].pid, signal.SIGKILL)
            servers[0].wait()
        for client in (clients[count % 2], clients[1 - count % 2]):
            try:
                shown[f"r{count}"] = client.rank("q", {one: [0.0] for one in "xyz"}, id=f"r{count}")[
                    "ranking"
                ]
                break
            except OSError:
                continue
    assert len(shown) == 60
    os.kill(servers[1].pid, signal.SIGKILL)
    servers[1].wait()
    for client in clients:
        client.close()
    sealing.seal(store, time.time() + 1)
    rows = pq.read_table(store.log / "impressions.parquet").to_pylist()
    assert sorted({row["impression_id"] for row in rows}) == sorted(shown)
    assert len(rows) == sum(len(one) for one in shown.values())


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=campaign) for seed in range(1, 10))])
def test_killed_at_two_hundred_random_moments(store: Store, location: str, seed: int) -> None:
    """Twenty times for each of ten seeds, on SQLite and on PostgreSQL."""
    check(store, crash(store, location, 20, seed=100 + seed))
