"""Benchmarks, their targets and results, and timing on a shared machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time


@dataclass(frozen=True)
class Target:
    """A quantity to measure, and the value that it should reach.

    Attributes:
        name: the name in the table and in the file.
        unit: the unit of the value.
        sign: ``≥`` if more is better, ``≤`` if less is.
        bound: the lowest or highest acceptable value.
    """

    name: str
    unit: str
    sign: str
    bound: float

    def met(self, value: float) -> bool:
        """Return whether the value meets the target.

        >>> Target("speed", "times", "≥", 5).met(4.9)
        False
        """
        return value >= self.bound if self.sign == "≥" else value <= self.bound


@dataclass(frozen=True)
class Result:
    """A measured value, and a note with the details that a reader needs to judge it."""

    value: float
    note: str


@dataclass(frozen=True)
class Effort:
    """How much work a run does.

    Attributes:
        queries: number of queries that are timed together.
        judged: number of queries that are compared with the reference values.
        rounds: number of timings; the best one counts.
        steps: number of queries in the epoch that is timed.
        held: number of queries of the data set that is held in memory.
        loop_queries: number of queries of the loop.
        loop_impressions: number of impressions of the loop.
        log_rows: number of rows of the log that is counted.
        requests: number of requests to the live service, per endpoint and size.
    """

    queries: int
    judged: int
    rounds: int
    steps: int
    held: int
    loop_queries: int
    loop_impressions: int
    log_rows: int
    requests: int


# Set 1 of the Yahoo! learning-to-rank challenge has 29,921 queries.
FULL = Effort(
    queries=200,
    judged=40,
    rounds=15,
    steps=1_000,
    held=29_921,
    loop_queries=2_000,
    loop_impressions=10**7,
    log_rows=10**8,
    requests=3_000,
)
QUICK = Effort(
    queries=20,
    judged=4,
    rounds=3,
    steps=50,
    held=300,
    loop_queries=60,
    loop_impressions=20_000,
    log_rows=200_000,
    requests=40,
)


@dataclass(frozen=True)
class Benchmark:
    """One measurement, for one or more targets.

    Attributes:
        targets: what is measured.
        run: measures; returns one result per target, by name.
    """

    targets: tuple[Target, ...]
    run: Callable[[Effort], dict[str, Result]]


def best_times(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    """Measure the seconds of CPU time that each job takes in its best round.

    CPU time, summed over all threads, does not include waiting for a core. Other disturbances on a shared
    machine only add time, so the smallest measurement is the most accurate. Jobs take turns within a round,
    so that a slow minute affects all of them. A first round, which loads kernels and fills caches, is not
    timed.
    """
    best = [float("inf")] * len(jobs)
    for job in jobs:
        job()
    for _ in range(rounds):
        for i, job in enumerate(jobs):
            start = process_time()
            job()
            best[i] = min(best[i], process_time() - start)
    return best
