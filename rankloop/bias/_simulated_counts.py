"""Counts of simulated interactions in the form of a log's counts, without writing files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop.clicks import Counts
from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.logs.counts import Cells
from rankloop.types import Int64


def simulated_counts(offsets: Int64, gathered: Mapping[str, Counts]) -> LogCounts:
    """Build the counts that `rankloop.Log.count` would return for a log of these interactions.

    Args:
        offsets: int64, queries + 1.
        gathered: results of `rankloop.clicks.gather` by policy id, all with the same queries and ranks.

    Example:
        >>> from rankloop.clicks import gather, users
        >>> offsets, rng = np.array([0, 3, 5]), np.random.default_rng(0)
        >>> clicks = gather(np.zeros(5), offsets, np.full(5, 0.5), users("paper@2"), 100, rng)
        >>> counts = simulated_counts(offsets, {"uniform": clicks})
        >>> counts.n_items, counts.ranks, counts.rows
        (5, 2, 200)
        >>> np.array_equal(counts.clicks_by_rank, clicks.clicks_by_rank)
        True
    """
    shapes = {part.displays_by_rank.shape for part in gathered.values()}
    if len(shapes) != 1 or next(iter(shapes))[0] != offsets[-1]:
        raise DataError(
            f"all policies must have counts of the same {offsets[-1]} items and ranks, got {shapes}"
        )
    ((_, ranks),) = shapes
    displays = np.stack([part.displays_by_rank for part in gathered.values()])
    clicks = np.stack([part.clicks_by_rank for part in gathered.values()])
    where = np.nonzero(displays)
    policy, item, rank = (part.astype(np.int32) for part in where)
    return LogCounts(
        query_ids=np.arange(len(offsets) - 1).astype(np.str_),
        doc_ids=np.arange(offsets[-1]).astype(np.str_),
        offsets=offsets,
        policy_ids=tuple(gathered),
        query_counts=np.stack([part.query_counts for part in gathered.values()]),
        cells=Cells(policy, item, rank, displays[where], clicks[where]),
        ranks=ranks,
        rows=int(displays.sum()),
        left_out=0,
    )
