"""Bootstrap intervals: how an estimate varies when the log is resampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.progress import Progress, report
from rankloop.types import Float64

# With fewer queries than this, displays are resampled instead of queries.
FEW_QUERIES = 20


class RankIntervals(NamedTuple):
    """One interval per rank.

    Attributes:
        low: float64, ranks.
        high: float64, ranks.
    """

    low: Float64
    high: Float64


def bootstrap(
    estimate: Callable[[RankCounts, Float64], Float64],
    shown: RankCounts,
    resamples: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Float64:
    """Repeat an estimate on resampled data.

    Queries are resampled with replacement. A few queries cannot tell how much queries differ (with one query,
    every resample would be the log itself). Below `FEW_QUERIES`, the displays of every item at every rank are
    resampled instead, which varies the number of clicks and keeps the queries.

    Args:
        estimate: maps counts and item weights (float64, items) to an array; called once per resample.
        shown: the items. Only queries with at least one displayed item are resampled.
        resamples: number of resamples.
        rng: random generator.
        progress: receives the task ``resampling queries`` or ``resampling displays``.

    Returns:
        float64, resamples × shape of the estimate.
    """
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    ones = np.ones(shown.n_items)
    keeps_queries = not resamples_queries(shown)
    task = "resampling displays" if keeps_queries else "resampling queries"
    results = []
    for done in range(resamples):
        if keeps_queries:
            rates = shown.clicks / shown.displays
            clicks = rng.binomial(shown.displays.astype(np.int64), rates).astype(np.float64)
            results.append(estimate(replace(shown, clicks=clicks), ones))
        else:
            results.append(estimate(shown, draw_queries(len(queries), rng)[query_of]))
        report(progress, task, (done + 1) / resamples)
    return np.array(results)


def draw_queries(count: int, rng: np.random.Generator) -> Float64:
    """How often each of a number of queries is drawn if as many are drawn with replacement: float64, queries.

    Called once per resample: a generator with the same seed gives the same resamples again.
    """
    return rng.multinomial(count, np.full(count, 1.0 / count)).astype(np.float64)


def resamples_queries(shown: RankCounts) -> bool:
    """Whether there are enough queries to resample them; otherwise their displays are resampled."""
    return len(np.unique(shown.queries)) >= FEW_QUERIES


def few_clusters(shown: RankCounts) -> list[str]:
    """The note that a report must show if there are too few queries to resample."""
    queries = len(np.unique(shown.queries))
    if queries >= FEW_QUERIES:
        return []
    subject = "query is" if queries == 1 else "queries are"
    return [
        f"Only {queries} {subject} used, which is too few to resample queries (fewer than {FEW_QUERIES}): "
        f"the intervals resample the displays of each document instead. They hold for these queries and do "
        f"not say how much other queries would differ."
    ]


def percentile_interval(values: Float64, confidence: float) -> RankIntervals:
    """Compute the percentile interval of resampled values (resamples × ranks) for each rank.

    The p-quantile of n values is at place p (n + 1): another value would fall below it with probability p. At
    NumPy's default place, p (n − 1) + 1, 90 % intervals from 100 resamples would cover 88 %.

    >>> percentile_interval(np.arange(1.0, 100.0)[:, None], 0.9)
    RankIntervals(low=array([5.]), high=array([95.]))
    """
    tail = 0.5 * (1.0 - confidence)
    low, high = np.nanquantile(values, [tail, 1.0 - tail], axis=0, method="weibull")
    return RankIntervals(low, high)
