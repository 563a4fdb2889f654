"""Simulated users who rank and click over HTTP: for demonstrations, for tests, and as a load generator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rankloop.clicks import relevance as relevance_named
from rankloop.clicks import users as users_named
from rankloop.clicks.simulation import click_page
from rankloop.live.client import Client, ServiceError
from rankloop.rank_weights import dcg
from rankloop.types import Float64, Split

# How noisy the order is in which simulated callers list candidates, in units of a label.
ORDER_NOISE = 1.5


@dataclass(frozen=True)
class DriveOptions:
    """What simulated users do.

    Attributes:
        users: how they click, such as ``paper@5``; their cut-off is the number of documents shown.
        interactions: how many pages they look at.
        concurrency: how many of them are there at once.
        pause: seconds between two pages of one user, on average.
        inverted: whether they click what is irrelevant, to see that nothing is learned from it.
        seed: random seed.
    """

    users: str = "paper@5"
    interactions: int = 10_000
    concurrency: int = 4
    pause: float = 0.0
    inverted: bool = False
    seed: int = 0


@dataclass
class DriveResult:
    """What happened, from the side of the users.

    Attributes:
        interactions: pages that were shown.
        clicks: clicks on them.
        refused: requests that were refused, or got no answer.
        seconds: how long each request to rank took.
        quality: NDCG of each page, by the true labels.
        policies: pages by policy.
    """

    interactions: int = 0
    clicks: int = 0
    refused: int = 0
    seconds: list[float] = field(default_factory=list)
    quality: list[float] = field(default_factory=list)
    policies: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """The last thousand pages in one line."""
        last = slice(-1000, None)
        took = np.array(self.seconds[last] or [0.0]) * 1000
        return (
            f"{self.interactions:,} pages, {self.clicks / max(self.interactions, 1):.3f} clicks per page, "
            f"NDCG of the last thousand {np.mean(self.quality[last] or [0.0]):.4f}, "
            f"p50 {np.percentile(took, 50):.1f} ms, p99 {np.percentile(took, 99):.1f} ms, "
            f"refused {self.refused:,}"
        )


def drive(
    url: str,
    split: Split,
    options: DriveOptions,
    *,
    key: str | None = None,
    tell: Callable[[DriveResult], None] | None = None,
    stop: threading.Event | None = None,
) -> DriveResult:
    """Send simulated users to a service.

    Args:
        url: where the service is.
        split: queries and documents; features are sent in their order, and labels decide the clicks.
        options: what the users do.
        key: the key to authenticate with.
        tell: called every few seconds with the result so far.
        stop: set to stop early.
    """
    result, lock, stopped = DriveResult(), threading.Lock(), stop or threading.Event()
    crowd = _Crowd(url, split, options, key, result, lock, stopped)
    threads = [
        threading.Thread(target=crowd.run, args=(np.random.default_rng([options.seed, number]),), daemon=True)
        for number in range(options.concurrency)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stopped.wait(2.0) if tell is not None else threads[0].join(2.0)
        for thread in threads:
            thread.join(0.0 if tell is not None and not stopped.is_set() else 2.0)
        if tell is not None:
            with lock:
                tell(result)
    return result


@dataclass
class _Crowd:
    url: str
    split: Split
    options: DriveOptions
    key: str | None
    result: DriveResult
    lock: threading.Lock
    stop: threading.Event
    begun: int = 0

    def __post_init__(self) -> None:
        self.people = users_named(self.options.users)
        self.ranks = self.people.behaviour.ranks
        self.relevance: Float64 = relevance_named("linear").of(self.split.labels)
        self.weights = dcg(self.ranks)

    def run(self, rng: np.random.Generator) -> None:
        client = Client(self.url, key=self.key)
        while not self.stop.is_set():
            with self.lock:
                if self.begun >= self.options.interactions:
                    break
                self.begun += 1
            try:
                self._visit(client, rng)
            except (OSError, ServiceError):
                with self.lock:
                    self.result.refused += 1
                self.stop.wait(0.2)
            if self.options.pause:
                self.stop.wait(rng.exponential(self.options.pause))
        client.close()

    def _visit(self, client: Client, rng: np.random.Generator) -> None:
        query = int(rng.integers(self.split.n_queries))
        own = np.arange(self.split.offsets[query], self.split.offsets[query + 1])
        own = own[np.argsort(-(self.split.labels[own] + ORDER_NOISE * _noise(query, len(own))))]
        name = str(self.split.query_ids[query])
        documents = {f"{name}-{item}": self.split.features[item].tolist() for item in own}
        begun = time.perf_counter()
        answer = client.rank(name, documents, top=self.ranks)
        took = time.perf_counter() - begun
        shown = [int(one.rpartition("-")[2]) for one in answer["ranking"]]
        relevant = self.relevance[shown]
        clicked = click_page(self.people, 1.0 - relevant if self.options.inverted else relevant, rng)
        if clicked.any():
            chosen = [one for one, yes in zip(answer["ranking"], clicked, strict=True) if yes]
            client.send_events([{"impression": answer["impression"], "document": one} for one in chosen])
        ideal = float(np.sort(self.relevance[own])[::-1][: self.ranks] @ self.weights[: len(own)])
        with self.lock:
            self.result.interactions += 1
            self.result.clicks += int(clicked.sum())
            self.result.seconds.append(took)
            self.result.quality.append(float(relevant @ self.weights[: len(shown)]) / ideal if ideal else 1.0)
            policy = answer["policy"]
            self.result.policies[policy] = self.result.policies.get(policy, 0) + 1


def _noise(query: int, documents: int) -> Float64:
    """The same for a query whenever it comes: callers list its candidates in one order."""
    return np.random.default_rng(query).normal(size=documents)
