"""The counts of a log, with the names of what was counted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Int64, Str

Int32 = NDArray[np.int32]
# As many hexadecimal digits as the fingerprint of a model has.
FINGERPRINT_DIGITS = 16


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts by policy, item and rank, for combinations that were shown; all arrays have the same length.

    Attributes:
        policy: int32; the number of the policy.
        item: int32; the number of the item.
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
        """Room for a number of cells."""
        policy, item, rank = np.zeros((3, size), np.int32)
        displays, clicks = np.zeros((2, size), np.int64)
        return cls(policy, item, rank, displays, clicks)

    def select(self, which: NDArray[np.bool_]) -> Cells:
        """Some of the cells."""
        return Cells(*(part[which] for part in vars(self).values()))


@dataclass(frozen=True, eq=False)
class LogCounts:
    """How often each document of a log was shown and clicked.

    Query q owns items ``offsets[q]:offsets[q + 1]``. Queries are ordered by their ids, and so are the
    documents of each query; policies are in the order of their first impressions.

    Attributes:
        query_ids: queries.
        doc_ids: items.
        offsets: int64, queries + 1.
        policy_ids: policies.
        query_counts: int64, policies × queries; the number of impressions of each query.
        cells: displays and clicks.
        ranks: how many ranks are counted.
        rows: how many rows of impressions are counted.
        left_out: how many rows are not counted because they lie below the last rank.
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
        """The number of queries."""
        return len(self.query_ids)

    @property
    def n_items(self) -> int:
        """The number of items, over all queries."""
        return len(self.doc_ids)

    @cached_property
    def fingerprint(self) -> str:
        """A name for the content of the log, the same wherever it is and however many ranks are counted.

        A hash of the ids of policies, queries and documents, of the impressions per policy and query, and of
        the number of rows.
        """
        digest = hashlib.sha256(f"{self.rows + self.left_out}\n{self.policy_ids!r}\n".encode())
        for part in (self.query_ids, self.doc_ids, self.offsets, self.query_counts):
            digest.update(f"{part.dtype.str} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:FINGERPRINT_DIGITS]

    def can_give(self, ranks: int) -> bool:
        """Whether `of_ranks` can give the counts of a number of ranks."""
        return ranks <= self.ranks or self.left_out == 0

    def of_ranks(self, ranks: int) -> LogCounts:
        """The counts of another number of ranks: what counting the log again would give.

        Only if `can_give` says so: rows below the last rank were not counted.
        """
        kept = self.cells.rank < ranks
        cells = self.cells if kept.all() else self.cells.select(kept)
        rows = int(cells.displays.sum())
        return replace(self, cells=cells, ranks=ranks, rows=rows, left_out=self.rows + self.left_out - rows)

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
        """An item, as messages name it."""
        query = int(np.searchsorted(self.offsets, item, side="right")) - 1
        return f"query {str(self.query_ids[query])!r}, document {str(self.doc_ids[item])!r}"

    def _matrix(self, counted: Int64, which: slice | NDArray[np.bool_]) -> Int64:
        place = self.cells.item[which].astype(np.int64) * self.ranks + self.cells.rank[which]
        return _sums(place, counted[which], self.n_items * self.ranks).reshape(self.n_items, self.ranks)


def _sums(place: NDArray[np.integer], values: Int64, size: int) -> Int64:
    # bincount adds in float64, which is exact for counts below 2⁵³.
    return np.bincount(place, weights=values, minlength=size).astype(np.int64)
