"""How sure an estimate is: what becomes of it when queries are drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64


class RankIntervals(NamedTuple):
    """Between two numbers a rank.

    Attributes:
        low: float64, ranks.
        high: float64, ranks.
    """

    low: Float64
    high: Float64


def resampled(
    estimate: Callable[[Float64], Float64],
    shown: RankCounts,
    resamples: int,
    rng: np.random.Generator,
    told: Callable[[float], None],
) -> Float64:
    """What an estimate becomes when as many queries as there are are drawn with replacement.

    Args:
        estimate: from weights, one an item, to numbers; called once a resample.
        shown: whose items the weights are of; only queries of which something was shown are drawn.
        resamples: how often.
        rng: where all chance comes from.
        told: called with the share that is done.

    Returns:
        float64, resamples × what the estimate gives.
    """
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    even = np.full(len(queries), 1.0 / len(queries))
    results = []
    for done in range(resamples):
        drawn = rng.multinomial(len(queries), even).astype(np.float64)
        results.append(estimate(drawn[query_of]))
        told((done + 1) / resamples)
    return np.array(results)


def interval(values: Float64, confidence: float) -> RankIntervals:
    """The middle share of resampled values, by rank (resamples × ranks).

    >>> interval(np.arange(101.0)[:, None], 0.9)
    RankIntervals(low=array([5.]), high=array([95.]))
    """
    tail = 0.5 * (1.0 - confidence)
    low, high = np.nanquantile(values, [tail, 1.0 - tail], axis=0)
    return RankIntervals(low, high)
