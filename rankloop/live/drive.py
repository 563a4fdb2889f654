"""Simulated users who rank and click over HTTP: for demonstrations, for tests, and as a load generator."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rankloop.clicks import relevance as relevance_named
from rankloop.clicks import users as users_named
from rankloop.clicks.simulation import click_page
from rankloop.errors import RankloopError
from rankloop.live.client import Client, ServiceError
from rankloop.rank_weights import dcg
from rankloop.types import Float64, Split

# Pages that a line of progress is about.
RECENT = 1000


@dataclass(frozen=True)
class DriveOptions:
    """What simulated users do.

    Attributes:
        users: how they click, such as ``paper@5``; their cut-off is the number of documents shown.
        impressions: how many pages they look at.
        concurrency: how many of them are there at once.
        pause: seconds between two pages of one user, on average.
        inverted: whether they click what is irrelevant, to see that nothing is learned from it.
        seed: random seed.
        order_noise: how noisy the order is in which callers list candidates, in units of a label.
    """

    users: str = "paper@5"
    impressions: int = 10_000
    concurrency: int = 4
    pause: float = 0.0
    inverted: bool = False
    seed: int = 0
    order_noise: float = 1.5


@dataclass
class DriveResult:
    """What happened, from the side of the users.

    Attributes:
        impressions: pages that were shown.
        clicks: clicks on them.
        refused: requests that were refused, or got no answer.
        seconds: how long each of the last requests to rank took.
        quality: NDCG of each of the last pages, by the true labels.
        policies: pages by policy.
    """

    impressions: int = 0
    clicks: int = 0
    refused: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    quality: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    policies: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """The last thousand pages in one line."""
        took = np.array(self.seconds or [0.0]) * 1000
        return (
            f"{self.impressions:,} pages, {self.clicks / max(self.impressions, 1):.3f} clicks per page, "
            f"NDCG of the last thousand {np.mean(self.quality or [0.0]):.4f}, "
            f"p50 {np.percentile(took, 50):.1f} ms, p99 {np.percentile(took, 99):.1f} ms, "
            f"refused {self.refused:,}"
        )


class RankingClient(Protocol):
    """What simulated users need of a client."""

    def rank(self, query: str, candidates: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
        """Ask for a ranking."""

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> object:
        """Report clicks."""

    def close(self) -> None:
        """Close its connection."""


def check_service(url: str, key: str | None = None) -> None:
    """Ask whether a service is there.

    Raises:
        RankloopError: nothing answers, or something else does.
    """
    client = Client(url, key=key, retries=0)
    try:
        client.send("GET", "/healthz")
    except (OSError, ServiceError, ValueError) as error:
        raise RankloopError(
            f"there is no service at {url}: {error}; `rankloop serve STORE` starts one"
        ) from error
    finally:
        client.close()


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

    Raises:
        RankloopError: there is no service.
    """
    check_service(url, key)
    result, lock, stopped = DriveResult(), threading.Lock(), stop or threading.Event()
    crowd = Crowd(split, options, result, lock)
    threads = [
        threading.Thread(
            target=visit_often,
            args=(crowd, Client(url, key=key), np.random.default_rng([options.seed, number]), stopped),
            daemon=True,
        )
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


def visit_often(
    crowd: Crowd, client: RankingClient, rng: np.random.Generator, stop: threading.Event | None = None
) -> None:
    """Visit until there were enough visits, or until told to stop."""
    stop = stop or threading.Event()
    while not stop.is_set() and crowd.begins():
        try:
            crowd.visit(client, rng)
        except (OSError, ServiceError):
            crowd.refused()
            stop.wait(0.2)
        if crowd.options.pause:
            stop.wait(rng.exponential(crowd.options.pause))
    client.close()


@dataclass
class Crowd:
    """Simulated users, who may visit from several threads.

    Attributes:
        split: queries and documents.
        options: what they do.
        result: what happened so far.
        lock: held while the result is changed.
        begun: visits that were begun.
    """

    split: Split
    options: DriveOptions
    result: DriveResult = field(default_factory=DriveResult)
    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: int = 0

    def __post_init__(self) -> None:
        self.people = users_named(self.options.users)
        self.ranks = self.people.behaviour.positions
        self.relevance: Float64 = relevance_named("linear").of(self.split.labels)
        self.weights = dcg(self.ranks)

    def begins(self) -> bool:
        """Begin a visit; False if there were enough."""
        with self.lock:
            self.begun += 1
            return self.begun <= self.options.impressions

    def refused(self) -> None:
        """Count a visit that got no answer."""
        with self.lock:
            self.result.refused += 1

    def visit(self, client: RankingClient, rng: np.random.Generator) -> None:
        """Ask for the ranking of a random query, and click."""
        query = int(rng.integers(self.split.n_queries))
        own = np.arange(self.split.offsets[query], self.split.offsets[query + 1])
        noise = self.options.order_noise * _noise(query, len(own))
        own = own[np.argsort(-(self.split.labels[own] + noise))]
        name = str(self.split.query_ids[query])
        documents = {f"{name}-{document}": self.split.features[document].tolist() for document in own}
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
            self.result.impressions += 1
            self.result.clicks += int(clicked.sum())
            self.result.seconds.append(took)
            self.result.quality.append(float(relevant @ self.weights[: len(shown)]) / ideal if ideal else 1.0)
            policy = answer["policy"]
            self.result.policies[policy] = self.result.policies.get(policy, 0) + 1


def _noise(query: int, documents: int) -> Float64:
    """The same for a query whenever it comes: callers list its candidates in one order."""
    return np.random.default_rng(query).normal(size=documents)
