"""What loops and formulas take: cells of displays by document and rank, and impressions as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.errors import DataError
from rankloop.ragged import offsets_of, segment_index
from rankloop.statistics.counts import Counts
from rankloop.statistics.statistics import Exposure, Statistics
from rankloop.types import ContextEffects, Float64, Int64, as_numbers, as_whole_numbers, check_offsets

# What counts as one document whose relevance is the same wherever it is shown.
Unit = Literal["pairs", "documents", "queries"]


@dataclass(frozen=True, eq=False)
class CellTable:
    """Displays and clicks per document and rank, summed over policies, without empty cells.

    Document d owns the cells ``starts[d]:starts[d + 1]``, one per rank at which it was shown, in rank order.
    Counts are floats because the kernels multiply them.

    Attributes:
        documents: int64, documents; index of the document in the counts that the table was made from.
        queries: int64, documents, ascending within one table of pairs; index of its query. A document of
            several queries counts as a query of its own, with an index above those of the queries.
        query_impressions: float64, documents; number of impressions of its query, or of all its queries.
        starts: int64, documents + 1; first cell of each document.
        rank: int64, cells; rank of each cell, from 0.
        displays: float64, cells; displays of the document at the rank.
        clicks: float64, cells; clicks on the document at the rank, or what its displays were worth.
        ranks: number of ranks.
        n_queries: number of queries, with or without displayed documents.
    """

    documents: Int64
    queries: Int64
    query_impressions: Float64
    starts: Int64
    position: Int64
    displays: Float64
    clicks: Float64
    positions: int
    n_queries: int

    @classmethod
    def of(
        cls,
        counts: Counts,
        ranks: int | None = None,
        *,
        unit: Unit = "pairs",
        effects: ContextEffects | None = None,
    ) -> CellTable:
        """The documents of a log that were shown.

        Args:
            counts: the counts of the log.
            ranks: how many ranks to use; None for all.
            unit: what counts as one document: ``pairs`` of query and document; ``documents``, over all
                queries that show them; or ``queries``, with all documents of a query together.
            effects: how much more users click in some contexts; a display counts as often.
        """
        kept = counts.positions if ranks is None else ranks
        cells = counts.cells
        which = cells.position < kept
        if not which.any():
            raise DataError("the log is empty: it has no displays at any rank")
        grouped = _Groups.of(counts, unit)
        cell = grouped.group[cells.document[which]] * kept + cells.position[which]
        # Merges the cells of all policies; np.unique sorts by document and then by rank.
        unique, where = np.unique(cell, return_inverse=True)
        shown = cells.displays if effects is None else cells.displays * counts.weights(effects)
        displays = _sum_by(where, shown[which], len(unique))
        clicks = _sum_by(where, cells.clicks[which], len(unique))
        documents, sizes = np.unique(unique // kept, return_counts=True)
        queries, impressions = grouped.query[documents], grouped.impressions[documents]
        starts, rank = offsets_of(sizes), unique % kept
        return cls(documents, queries, impressions, starts, rank, displays, clicks, kept, counts.n_queries)

    @classmethod
    def of_periods(
        cls,
        periods: Sequence[Counts],
        *,
        effects: ContextEffects | None = None,
        levels: Float64 | None = None,
    ) -> CellTable:
        """The documents that were shown, each as another one in each period; of the same queries.

        Clicks on a document in one period are then compared with those of the same period only.

        Args:
            periods: the counts of each period, with the same queries, documents and ranks.
            effects: how much more users click in some contexts; a display counts as often.
            levels: float64, periods; how much more users click in each of them. None for the same in all.
        """
        first, count = periods[0], len(periods)
        document, position, shown, clicks = (
            np.concatenate([getattr(counts.cells, name) for counts in periods]).astype(np.int64)
            for name in ("document", "position", "displays", "clicks")
        )
        displays = shown.astype(np.float64)
        if effects is not None:
            displays *= np.concatenate([counts.weights(effects) for counts in periods])
        if not len(document):
            raise DataError("the log is empty: it has no displays at any rank")
        period = np.repeat(np.arange(count), [len(counts.cells.document) for counts in periods])
        if levels is not None:
            displays *= levels[period]
        unique, where = np.unique(
            (document * count + period) * first.positions + position, return_inverse=True
        )
        pair, sizes = np.unique(unique // first.positions, return_counts=True)
        query_of = segment_index(first.offsets)[pair // count]
        came = np.stack([counts.impressions_by_query for counts in periods])
        return cls(
            pair // count,
            query_of,
            came[pair % count, query_of].astype(np.float64),
            offsets_of(sizes),
            unique % first.positions,
            _sum_by(where, displays, len(unique)),
            _sum_by(where, clicks, len(unique)),
            first.positions,
            first.n_queries,
        )

    @classmethod
    def of_statistics(cls, statistics: Statistics) -> CellTable:
        """All documents of some statistics; those that were never shown have no cells."""
        documents, ranks = np.nonzero(statistics.displays_by_position)
        return cls(
            np.arange(statistics.n_documents),
            segment_index(statistics.offsets),
            statistics.per_document(statistics.impressions_by_query).astype(np.float64),
            offsets_of(np.bincount(documents, minlength=statistics.n_documents)),
            ranks.astype(np.int64),
            statistics.effective_displays[documents, ranks].astype(np.float64),
            statistics.clicks_by_position[documents, ranks].astype(np.float64),
            statistics.positions,
            statistics.n_queries,
        )

    @classmethod
    def of_cells(
        cls, starts: object, rank: object, displays: object, clicks: object, queries: object = None
    ) -> CellTable:
        """A table from its cells, which are checked; each document is its own query unless these are given.

        >>> table = CellTable.of_cells([0, 1, 3], [0, 0, 1], [4, 2, 2], [1, 0, 2])
        >>> table.by_document(table.clicks)
        array([1., 2.])
        """
        cut, place = as_whole_numbers(starts, "starts"), as_whole_numbers(rank, "ranks")
        shown, clicked = as_numbers(displays, "displays"), as_numbers(clicks, "clicks")
        shape = (int(cut[-1]) if cut.ndim == 1 and len(cut) else -1,)
        if not (place.shape == shown.shape == clicked.shape == shape):
            raise DataError(
                f"starts must end at the number of cells, got starts of shape {cut.shape}, and ranks, "
                f"displays and clicks of shapes {place.shape}, {shown.shape} and {clicked.shape}"
            )
        if cut[0] != 0 or (cut[1:] < cut[:-1]).any() or (place < 0).any():
            raise DataError("starts must ascend from 0, and ranks be at least 0")
        documents = np.arange(len(cut) - 1)
        query = documents if queries is None else as_whole_numbers(queries, "queries")
        ranks = int(place.max(initial=0)) + 1
        n_queries = int(query.max(initial=-1)) + 1
        return cls(documents, query, np.ones(len(documents)), cut, place, shown, clicked, ranks, n_queries)

    def countable(self) -> tuple[CellTable, float]:
        """The same with at least as many displays as clicks in every cell, and the factor of all displays.

        Displays that count less than once may be fewer than their clicks, which no likelihood of single
        clicks can explain. With s times as many displays, click probabilities are 1/s of what they were.
        """
        least = self.displays < self.clicks
        if not least.any():
            return self, 1.0
        factor = float((self.clicks[least] / self.displays[least]).max())
        # Rounding must not leave one cell below.
        displays = np.maximum(self.displays * factor, self.clicks)
        return replace(self, displays=displays), factor

    def first_positions(self, ranks: int) -> CellTable:
        """The displays and clicks at the first ranks."""
        if ranks == self.positions:
            return self
        which = self.position < ranks
        sizes = self.by_document(which.astype(np.float64)).astype(np.int64)
        shown = sizes > 0
        return CellTable(
            self.documents[shown],
            self.queries[shown],
            self.query_impressions[shown],
            offsets_of(sizes[shown]),
            self.position[which],
            self.displays[which],
            self.clicks[which],
            ranks,
            self.n_queries,
        )

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.documents)

    @cached_property
    def document_of(self) -> Int64:
        """Index of the document that each cell belongs to."""
        return segment_index(self.starts)

    @property
    def shown(self) -> CellTable:
        """The documents that were shown."""
        return self.select(np.flatnonzero(np.diff(self.starts)))

    @cached_property
    def query_offsets(self) -> Int64:
        """The first document of each query, and their number; for tables that are ordered by query."""
        return np.searchsorted(self.queries, np.arange(self.n_queries + 1))

    def totals_by_position(self) -> tuple[Float64, Float64]:
        """Displays and clicks at each rank, over all documents: ranks, each."""
        return self.by_rank(self.displays), self.by_rank(self.clicks)

    def by_rank(self, values: Float64) -> Float64:
        """Sum values of cells per rank."""
        return _sum_by(self.position, values, self.positions)

    def by_document(self, values: Float64) -> Float64:
        """Sum values of cells per document."""
        return _sum_by(self.document_of, values, self.n_documents)

    def by_query(self, values: Float64) -> Float64:
        """Sum values of documents per query."""
        return _sum_by(self.queries, values, self.n_queries)

    def select(self, which: NDArray[np.integer]) -> CellTable:
        """Select documents by their index, in this order."""
        sizes = np.diff(self.starts)[which]
        starts = offsets_of(sizes)
        cells = np.repeat(self.starts[which] - starts[:-1], sizes) + np.arange(starts[-1])
        return CellTable(
            self.documents[which],
            self.queries[which],
            self.query_impressions[which],
            starts,
            self.position[cells],
            self.displays[cells],
            self.clicks[cells],
            self.positions,
            self.n_queries,
        )


def document_groups(counts: Counts, unit: Unit) -> Int64:
    """The number of what counts as one document, for every pair of query and document."""
    return _Groups.of(counts, unit).group


class _Groups(NamedTuple):
    """How pairs of query and document are grouped into what counts as one document.

    Attributes:
        group: int64, pairs; the document that each pair belongs to.
        query: int64, documents; the query of each document, or a number above those of the queries if there
            are several.
        impressions: float64, documents; number of impressions of all queries of each document.
    """

    group: Int64
    query: Int64
    impressions: Float64

    @classmethod
    def of(cls, counts: Counts, unit: Unit) -> _Groups:
        query_of = segment_index(counts.offsets)
        impressions = counts.impressions_by_query.astype(np.float64)
        if unit == "pairs":
            return cls(np.arange(counts.n_documents), query_of, impressions[query_of])
        if unit == "queries":
            return cls(query_of, np.arange(counts.n_queries), impressions)
        documents, group = np.unique(counts.doc_ids, return_inverse=True)
        # Numbered by their first pair, so that documents of one query each keep the order of the pairs.
        first = np.full(len(documents), counts.n_documents)
        np.minimum.at(first, group, np.arange(counts.n_documents))
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


def of_impressions(
    policy: str, offsets: Int64, exposure: Exposure, *, queries: object, rankings: object, clicks: object
) -> Statistics:
    """Count what one policy showed and what was clicked.

    A log that does not fit in memory is counted in parts: the statistics of the parts add.

    Args:
        policy: the id of the logging policy.
        offsets: queries + 1.
        exposure: the expected exposure of each document under the policy.
        queries: impressions; the number of each one's query.
        rankings: impressions × ranks; numbers of documents within their query, best first, -1 where no
            document is shown.
        clicks: impressions × ranks; whether the document shown there was clicked.

    Example:
        >>> offsets = np.array([0, 3])
        >>> statistics = of_impressions(
        ...     "a", offsets, Exposure(*np.ones((3, 3))),
        ...     queries=[0, 0], rankings=[[2, 0], [2, 1]], clicks=[[True, False], [True, True]],
        ... )
        >>> statistics.displays_by_position
        array([[0, 1],
               [0, 1],
               [2, 0]])
        >>> statistics.clicks
        array([0, 1, 2])
    """
    came = as_whole_numbers(queries, "queries")
    shown = as_whole_numbers(rankings, "rankings")
    clicked = np.asarray(clicks, dtype=np.bool_)
    check_offsets(offsets, len(exposure.alpha))
    if came.ndim != 1 or shown.ndim != 2 or len(shown) != len(came) or clicked.shape != shown.shape:
        raise DataError(
            "an impression is a query, a ranking, and whether there was a click at each rank, "
            f"got shapes {came.shape}, {shown.shape} and {clicked.shape}"
        )
    n_queries, n_documents, ranks = len(offsets) - 1, int(offsets[-1]), shown.shape[1]
    _refuse((came < 0) | (came >= n_queries), came, f"there are {n_queries} queries")
    sizes = np.diff(offsets)[came]
    _refuse(((shown < -1) | (shown >= sizes[:, None])).any(axis=1), came, "no such document in the query")
    in_order = np.sort(shown, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    _refuse(repeated.any(axis=1), came, "a document is shown twice")
    _refuse((clicked & (shown < 0)).any(axis=1), came, "a click where nothing was shown")

    cells = (offsets[came, None] + shown) * ranks + np.arange(ranks)
    n_cells = n_documents * ranks
    return Statistics.of_policy(
        policy,
        offsets,
        exposure,
        impressions_by_query=np.bincount(came, minlength=n_queries),
        displays_by_position=np.bincount(cells[shown >= 0], minlength=n_cells).reshape(n_documents, ranks),
        clicks_by_position=np.bincount(cells[clicked], minlength=n_cells).reshape(n_documents, ranks),
    )


def _refuse(bad: ArrayLike, came: Int64, what: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(
            f"impression number {rows[0]}, of query number {came[rows[0]]}: {what} "
            f"({len(rows)} such impressions in total)"
        )
