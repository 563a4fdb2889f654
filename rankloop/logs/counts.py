"""A log as counts, with the names of what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Int64, Str

Int32 = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts by policy, item and rank, only where something was shown; one array each, of one length.

    Attributes:
        policy: int32; the policy's number.
        item: int32.
        rank: int32, from 0.
        displays: int64.
        clicks: int64.
    """

    policy: Int32
    item: Int32
    rank: Int32
    displays: Int64
    clicks: Int64

    @classmethod
    def empty(cls, size: int) -> Self:
        """Room for so many cells."""
        policy, item, rank = np.zeros((3, size), np.int32)
        displays, clicks = np.zeros((2, size), np.int64)
        return cls(policy, item, rank, displays, clicks)


@dataclass(frozen=True, eq=False)
class LogCounts:
    """How often what was shown and clicked, in a log.

    Query q owns items ``offsets[q]:offsets[q + 1]``. Queries are in the order of their ids, and so are the
    documents of each query; policies are in the order of their first impressions.

    Attributes:
        query_ids: queries.
        doc_ids: items.
        offsets: int64, queries + 1.
        policy_ids: policies.
        query_counts: int64, policies × queries; how often each query came.
        cells: displays and clicks.
        ranks: how many ranks are counted.
        rows: how many rows of impressions were counted.
        left_out: how many were not, because they lie below the last rank.
    """

    query_ids: Str
    doc_ids: Str
    offsets: Int64
    policy_ids: tuple[str, ...]
    query_counts: Int64
    cells: Cells
    ranks: int
    rows: int
    left_out: int

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.query_ids)

    @property
    def n_items(self) -> int:
        """How many items there are, over all queries."""
        return len(self.doc_ids)

    @property
    def displays_by_rank(self) -> Int64:
        """How often each item was shown at each rank, over all policies: int64, items × ranks."""
        return self._matrix(self.cells.displays, slice(None))

    @property
    def clicks_by_rank(self) -> Int64:
        """How often each item was clicked at each rank, over all policies: int64, items × ranks."""
        return self._matrix(self.cells.clicks, slice(None))

    def displays_of(self, policy: int) -> Int64:
        """How often one policy, by its number, showed each item at each rank: int64, items × ranks."""
        return self._matrix(self.cells.displays, self.cells.policy == policy)

    def clicks_of(self, policy: int) -> Int64:
        """How often each item was clicked under one policy, by its number: int64, items."""
        which = self.cells.policy == policy
        return _sums(self.cells.item[which], self.cells.clicks[which], self.n_items)

    def item_name(self, item: int) -> str:
        """An item as messages call it."""
        query = int(np.searchsorted(self.offsets, item, side="right")) - 1
        return f"query {str(self.query_ids[query])!r}, document {str(self.doc_ids[item])!r}"

    def _matrix(self, counted: Int64, which: slice | NDArray[np.bool_]) -> Int64:
        place = self.cells.item[which].astype(np.int64) * self.ranks + self.cells.rank[which]
        return _sums(place, counted[which], self.n_items * self.ranks).reshape(self.n_items, self.ranks)


def _sums(place: NDArray[np.integer], values: Int64, size: int) -> Int64:
    # bincount adds in float64, which is exact for counts below 2⁵³.
    return np.bincount(place, weights=values, minlength=size).astype(np.int64)
