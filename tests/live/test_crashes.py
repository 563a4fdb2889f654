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
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from rankloop import open_log
from rankloop.clicks import bias_of, users
from rankloop.live import Client, ServiceError, Store, sealing
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.notes import TRIALS, load_note
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.store.database import read
from rankloop.live.store.parts import sealed_parts
from rankloop.live.store.policies import history
from rankloop.live.store.tables import events, impressions
from tests.live.campaigns import campaign, report
from tests.live.crash_processes import LEARNING

ROOT = Path(__file__).parents[2]
CLIENTS = 3
# Seconds between two pages of a client: enough writes at once, without keeping the machine busy for nothing.
PAUSE = 0.02
# How much users like each document. It is the document's feature, too.
LIKED = {"w": 0.0, "x": 1.0, "y": 3.0, "z": 2.0}
# Exponent of the long tail that queries and documents come from where every page is new.
TAIL = 1.3
traffic = pytest.mark.parametrize("repeats", [False, True], ids=["new", "repeating"])


def page(count: int, rng: np.random.Generator | None) -> tuple[str, dict[str, float]]:
    """A query, and how much users like its documents: three pages that repeat, or a page that is new."""
    if rng is None:
        return "q", {document: liked + count % 3 for document, liked in LIKED.items()}
    documents = [f"d{number}" for number in rng.zipf(TAIL, size=3) % 10**6]
    liked = dict(zip([*documents, f"new{count}"], rng.uniform(0.0, 4.0, size=4).tolist(), strict=True))
    return f"q{rng.zipf(TAIL) % 10**6}", liked


class Load:
    """Clients who rank and click without pause, and remember what was sent and what was acknowledged.

    They click their favourite on one page and the first document on the next: there is something to learn.
    Learners refuse logs whose clicks are all at one rank.
    """

    def __init__(self, port: int, seed: int, *, repeats: bool) -> None:
        self.port, self.seed, self.repeats = port, seed, repeats
        self.stop = threading.Event()
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
        rng = None if self.repeats else np.random.default_rng([self.seed, number])
        while not self.stop.is_set():
            count += 1
            name = f"client{number}-{count}"
            self.sent.add(name)
            try:
                query, liked = page(count, rng)
                features = {document: [value] for document, value in liked.items()}
                shown = client.rank(query, features, id=name)["ranking"]
                with self.lock:
                    self.acknowledged[name] = shown
                chosen = max(shown, key=liked.__getitem__) if count % 2 else shown[0]
                key = (name, chosen)
                self.clicks_sent.add(key)
                event = {"id": f"{name}-click", "impression": name, "document": chosen}
                if client.send_events([event])["accepted"]:
                    self.clicked.add(key)
                # Sent twice, counted once.
                client.send_events([event])
            except (OSError, ServiceError):
                pass
            time.sleep(PAUSE)
        client.close()


class Processes:
    """Servers and learners that can be killed."""

    def __init__(self, location: str, log: Path) -> None:
        command = [sys.executable, "-m", "tests.live.crash_processes", location, str(log)]
        self._factory = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._factory.stdin is not None
        self._factory.stdin.close()
        with self._factory:  # closes its pipes
            self._factory.wait(600)

    def start(self, *words: object) -> int:
        """Start a process, and return its id."""
        assert self._factory.stdin is not None
        assert self._factory.stdout is not None
        print(*words, file=self._factory.stdin, flush=True)
        return int(self._factory.stdout.readline())

    def serve(self, port: int) -> int:
        """Start a server, wait until it is ready, and return its id."""
        process = self.start("server", port)
        client = Client(f"http://127.0.0.1:{port}", retries=0, timeout=5.0)
        for _ in range(1200):
            try:
                client.send("GET", "/readyz")
                break
            except (OSError, ServiceError):
                assert is_running(process)
                time.sleep(0.05)
        client.close()
        return process


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def kill(process: int) -> None:
    """Kill a process, and wait until it is gone."""
    os.kill(process, signal.SIGKILL)
    while is_running(process):
        time.sleep(0.005)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def crash(store: Store, location: str, times: int, seed: int, *, repeats: bool) -> Load:
    """Kill server and learners at random moments and start them again, while clients go on.

    A learner is started before the one before is killed: for a moment there are two.
    """
    rng, port = np.random.default_rng(seed), free_port()
    with Processes(location, store.log) as processes, Load(port, seed, repeats=repeats) as load:
        server, learners = processes.serve(port), [processes.start("learner")]
        for _ in range(times):
            time.sleep(rng.uniform(0.2, 1.2))
            kill(server)
            if rng.random() < 0.7:
                learners.append(processes.start("learner"))
                time.sleep(rng.uniform(0.0, 0.2))
                kill(learners.pop(0))
            server = processes.serve(port)
        time.sleep(1.0)
        load.stop.set()
        for thread in load.threads:
            thread.join()
        for process in (server, *learners):
            kill(process)
    return load


def check(store: Store, load: Load) -> None:
    # Another learner finishes what those that were killed began.
    learner = LiveLearner(store, LEARNING.model_copy(update={"window": 0.0}))
    for _ in range(2):
        learner.step()
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
    check_log(store)
    check_evidence(store)


def check_log(store: Store) -> None:
    """The log is what a process that was never disturbed writes: equal to the byte, and so are statistics."""
    undisturbed = replace(store, log=store.log.with_name("undisturbed"))
    with read(store) as connection:
        numbers = [part["number"] for part in sealed_parts(connection)]
    for number in numbers:
        sealing.write_part(undisturbed, number, {})
    written, again = (
        {str(file.relative_to(log)): file.read_bytes() for file in log.rglob("part-*.parquet")}
        for log in (store.log, undisturbed.log)
    )
    assert written == again
    first, second = (
        open_log(log).statistics(bias_of(users("paper@3"))) for log in (store.log, undisturbed.log)
    )
    for policy, found in first.statistics.policies.items():
        other = second.statistics.policies[policy]
        assert np.array_equal(found.clicks, other.clicks)
        assert np.array_equal(found.exposure.alpha, other.exposure.alpha)


def check_evidence(store: Store) -> None:
    """The evidence of the trial is that of one count of its parts: equal to the bit."""
    learner = LiveLearner(store, LEARNING)
    trial = learner.trial
    with read(store) as connection:
        assert load_note(connection, TRIALS), "nothing was learned"
        kinds = Counter((one.kind, one.numbers.get("candidate")) for one in history(connection, 10_000))
    # Whatever was killed, and however many learners there were: each step was taken once.
    assert all(count == 1 for (kind, _), count in kinds.items() if kind in {"canary", "full"})
    if trial is None:
        return
    counted = LiveTrial.begin(
        trial.number,
        trial.candidate,
        trial.baseline,
        bias=trial.assumed_bias,
        mean=trial.mean,
        part=trial.since,
        settings=LEARNING,
    )
    for number in range(trial.since + 1, trial.part + 1):
        counted, _ = learner.count(counted, Trust(trial.baseline, trial.since), learner.read(number))
    assert (counted.gain, counted.served) == (trial.gain, trial.served)


@pytest.mark.parametrize(
    "location", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
def test_killed_at_random_moments(store: Store, location: str) -> None:
    """No two pages are the same."""
    check(store, crash(store, location, 2, seed=1, repeats=False))


@pytest.mark.long
@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_a_replica_that_is_killed_costs_nothing(store: Store, location: str) -> None:
    """Two servers on one PostgreSQL: a client that asks the other one again loses nothing."""
    ports = [free_port(), free_port()]
    shown: dict[str, list[str]] = {}
    with Processes(location, store.log) as processes:
        servers = [processes.serve(port) for port in ports]
        clients = [Client(f"http://127.0.0.1:{port}", retries=0, timeout=5.0) for port in ports]
        for count in range(60):
            if count == 20:
                kill(servers[0])
            for client in (clients[count % 2], clients[1 - count % 2]):
                with suppress(OSError):
                    answer = client.rank("q", {one: [0.0] for one in "xyz"}, id=f"r{count}")
                    shown[f"r{count}"] = answer["ranking"]
                    break
        kill(servers[1])
        for client in clients:
            client.close()
    assert len(shown) == 60
    sealing.seal(store, time.time() + 1)
    rows = pq.read_table(store.log / "impressions.parquet").to_pylist()
    assert sorted({row["impression_id"] for row in rows}) == sorted(shown)
    assert len(rows) == sum(len(one) for one in shown.values())


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=campaign) for seed in range(1, 10))])
@traffic
def test_killed_at_two_hundred_random_moments(
    store: Store, location: str, seed: int, *, repeats: bool
) -> None:
    """Twenty times for each of ten seeds, on SQLite and on PostgreSQL, for pages that are new or repeat."""
    load = crash(store, location, 20, seed=100 + seed, repeats=repeats)
    check(store, load)
    counted = {"sent": len(load.sent), "acknowledged": len(load.acknowledged), "clicks": len(load.clicked)}
    kind = "repeating" if repeats else "new"
    report("kills", store=store.engine.dialect.name, pages=kind, seed=seed, kills=20, **counted)
