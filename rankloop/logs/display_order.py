"""Whether the order in which a policy shows documents has anything to do with the documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.logs.counts import LogCounts
from rankloop.types import Int64

# With fewer displays beyond the first of each document, the order is not judged.
ENOUGH_REPEATS = 500
# A policy looks randomised if documents explain less than this share of the variance of ranks, also at the
# upper end of a 95 % interval. Any ranker that people use explains many times as much.
UNRELATED = 0.02
QUANTILE = 1.645


class DisplayOrder(NamedTuple):
    """How much of where documents are shown depends on the document.

    Attributes:
        explained: the share of the variance of ranks that documents explain; about 0 for random orders.
        error: its standard error, if the order is random.
        across_queries: whether documents were compared across queries, because queries hardly repeat.
    """

    explained: float
    error: float
    across_queries: bool

    @property
    def looks_randomised(self) -> bool:
        """Whether the order looks unrelated to the documents."""
        return self.explained + QUANTILE * self.error < UNRELATED


def measure_order(counts: LogCounts, policy: int) -> DisplayOrder | None:
    """How much of where a policy shows documents depends on the document; None if too few came again.

        ρ = (Q/D − 1) / (n − 1),      Q = Σ_d n_d (r_d − r)² / σ²

    D documents were shown at least twice, n times on average; r_d is the mean rank of a document, r and σ²
    the mean and variance of all ranks. In a random order Q/D is 1, with a standard error of √(2/D). Lists of
    different lengths only raise ρ.

    Args:
        counts: the counts of the log.
        policy: the number of the policy.
    """
    own = counts.cells.select(counts.cells.policy == policy)
    items = own.item.astype(np.int64)
    _, documents = np.unique(counts.doc_ids, return_inverse=True)
    for keys, across in ((items, False), (documents[items], True)):
        found = _explained(keys, own.rank, own.displays)
        if found is not None:
            return DisplayOrder(*found, across)
    return None


def _explained(keys: Int64, ranks: np.ndarray, displays: Int64) -> tuple[float, float] | None:
    codes = np.unique(keys, return_inverse=True)[1]
    if not len(codes):
        return None
    times = np.bincount(codes, weights=displays)
    mean = float(np.average(ranks, weights=displays))
    variance = float(np.average((ranks - mean) ** 2, weights=displays))
    again = times > 1
    repeats = float((times[again] - 1).sum())
    if repeats < ENOUGH_REPEATS or variance == 0:
        return None
    means = np.bincount(codes, weights=displays * ranks)[again] / times[again]
    size = int(again.sum())
    ratio = float((times[again] * (means - mean) ** 2).sum()) / variance / size
    excess = repeats / size
    return (ratio - 1.0) / excess, float(np.sqrt(2.0 / size)) / excess
