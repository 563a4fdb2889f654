"""Traffic in which every page is new, beside traffic that repeats 50 pages: latency, memory, locks, storage.

    python -m experiments.live_long_tail 100000 RESULT.json

Two services run at the same time on this machine, so that both have the same share of it. Clients ask one,
then the other, without pause. In one world features, candidates and queries come from a long tail, and no
page is ever the same; the other repeats 50 pages. Beside each server, a process seals and notes how long its
transactions kept the lock of the database.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, event

from rankloop.live import Client, open_store
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.settings import LearnerSettings

WORLDS = ("repeating", "new")
CANDIDATES, FEATURES, PAGES, CLIENTS = 24, 20, 50, 2
NAMES = tuple(f"feature_{number}" for number in range(FEATURES))
# Exponent of the long tail: the most frequent of a million queries has a tenth of the traffic, about.
TAIL = 1.1
WINDOW = 60.0
# Pages of a block, for which latencies are reported.
BLOCK = 5_000


@dataclass
class Visits:
    """What the clients of one service measured.

    Attributes:
        seconds: of each request to rank.
        refused: requests that were not answered with 200.
    """

    seconds: list[float] = field(default_factory=list)
    refused: int = 0


def page(world: str, number: int, rng: np.random.Generator) -> dict[str, Any]:
    """A request to rank: one of fifty, or one that never came before."""
    if world == "repeating":
        number %= PAGES
        rng = np.random.default_rng(number)
    query = number if world == "repeating" else int(rng.zipf(TAIL) % 10**9)
    documents = rng.zipf(TAIL, size=4 * CANDIDATES) % 10**9
    documents = np.unique(np.concatenate([documents, rng.integers(10**9, size=CANDIDATES)]))[:CANDIDATES]
    values = rng.normal(size=(CANDIDATES, FEATURES)).round(4).tolist()
    candidates = [
        {"id": f"d{document}", "features": dict(zip(NAMES, row, strict=True))}
        for document, row in zip(documents, values, strict=True)
    ]
    return {"query": f"query {query}", "candidates": candidates}


def visit(ports: dict[str, int], visits: dict[str, Visits], pages: int, seed: int) -> None:
    """Ask each service in turn, and click on the first document of every other page."""
    rng = np.random.default_rng(seed)
    connections = {
        world: http.client.HTTPConnection("127.0.0.1", port, timeout=60) for world, port in ports.items()
    }

    def post(world: str, path: str, message: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        body, connection = json.dumps(message).encode(), connections[world]
        begun = time.perf_counter()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        return time.perf_counter() - begun, answer.status, json.loads(content)

    for count in range(pages):
        for world in WORLDS:
            seconds, status, shown = post(world, "/rank", page(world, CLIENTS * count + seed, rng))
            visits[world].seconds.append(seconds)
            visits[world].refused += status != 200
            if status == 200 and count % 2:
                click = {"impression": shown["impression"], "document": shown["ranking"][0]}
                post(world, "/events", {"events": [click]})
    for connection in connections.values():
        connection.close()


@contextmanager
def serving(folder: str) -> Iterator[tuple[int, int]]:
    """A server without upkeep, and a process that seals; yields the server's id and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = "from rankloop.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", folder, "--port", str(port), "--no-upkeep"]
    server = subprocess.Popen([*command, "--features", ",".join(NAMES)])
    client = Client(f"http://127.0.0.1:{port}", retries=10)
    client.send("GET", "/readyz")
    client.close()
    sealer = subprocess.Popen([sys.executable, "-m", "experiments.live_long_tail", "--seal", folder])
    try:
        yield server.pid, port
    finally:
        for process in (sealer, server):
            process.terminate()
            process.wait(60)


def seal_and_note(folder: str) -> None:
    """Seal until stopped, as the learner does, and note how long each transaction kept the lock."""
    store = open_store(folder)
    begun: dict[Connection, float] = {}

    def begin(connection: Connection) -> None:
        begun[connection] = time.perf_counter()

    with (Path(folder) / "locks").open("a", buffering=1) as notes:

        def commit(connection: Connection) -> None:
            if not connection.get_execution_options().get("rankloop_reads", False):
                notes.write(f"{time.perf_counter() - begun.pop(connection):.5f}\n")

        # Listeners are called in their order: the one of the store, which waits for the lock, comes first.
        event.listen(store.engine, "begin", begin)
        event.listen(store.engine, "commit", commit)
        learner = LiveLearner(store, LearnerSettings(window=WINDOW), sealing_only=True)
        while True:
            learner.step()
            time.sleep(1.0)


def sample(process: int, folder: str) -> dict[str, float]:
    """Memory of a server in MB, sizes of its store, and the locks of sealing so far, in milliseconds."""
    status = Path(f"/proc/{process}/status").read_text()
    memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    noted = Path(folder) / "locks"
    locks = [float(line) for line in noted.read_text().split()] if noted.exists() else []
    noted.unlink(missing_ok=True) if not locks else noted.write_text("")
    parts = sum(file.stat().st_size for file in (Path(folder) / "log").rglob("part-*"))
    return {
        "memory": int(memory.split()[1]) / 1024,
        "database": (Path(folder) / "store.sqlite").stat().st_size,
        "log": parts,
        "lock p50": round(float(np.median(locks)) * 1000, 1) if locks else 0.0,
        "lock max": round(max(locks, default=0.0) * 1000, 1),
        "transactions": len(locks),
    }


def run(pages: int, file: Path) -> None:
    """Visit both, and write what was measured after every block."""
    blocks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        folders = dict(zip(WORLDS, (first, second), strict=True))
        with serving(first) as one, serving(second) as two:
            servers = dict(zip(WORLDS, (one, two), strict=True))
            ports = {world: port for world, (_, port) in servers.items()}
            for _ in range(max(pages // BLOCK, 1)):
                visits = {world: Visits() for world in WORLDS}
                threads = [
                    threading.Thread(target=visit, args=(ports, visits, BLOCK // CLIENTS, seed))
                    for seed in (len(blocks) * CLIENTS + client for client in range(CLIENTS))
                ]
                begun = time.perf_counter()
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                block: dict[str, Any] = {
                    "pages": (len(blocks) + 1) * BLOCK,
                    "seconds": round(time.perf_counter() - begun, 1),
                    "load": os.getloadavg()[0],
                }
                for world in WORLDS:
                    times = np.array(visits[world].seconds) * 1000
                    block[world] = {
                        "p50": round(float(np.percentile(times, 50)), 1),
                        "p99": round(float(np.percentile(times, 99)), 1),
                        "longest": round(float(times.max()), 1),
                        "refused": visits[world].refused,
                        **sample(servers[world][0], folders[world]),
                    }
                blocks.append(block)
                file.write_text(json.dumps(blocks, indent=1) + "\n")
                print(json.dumps(block), flush=True)


def main() -> None:
    """Run, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m experiments.live_long_tail", description=__doc__)
    parser.add_argument("pages", type=int, nargs="?", default=100_000, help="how many pages of each world")
    parser.add_argument("file", type=Path, nargs="?", help="where to write what was measured")
    parser.add_argument("--seal", help="seal this store until stopped; for the experiment itself")
    options = parser.parse_args()
    if options.seal is not None:
        seal_and_note(options.seal)
    run(options.pages, options.file)


if __name__ == "__main__":
    main()
