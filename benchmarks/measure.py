"""What a benchmark is, and how long something takes on a machine that others use too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time


@dataclass(frozen=True)
class Target:
    """A number that is measured, and what it should be.

    Attributes:
        name: its name in the table and in the file.
        unit: of what is measured.
        sign: ``≥`` where more is better, ``≤`` where less is.
        bound: the least or the most that is wanted.
    """

    name: str
    unit: str
    sign: str
    bound: float

    def met(self, value: float) -> bool:
        """Whether the value is as wanted.

        >>> Target("speed", "times", "≥", 5).met(4.9)
        False
        """
        return value >= self.bound if self.sign == "≥" else value <= self.bound


@dataclass(frozen=True)
class Result:
    """What came out: the number, and what a reader must know to judge it."""

    value: float
    note: str


@dataclass(frozen=True)
class Effort:
    """How much work a run does.

    Attributes:
        queries: how many queries are timed together.
        judged: how many queries are compared with the truth.
        rounds: how often everything is timed; the best round counts.
        steps: queries in the epoch that is timed.
        held: queries of the data set that is held in memory.
        loop_queries: queries of the loop that is run from beginning to end.
        loop_interactions: its interactions.
        log_rows: rows of the log that is counted.
    """

    queries: int
    judged: int
    rounds: int
    steps: int
    held: int
    loop_queries: int
    loop_interactions: int
    log_rows: int


# 29,921 queries are those of the Yahoo! learning-to-rank challenge, set 1.
FULL = Effort(
    queries=200,
    judged=40,
    rounds=15,
    steps=1_000,
    held=29_921,
    loop_queries=2_000,
    loop_interactions=10**7,
    log_rows=10**8,
)
QUICK = Effort(
    queries=20,
    judged=4,
    rounds=3,
    steps=50,
    held=300,
    loop_queries=60,
    loop_interactions=20_000,
    log_rows=200_000,
)


@dataclass(frozen=True)
class Benchmark:
    """One measurement, which may answer for several targets.

    Attributes:
        targets: what it answers for.
        run: does it; returns one result a target, by name.
    """

    targets: tuple[Target, ...]
    run: Callable[[Effort], dict[str, Result]]


def best_times(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    """Seconds of processor time that each job takes in its best round.

    Processor time, summed over all threads, does not count waiting while others have the core. What still
    disturbs a shared machine only ever adds time, so the smallest is nearest to the work itself. Jobs take
    turns within a round: a slow minute then hits all of them. A first turn, which loads kernels and fills
    caches, is not timed.
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
