"""Whether the order in which a policy shows documents has anything to do with the documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.statistics.counts import Counts
from rankloop.statistics.intervals import tail_quantile
from rankloop.types import Int64

# With fewer displays beyond the first of each document, the order is not judged.
ENOUGH_REPEATS = 500
# A policy looks randomised if documents explain less than this share of the variance of ranks, also at the
# upper end of a one-sided 95 % interval. Any ranker that people use explains many times as much.
UNRELATED = 0.02
# Documents are in the order of their ids if so many of their neighbours are, of at least so many.
IN_ORDER, ENOUGH_NEIGHBOURS = 0.99, 200


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
        return self.explained + tail_quantile(0.05) * self.error < UNRELATED


def measure_order(counts: Counts, policy: int) -> DisplayOrder | None:
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
    pairs = own.document.astype(np.int64)
    _, documents = np.unique(counts.doc_ids, return_inverse=True)
    for keys, across in ((pairs, False), (documents[pairs], True)):
        found = _explained(keys, own.position, own.displays)
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


def share_in_order_of_ids(counts: Counts) -> float | None:
    """The share of neighbours, by their mean ranks, that are in the order of their ids.

    None if there are too few of them to tell.
    """
    cells = counts.cells
    displays = np.bincount(cells.document, weights=cells.displays, minlength=counts.n_documents)
    ranks = np.bincount(cells.document, weights=cells.displays * cells.position, minlength=counts.n_documents)
    query = np.repeat(np.arange(counts.n_queries), np.diff(counts.offsets))
    shown = displays > 0
    ids = counts.doc_ids[shown]
    # Ids of the log are text; as numbers they have another order.
    order = np.unique(ids.astype(np.float64) if np.char.isdecimal(ids).all() else ids, return_inverse=True)[1]
    query, mean = query[shown], ranks[shown] / displays[shown]
    by_rank = np.lexsort((mean, query))
    query, order, mean = query[by_rank], order[by_rank], mean[by_rank]
    neighbours = (query[1:] == query[:-1]) & (mean[1:] > mean[:-1])
    if neighbours.sum() < ENOUGH_NEIGHBOURS:
        return None
    return float((order[1:] > order[:-1])[neighbours].mean())
