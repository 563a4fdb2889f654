"""The counts that bias estimation needs: displays and clicks per item and rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.ragged import offsets_of, segment_index
from rankloop.types import Float64, Int64

# What counts as one item whose relevance is the same wherever it is shown.
Unit = Literal["pairs", "documents", "queries"]


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Displays and clicks per item and rank, summed over policies, without empty cells.

    Item d owns the cells ``starts[d]:starts[d + 1]``, one per rank at which it was shown, in rank order.
    Counts are floats because the kernels multiply them.

    Attributes:
        items: int64, items; index of the item in the log's counts.
        queries: int64, items; index of its query. A document of several queries counts as a query of its
            own, with an index above those of the queries.
        query_impressions: float64, items; number of impressions of its query, or of all its queries.
        starts: int64, items + 1; first cell of each item.
        rank: int64, cells; rank of each cell, from 0.
        displays: float64, cells; displays of the item at the rank.
        clicks: float64, cells; clicks on the item at the rank.
        ranks: number of ranks.
        n_queries: number of queries, with or without displayed items.
    """

    items: Int64
    queries: Int64
    query_impressions: Float64
    starts: Int64
    rank: Int64
    displays: Float64
    clicks: Float64
    ranks: int
    n_queries: int

    @classmethod
    def of(cls, counts: LogCounts, ranks: int | None = None, *, unit: Unit = "pairs") -> RankCounts:
        """Count items of a log.

        Args:
            counts: the counts of the log.
            ranks: how many ranks to use; None for all.
            unit: what an item is. ``pairs`` of query and document; ``documents``, over all queries that show
                them; or ``queries``, with all documents of a query together.
        """
        kept = counts.ranks if ranks is None else ranks
        cells = counts.cells
        which = cells.rank < kept
        if not which.any():
            raise DataError("the log is empty: it has no displays at any rank")
        grouped = _Groups.of(counts, unit)
        cell = grouped.group[cells.item[which]] * kept + cells.rank[which]
        # Merges the cells of all policies; np.unique sorts by item and then by rank.
        unique, where = np.unique(cell, return_inverse=True)
        displays = _sum_by(where, cells.displays[which], len(unique))
        clicks = _sum_by(where, cells.clicks[which], len(unique))
        items, sizes = np.unique(unique // kept, return_counts=True)
        queries, impressions = grouped.query[items], grouped.impressions[items]
        starts, rank = offsets_of(sizes), unique % kept
        return cls(items, queries, impressions, starts, rank, displays, clicks, kept, counts.n_queries)

    def first_ranks(self, ranks: int) -> RankCounts:
        """The displays and clicks at the first ranks."""
        if ranks == self.ranks:
            return self
        which = self.rank < ranks
        sizes = self.by_item(which.astype(np.float64)).astype(np.int64)
        shown = sizes > 0
        return RankCounts(
            self.items[shown],
            self.queries[shown],
            self.query_impressions[shown],
            offsets_of(sizes[shown]),
            self.rank[which],
            self.displays[which],
            self.clicks[which],
            ranks,
            self.n_queries,
        )

    @property
    def n_items(self) -> int:
        """Number of items that were shown."""
        return len(self.items)

    @property
    def item_of(self) -> Int64:
        """Index of the item that each cell belongs to."""
        return segment_index(self.starts)

    def by_rank(self, values: Float64) -> Float64:
        """Sum values of cells per rank."""
        return _sum_by(self.rank, values, self.ranks)

    def by_item(self, values: Float64) -> Float64:
        """Sum values of cells per item."""
        return _sum_by(self.item_of, values, self.n_items)

    def select(self, which: NDArray[np.integer]) -> RankCounts:
        """Select items by their index, in this order."""
        sizes = np.diff(self.starts)[which]
        starts = offsets_of(sizes)
        cells = np.repeat(self.starts[which] - starts[:-1], sizes) + np.arange(starts[-1])
        return RankCounts(
            self.items[which],
            self.queries[which],
            self.query_impressions[which],
            starts,
            self.rank[cells],
            self.displays[cells],
            self.clicks[cells],
            self.ranks,
            self.n_queries,
        )


class _Groups(NamedTuple):
    """How pairs of query and document are grouped into items.

    Attributes:
        group: int64, pairs; the item that each pair belongs to.
        query: int64, items; the query of each item, or a number above those of the queries if there are
            several.
        impressions: float64, items; number of impressions of all queries of each item.
    """

    group: Int64
    query: Int64
    impressions: Float64

    @classmethod
    def of(cls, counts: LogCounts, unit: Unit) -> _Groups:
        query_of = segment_index(counts.offsets)
        impressions = counts.query_counts.sum(axis=0).astype(np.float64)
        if unit == "pairs":
            return cls(np.arange(counts.n_items), query_of, impressions[query_of])
        if unit == "queries":
            return cls(query_of, np.arange(counts.n_queries), impressions)
        documents, group = np.unique(counts.doc_ids, return_inverse=True)
        # Numbered by their first pair, so that documents of one query each keep the order of the pairs.
        first = np.full(len(documents), counts.n_items)
        np.minimum.at(first, group, np.arange(counts.n_items))
        place = np.argsort(np.argsort(first))
        group, first = place[group], np.sort(first)
        number = np.bincount(group, minlength=len(documents))
        own = counts.n_queries + np.arange(len(documents))
        return cls(
            group,
            np.where(number == 1, query_of[first], own),
            _sum_by(group, impressions[query_of], len(documents)),
        )


def _sum_by(index: Int64, values: NDArray[Any], size: int) -> Float64:
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)
