"""The live service: `/rank` against an endpoint of the same server that parses the body and returns it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.measure import Benchmark, Effort, Result, Target
from benchmarks.one_thread import any_threads
from rankloop.live import Service, ServiceSettings, open_store
from rankloop.live.http.app import build_app
from rankloop.live.http.messages import RankMessage, decode, encode
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.policies import deploy, register_policy
from rankloop.models import MLP

P50 = Target("live_p50_vs_echo", "times", "≤", 3.0)
P99 = Target("live_p99_vs_echo", "times", "≤", 3.0)
THROUGHPUT = Target("live_throughput_vs_echo", "times", "≥", 1 / 3)
FEATURES, CLIENTS, QUERIES = 50, 4, 50
# The sizes whose latencies are published; ratios are those of the second.
SIZES = (10, 100, 1000)
JUDGED = 100
BLOCKS = 5


@dataclass
class Timings:
    """Seconds of single requests, and of all of them together."""

    seconds: list[float] = field(default_factory=list)
    total: float = 0.0

    def percentile(self, percent: float) -> float:
        """A percentile of the latency, in milliseconds."""
        return float(np.percentile(self.seconds, percent)) * 1000

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.seconds) / self.total


def measure(effort: Effort) -> dict[str, Result]:
    """Measure with a server in a process of its own, and clients here; endpoints take turns."""
    found = run(effort.requests)
    echo, rank = found["/echo", JUDGED], found["/rank", JUDGED]
    published = "; ".join(
        f"{size:,} candidates: {found['/rank', size].percentile(50):.1f} and "
        f"{found['/rank', size].percentile(99):.1f} ms (echo {found['/echo', size].percentile(50):.1f} and "
        f"{found['/echo', size].percentile(99):.1f})"
        for size in SIZES
    )
    rates = f"{rank.rate:.0f} and {echo.rate:.0f} requests per second, {CLIENTS} clients, SQLite, network"
    return {
        P50.name: Result(rank.percentile(50) / echo.percentile(50), f"p50 and p99 with {published}"),
        P99.name: Result(
            rank.percentile(99) / echo.percentile(99), f"of {len(rank.seconds):,} requests each"
        ),
        THROUGHPUT.name: Result(rank.rate / echo.rate, rates),
    }


def run(requests: int) -> dict[tuple[str, int], Timings]:
    """Timings of each endpoint and size."""
    found = {(path, size): Timings() for size in SIZES for path in ("/echo", "/rank")}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.live", folder]
        server = subprocess.Popen(command, env=any_threads(), stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            bodies = {size: _bodies(size) for size in SIZES}
            for (path, size), timings in found.items():
                _load(port, path, bodies[size], 4 * CLIENTS, Timings())
                assert timings.total == 0.0
            for _ in range(BLOCKS):
                for (path, size), timings in found.items():
                    count = requests if size == JUDGED else max(requests // 10, CLIENTS)
                    _load(port, path, bodies[size], max(count // BLOCKS, CLIENTS), timings)
        finally:
            server.send_signal(signal.SIGINT)
            with server:  # closes its pipe
                server.wait(20)
    return found


def _bodies(candidates: int) -> list[bytes]:
    rng = np.random.default_rng(candidates)
    names = [f"feature_{number}" for number in range(FEATURES)]
    return [
        json.dumps(
            {
                "query": f"query {query}",
                "candidates": [
                    {"id": f"document-{number}", "features": dict(zip(names, row.tolist(), strict=True))}
                    for number, row in enumerate(rng.normal(size=(candidates, FEATURES)).round(4))
                ],
            }
        ).encode()
        for query in range(QUERIES)
    ]


def _load(port: int, path: str, bodies: list[bytes], requests: int, timings: Timings) -> None:
    lock = threading.Lock()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        own = []
        for count in range(requests // CLIENTS):
            body = bodies[(number + CLIENTS * count) % len(bodies)]
            begun = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            own.append(time.perf_counter() - begun)
            assert answer.status == 200
        connection.close()
        with lock:
            timings.seconds.extend(own)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    timings.total += time.perf_counter() - begun


async def _echo(request: Request) -> Response:
    message = decode(await request.body(), RankMessage)
    return Response(encode(message), media_type="application/json")


def serve(folder: str) -> None:
    """Serve until interrupted; print the port."""
    import uvicorn

    store = open_store(folder)
    names = tuple(f"feature_{number}" for number in range(FEATURES))
    model = MLP.initialise(FEATURES, np.random.default_rng(0), hidden=(32, 32))
    with store.engine.begin() as connection:
        register_policy(connection, policy_of(_named(model, names), "network"), "bench")
        deploy(connection, [Share("network", 1.0)], who="bench", why="bench")
    app = build_app(Service(store, ServiceSettings(max_body=20_000_000, model_seconds=5.0)), host="127.0.0.1")
    app.router.routes.append(Route("/echo", _echo, methods=["POST"]))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", access_log=False))

    def announce() -> None:
        while not server.started:
            time.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)

    threading.Thread(target=announce, daemon=True).start()
    server.run()
    os._exit(0)


def _named(model: MLP, names: tuple[str, ...]) -> MLP:
    from dataclasses import replace

    return replace(model, feature_names=names)


LIVE = Benchmark((P50, P99, THROUGHPUT), measure)

if __name__ == "__main__":
    serve(sys.argv[1])
