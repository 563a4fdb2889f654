"""A long run of the live service: is its log worth what the simulator's own count is, and does memory grow?

    python -m experiments.live_traffic http 100000 RESULT.json      # over HTTP, to `rankloop serve`
    python -m experiments.live_traffic service 1000000 RESULT.json  # in this process, without HTTP

Two policies, a linear model and a random order, share the traffic. Simulated users count what they were shown
and what they clicked. In the end everything is sealed, and the weights that `fit` learns from are computed
twice: from the sealed log, and from what the users counted, as the simulator does it. Memory, threads and
open files of the process that serves are noted along the way.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rankloop import estimator, open_log
from rankloop.clicks import bias_of, users
from rankloop.live import Client, RankRequest, Service, ServiceSettings, Store, open_store, seal
from rankloop.live.demo import FEATURE_NAMES, shop
from rankloop.live.drive import Crowd, DriveOptions, RankingClient, visit_often
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.policies import deploy, register_policy
from rankloop.models import Linear
from rankloop.policies import expected_rank_weights
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Split

USERS, RANKS, CLIENTS, SAMPLES = "paper@5", 5, 4, 40
SHARES = {"model": 0.7, "shuffle": 0.3}
METHOD = "intervention-aware(average=query)"
# Events come within milliseconds; a minute is a lot even on a busy machine.
WINDOW = 60.0


class Counts:
    """What users were shown and what they clicked, counted as the simulator counts it.

    Attributes:
        queries: by policy, impressions of each query.
        displays: by policy, documents × ranks.
        clicks: by policy, documents × ranks.
    """

    def __init__(self, split: Split) -> None:
        shape = (split.n_documents, RANKS)
        self.queries = {policy: np.zeros(split.n_queries, np.int64) for policy in SHARES}
        self.displays = {policy: np.zeros(shape, np.int64) for policy in SHARES}
        self.clicks = {policy: np.zeros(shape, np.int64) for policy in SHARES}


class Witness:
    """A client that counts what it is answered and what it reports.

    Args:
        client: what it asks.
        split: where the documents come from.
        counts: where it counts; shared by all clients.
        lock: held while it counts.
    """

    def __init__(self, client: RankingClient, split: Split, counts: Counts, lock: threading.Lock) -> None:
        self._client, self._counts, self._lock = client, counts, lock
        self._queries = {str(name): number for number, name in enumerate(split.query_ids)}
        self._policy, self._ranks = "", dict[int, int]()

    def rank(self, query: str, candidates: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
        """Ask, and count the answer."""
        answer = self._client.rank(query, candidates, **options)
        self._policy = answer["policy"]
        self._ranks = {document_of(one): rank for rank, one in enumerate(answer["ranking"])}
        with self._lock:
            self._counts.queries[self._policy][self._queries[query]] += 1
            for document, rank in self._ranks.items():
                self._counts.displays[self._policy][document, rank] += 1
        return answer

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> object:
        """Report clicks, and count them."""
        with self._lock:
            for one in events:
                document = document_of(one["document"])
                self._counts.clicks[self._policy][document, self._ranks[document]] += 1
        return self._client.send_events(events)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class InProcess:
    """A client of the service in this process; its writes are waited for now and then.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.service = Service(store, ServiceSettings(top=RANKS), names=FEATURE_NAMES)
        self._events: list[UserEvent] = []
        self._stored: Any = None
        self._served = 0

    def rank(self, query: str, candidates: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """Rank at once, and store it soon."""
        if self._served and self._served % 500 == 0:
            self.flush()
            # Between two pages, so that no click comes after its page was sealed.
            if self._served % 20_000 == 0:
                seal(self.store, time.time())
        asked = RankRequest(query, tuple(candidates), tuple(candidates.values()))
        served = self.service.serve(self.service.draft(asked), self.service.choose())
        self._stored = self.service.keep(served)
        self._served += 1
        return {"impression": served.id, "ranking": [*served.shown.values()], "policy": served.policy.name}

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Remember clicks until the next write."""
        self._events += [UserEvent(one["impression"], one["document"]) for one in events]

    def flush(self) -> None:
        """Write everything."""
        self._stored.result()
        batch, self._events = self._events, []
        self.service.writer.submit(lambda connection: record_events(connection, batch, time.time())).result()

    def close(self) -> None:
        """Write everything, and stop."""
        self.flush()
        self.service.close()


def model() -> Linear:
    """The linear model that serves most of the traffic."""
    weights = np.random.default_rng(7).normal(size=len(FEATURE_NAMES))
    return Linear(len(FEATURE_NAMES), np.append(weights, 0.0), feature_names=FEATURE_NAMES)


def begin(folder: str) -> Store:
    """A store with both policies deployed."""
    store = open_store(folder)
    with store.engine.begin() as connection:
        for policy in (policy_of(model(), "model"), LivePolicy("shuffle", "uniform")):
            register_policy(connection, policy, "experiment")
        deploy(connection, [Share(*one) for one in SHARES.items()], who="experiment", why="the beginning")
    return store


@contextmanager
def serving(folder: str) -> Iterator[tuple[int, str]]:
    """`rankloop serve` as a process of its own; yields its id and its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = "from rankloop.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", folder, "--port", str(port), "--window", str(WINDOW)]
    process = subprocess.Popen([*command, "--features", ",".join(FEATURE_NAMES), "--top", str(RANKS)])
    client = Client(f"http://127.0.0.1:{port}", retries=8)
    try:
        client.send("GET", "/readyz")
        yield process.pid, f"http://127.0.0.1:{port}"
    finally:
        client.close()
        process.terminate()
        process.wait(60)


def sample(process: int, pages: int) -> dict[str, int]:
    """Memory in kilobytes, threads and open files of a process."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines() if ":" in line
    )
    files = len([*Path(f"/proc/{process}/fd").iterdir()])
    return {
        "pages": pages,
        "kilobytes": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "files": files,
    }


def watch(process: int, crowd: Crowd, threads: Sequence[threading.Thread]) -> list[dict[str, int]]:
    """Samples while the threads run, about forty of them."""
    samples, step = [sample(process, 0)], crowd.options.impressions / SAMPLES
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.2)
        if crowd.result.impressions >= step * len(samples):
            samples.append(sample(process, crowd.result.impressions))
    return samples


def simulated_weights(everything: Split, counts: Counts) -> dict[str, float]:
    """The weights by document of queries that were asked, as the simulator computes them from its counts."""
    bias = bias_of(users(USERS))
    asked = np.flatnonzero(sum(counts.queries.values()))
    split = everything.select(asked)
    documents = np.concatenate([np.arange(*everything.offsets[query : query + 2]) for query in asked])
    vectors = np.stack([bias.alpha, bias.beta, bias.examination])
    parts = []
    for policy in SHARES:
        scores = model().scores(split.features) if policy == "model" else np.zeros(split.n_documents)
        parts.append(
            Statistics.of_policy(
                policy,
                split.offsets,
                Exposure(*expected_rank_weights(scores, split.offsets, vectors).T),
                impressions_by_query=counts.queries[policy][asked],
                displays_by_position=counts.displays[policy][documents],
                clicks_by_position=counts.clicks[policy][documents],
            )
        )
    weights = estimator(METHOD).weights(parts[0] + parts[1], bias)
    return dict(
        zip((document_name(everything, document) for document in documents), weights.tolist(), strict=True)
    )


def sealed_weights(folder: Path) -> tuple[dict[str, float], int]:
    """The weights by document, from a sealed log, and its number of impressions."""
    log, bias = open_log(folder), bias_of(users(USERS))
    found = log.statistics(bias)
    documents = log.split().doc_ids
    assert documents is not None
    weights = estimator(METHOD).weights(found.statistics, bias)
    return dict(zip(documents.tolist(), weights.tolist(), strict=True)), found.statistics.impressions


def run(kind: str, impressions: int, folder: str) -> dict[str, Any]:
    """Run, seal and compare."""
    split = shop()
    crowd = Crowd(split, DriveOptions(USERS, impressions))
    store = begin(folder)
    begun = time.perf_counter()
    if kind == "http":
        with serving(folder) as (process, url):
            samples, counts = visit(process, crowd, [Client(url) for _ in range(CLIENTS)])
    else:
        samples, counts = visit(os.getpid(), crowd, [InProcess(store)])
    seconds = time.perf_counter() - begun
    seal(store, time.time() + 1)
    weights, sealed = sealed_weights(store.log)
    store.close()
    own = simulated_weights(split, counts)
    assert set(own) == set(weights)
    largest = max(abs(one) for one in own.values())
    return {
        "kind": kind,
        "pages": int(sum(each.sum() for each in counts.queries.values())),
        "impressions": sealed,
        "clicks": int(sum(each.sum() for each in counts.clicks.values())),
        "refused": crowd.result.refused,
        "seconds": round(seconds, 1),
        "difference": max(abs(own[one] - weights[one]) for one in own) / largest,
        "slope": slope(samples),
        "samples": samples,
    }


def document_name(split: Split, document: int) -> str:
    """What simulated users call a document."""
    query = int(np.searchsorted(split.offsets, document, "right")) - 1
    return f"{split.query_ids[query]}-{document}"


def document_of(document: str) -> int:
    """The document that simulated users call by this name.

    >>> document_of("q7-31")
    31
    """
    return int(document.rpartition("-")[2])


def visit(
    process: int, crowd: Crowd, clients: Sequence[RankingClient]
) -> tuple[list[dict[str, int]], Counts]:
    """Let users visit until there were enough; samples of a process, and what the users counted."""
    counts, lock = Counts(crowd.split), threading.Lock()
    threads = [
        threading.Thread(
            target=visit_often,
            args=(crowd, Witness(client, crowd.split, counts, lock), np.random.default_rng([0, number])),
        )
        for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    return watch(process, crowd, threads), counts


def slope(samples: Sequence[Mapping[str, int]]) -> float:
    """By how many bytes memory grows per page, in the second half: caches are filled in the first."""
    half = samples[len(samples) // 2 :]
    pages = np.array([one["pages"] for one in half])
    size = np.array([one["kilobytes"] for one in half]) * 1024
    return float(np.polyfit(pages, size, 1)[0]) if len({*pages.tolist()}) > 1 else 0.0


def main() -> None:
    """Run, and write what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.live_traffic", description="A long run of the live service."
    )
    parser.add_argument("kind", choices=("http", "service"), help="over HTTP, or the service in this process")
    parser.add_argument("impressions", type=int, help="how many pages users look at")
    parser.add_argument("file", type=Path, help="where to write what was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(options.kind, options.impressions, folder)
    options.file.write_text(json.dumps(found, indent=1) + "\n")
    print({name: value for name, value in found.items() if name != "samples"})


if __name__ == "__main__":
    main()
