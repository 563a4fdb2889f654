"""What of a log's counts a bias is estimated from: displays and clicks of each item at each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.ragged import offsets_of, segment_index
from rankloop.types import Float64, Int64


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Displays and clicks, only where something was shown; policies are added up.

    Item d owns cells ``starts[d]:starts[d + 1]``, one a rank at which it was shown, in the order of ranks.
    Counts are floats: they are what kernels multiply.

    Attributes:
        items: int64, items; the item's number in the counts.
        queries: int64, items; the number of its query.
        came: float64, items; how often the query came.
        starts: int64, items + 1.
        rank: int64, cells; from 0.
        displays: float64, cells.
        clicks: float64, cells.
        ranks: how many ranks there are.
        n_queries: how many queries there are, shown or not.
    """

    items: Int64
    queries: Int64
    came: Float64
    starts: Int64
    rank: Int64
    displays: Float64
    clicks: Float64
    ranks: int
    n_queries: int

    @classmethod
    def of(cls, counts: LogCounts, ranks: int | None = None) -> RankCounts:
        """The first ranks of these counts; None: all of them."""
        kept = counts.ranks if ranks is None else ranks
        cells = counts.cells
        which = cells.rank < kept
        if not which.any():
            raise DataError("the log is empty: nothing was shown at any rank")
        place = cells.item[which].astype(np.int64) * kept + cells.rank[which]
        # One cell a policy becomes one cell; np.unique sorts, by item and then by rank.
        places, where = np.unique(place, return_inverse=True)
        displays = _sums(where, cells.displays[which], len(places))
        clicks = _sums(where, cells.clicks[which], len(places))
        items, sizes = np.unique(places // kept, return_counts=True)
        queries = segment_index(counts.offsets)[items]
        came = counts.query_counts.sum(axis=0).astype(np.float64)[queries]
        return cls(
            items, queries, came, offsets_of(sizes), places % kept, displays, clicks, kept, counts.n_queries
        )

    @property
    def n_items(self) -> int:
        """How many items were shown."""
        return len(self.items)

    @property
    def item_of(self) -> Int64:
        """The number of the item that each cell belongs to."""
        return segment_index(self.starts)

    def by_rank(self, values: Float64) -> Float64:
        """Values of cells, added up by rank."""
        return _sums(self.rank, values, self.ranks)

    def by_item(self, values: Float64) -> Float64:
        """Values of cells, added up by item."""
        return _sums(self.item_of, values, self.n_items)

    def select(self, which: NDArray[np.integer]) -> RankCounts:
        """These items alone, by their place here, in this order."""
        sizes = np.diff(self.starts)[which]
        starts = offsets_of(sizes)
        cells = np.repeat(self.starts[which] - starts[:-1], sizes) + np.arange(starts[-1])
        return RankCounts(
            self.items[which],
            self.queries[which],
            self.came[which],
            starts,
            self.rank[cells],
            self.displays[cells],
            self.clicks[cells],
            self.ranks,
            self.n_queries,
        )


def _sums(place: Int64, values: NDArray[Any], size: int) -> Float64:
    return np.bincount(place, weights=values, minlength=size).astype(np.float64, copy=False)
