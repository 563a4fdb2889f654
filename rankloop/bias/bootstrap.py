"""Bootstrap intervals: how an estimate varies when queries are resampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.progress import Progress, report
from rankloop.types import Float64


class RankIntervals(NamedTuple):
    """One interval per rank.

    Attributes:
        low: float64, ranks.
        high: float64, ranks.
    """

    low: Float64
    high: Float64


def bootstrap(
    estimate: Callable[[Float64], Float64],
    shown: RankCounts,
    resamples: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Float64:
    """Repeat an estimate on queries that are resampled with replacement.

    Args:
        estimate: maps item weights (float64, items) to an array; called once per resample.
        shown: the items to weight. Only queries with at least one displayed item are resampled.
        resamples: number of resamples.
        rng: random generator.
        progress: receives the task ``resampling queries``.

    Returns:
        float64, resamples × shape of the estimate.
    """
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    results = []
    for done in range(resamples):
        results.append(estimate(draw_queries(len(queries), rng)[query_of]))
        report(progress, "resampling queries", (done + 1) / resamples)
    return np.array(results)


def draw_queries(count: int, rng: np.random.Generator) -> Float64:
    """How often each of a number of queries is drawn if as many are drawn with replacement: float64, queries.

    Called once per resample: a generator with the same seed gives the same resamples again.
    """
    return rng.multinomial(count, np.full(count, 1.0 / count)).astype(np.float64)


def percentile_interval(values: Float64, confidence: float) -> RankIntervals:
    """Compute the percentile interval of resampled values (resamples × ranks) for each rank.

    >>> percentile_interval(np.arange(101.0)[:, None], 0.9)
    RankIntervals(low=array([5.]), high=array([95.]))
    """
    tail = 0.5 * (1.0 - confidence)
    low, high = np.nanquantile(values, [tail, 1.0 - tail], axis=0)
    return RankIntervals(low, high)
