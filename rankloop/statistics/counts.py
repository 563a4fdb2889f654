"""What was shown and clicked: the counts of a log, real or simulated, by policy, document and rank."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.errors import DataError
from rankloop.ragged import distinct, segment_index, segment_sum
from rankloop.types import ContextEffects, Float64, Int64, Str

Int32 = NDArray[np.int32]
# As many hexadecimal digits as the fingerprint of a model has.
FINGERPRINT_DIGITS = 16
# The share of the queries that came again whose ranking must have changed for a log to explore.
EXPLORES = 0.01


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts by policy, document and rank, for combinations that were shown; all arrays have the same length.

    Attributes:
        policy: int32; the number of the policy.
        document: int32; the number of the document.
        rank: int32, from 0.
        displays: int64.
        clicks: int64.
        context: int32; the number of the context; None if contexts are not told apart.
    """

    policy: Int32
    document: Int32
    position: Int32
    displays: Int64
    clicks: Int64
    context: Int32 | None = None

    @classmethod
    def empty(cls, size: int, *, contexts: bool = False) -> Self:
        """Room for a number of cells."""
        policy, document, rank, context = np.zeros((4, size), np.int32)
        displays, clicks = np.zeros((2, size), np.int64)
        return cls(policy, document, rank, displays, clicks, context if contexts else None)

    def in_order(self) -> Cells:
        """Sorted by policy, document, position and context: the last digits of sums depend on the order."""
        keys = (self.position, self.document, self.policy)
        return self.select(np.lexsort(keys if self.context is None else (self.context, *keys)))

    def select(self, which: NDArray[np.bool_] | Int64) -> Cells:
        """Some of the cells: those that are true, or those with these numbers."""
        return Cells(
            self.policy[which],
            self.document[which],
            self.position[which],
            self.displays[which],
            self.clicks[which],
            None if self.context is None else self.context[which],
        )


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each document was shown and clicked, by policy and rank; ``a + b`` counts both logs.

    Query q owns documents ``offsets[q]:offsets[q + 1]``. In the counts of a log, queries are ordered by their
    ids, and so are the documents of each query; policies are in the order of their first impressions.

    Attributes:
        offsets: int64, queries + 1.
        policy_ids: policies.
        impressions_by_policy: int64, policies × queries; the number of impressions of each query.
        cells: displays and clicks.
        ranks: how many ranks are counted.
        left_out: how many rows of impressions are not counted because they lie below the last rank.
        query_ids: queries; numbers if they have no other names.
        doc_ids: documents; numbers if they have no other names.
        context_of: what contexts are told apart by: ``list length``, or a column; None if they are not.
        contexts: the names of the contexts.

    Example:
        Two documents of one query that came four times; both were shown at the rank of their number.

        >>> displays = np.array([[4, 0], [0, 4]])
        >>> counts = Counts.of_arrays(np.array([0, 2]), {"a": (np.array([4]), displays, displays // 4)})
        >>> counts.impressions, counts.clicks, counts.explores()
        (4, array([1, 1]), False)
    """

    offsets: Int64
    policy_ids: tuple[str, ...]
    impressions_by_policy: Int64
    cells: Cells
    positions: int
    left_out: int = 0
    query_ids: Str = field(default_factory=lambda: np.empty(0, np.str_))
    doc_ids: Str = field(default_factory=lambda: np.empty(0, np.str_))
    context_of: str | None = None
    contexts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, size in (("query_ids", len(self.offsets) - 1), ("doc_ids", int(self.offsets[-1]))):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.arange(size).astype(np.str_))

    @classmethod
    def of_arrays(cls, offsets: Int64, policies: Mapping[str, tuple[Int64, Int64, Int64]]) -> Self:
        """Counts from arrays.

        Args:
            offsets: queries + 1.
            policies: by policy, the impressions per query, and displays and clicks, documents × ranks.
        """
        shapes = {displays.shape for _, displays, _ in policies.values()}
        if len(shapes) != 1 or next(iter(shapes))[0] != offsets[-1]:
            raise DataError(
                f"all policies must have counts of the same {offsets[-1]} documents and ranks, got {shapes}"
            )
        ((_, ranks),) = shapes
        displays, clicks = (np.stack([part[place] for part in policies.values()]) for place in (1, 2))
        where = np.nonzero(displays)
        policy, document, rank = (part.astype(np.int32) for part in where)
        impressions = np.stack([came for came, _, _ in policies.values()])
        cells = Cells(policy, document, rank, displays[where], clicks[where])
        return cls(offsets, tuple(policies), impressions, cells, ranks)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """The number of documents, over all queries."""
        return int(self.offsets[-1])

    @property
    def rows(self) -> int:
        """How many rows of impressions are counted."""
        return int(self.cells.displays.sum())

    @property
    def impressions(self) -> int:
        """The number of impressions."""
        return int(self.impressions_by_policy.sum())

    @property
    def impressions_by_query(self) -> Int64:
        """The number of impressions of each query, over all policies: int64, queries."""
        total: Int64 = self.impressions_by_policy.sum(axis=0)
        return total

    @cached_property
    def fingerprint(self) -> str:
        """A name for the content of the log, the same wherever it is and however many ranks are counted.

        A hash of the ids of policies, queries and documents, of the impressions per policy and query, and of
        the number of rows.
        """
        digest = hashlib.sha256(f"{self.rows + self.left_out}\n{self.policy_ids!r}\n".encode())
        for part in (self.query_ids, self.doc_ids, self.offsets, self.impressions_by_policy):
            digest.update(f"{part.dtype.str} {part.shape}\n".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:FINGERPRINT_DIGITS]

    def can_give(self, ranks: int) -> bool:
        """Whether `of_ranks` can give the counts of a number of ranks."""
        return ranks <= self.positions or self.left_out == 0

    def of_ranks(self, ranks: int) -> Counts:
        """The counts of another number of ranks: what counting the log again would give.

        Only if `can_give` says so: rows below the last rank were not counted.
        """
        kept = self.cells.position < ranks
        cells = self.cells if kept.all() else self.cells.select(kept)
        left_out = self.rows + self.left_out - int(cells.displays.sum())
        return replace(self, cells=cells, positions=ranks, left_out=left_out)

    def of_policy(self, policy: str) -> Counts:
        """The counts of one policy, with the same queries, documents and policies."""
        number = self.policy_ids.index(policy)
        own = np.arange(len(self.policy_ids)) == number
        return replace(
            self,
            impressions_by_policy=np.where(own[:, None], self.impressions_by_policy, 0),
            cells=self.cells.select(self.cells.policy == number),
        )

    def of_policies(self, policies: Collection[str]) -> Counts:
        """The counts of some policies, without the others."""
        kept = [number for number, policy in enumerate(self.policy_ids) if policy in policies]
        number = np.full(len(self.policy_ids), -1, np.int32)
        number[kept] = np.arange(len(kept))
        cells = self.cells.select(number[self.cells.policy] >= 0)
        return replace(
            self,
            policy_ids=tuple(self.policy_ids[place] for place in kept),
            impressions_by_policy=self.impressions_by_policy[kept],
            cells=replace(cells, policy=number[cells.policy]),
        )

    def __add__(self, other: Counts) -> Counts:
        """The counts of both logs, which have the same queries, documents and ranks."""
        if not np.array_equal(self.offsets, other.offsets) or self.positions != other.positions:
            raise DataError(
                f"only counts of the same queries and ranks add: {self.n_queries} queries, "
                f"{self.n_documents} documents and {self.positions} ranks on the left, {other.n_queries}, "
                f"{other.n_documents} and {other.positions} on the right"
            )
        policies = tuple(dict.fromkeys((*self.policy_ids, *other.policy_ids)))
        arrays = {}
        for policy in policies:
            parts = [counts._arrays(policy) for counts in (self, other) if policy in counts.policy_ids]
            came, displays, clicks = (sum(part[i] for part in parts) for i in range(3))
            arrays[policy] = came, displays, clicks
        both = Counts.of_arrays(self.offsets, arrays)  # type: ignore[arg-type]  # sums of arrays are arrays
        return replace(
            both,
            left_out=self.left_out + other.left_out,
            query_ids=self.query_ids,
            doc_ids=self.doc_ids,
        )

    def _arrays(self, policy: str) -> tuple[Int64, Int64, Int64]:
        number = self.policy_ids.index(policy)
        own = self.cells.policy == number
        came = self.impressions_by_policy[number]
        return came, self.displays_of(number), self._matrix(self.cells.clicks, own)

    def weights(self, effects: ContextEffects) -> Float64:
        """How much a display counts in each cell: float64, cells; λ of its context at its rank."""
        if self.cells.context is None or self.context_of != effects.of:
            raise DataError(f"the log was not counted by {effects.of}")
        context = effects.codes(self.contexts)[self.cells.context]
        result: Float64 = effects.of_ranks(self.positions).factors[context, self.cells.position]
        return result

    def effective_displays(self, effects: ContextEffects, policy: int | None = None) -> Float64:
        """Displays, each as often as users click in its context: ``Σ_c λ_ck n_dkc``, documents × ranks.

        Args:
            effects: those of the contexts that the log was counted by.
            policy: the number of a policy, to count its displays alone; None for all.
        """
        own: slice | NDArray[np.bool_] = slice(None) if policy is None else self.cells.policy == policy
        cells = self.cells
        place = cells.document[own].astype(np.int64) * self.positions + cells.position[own]
        weighted = (cells.displays * self.weights(effects))[own]
        total = np.bincount(place, weighted, self.n_documents * self.positions).astype(np.float64)
        return total.reshape(self.n_documents, self.positions)

    def mean_effects(self, effects: ContextEffects) -> Float64:
        """The mean λ of the displays of each query at each rank: float64, queries × ranks.

        At ranks where a query showed nothing, it is that of all queries.
        """
        displays = self.displays_by_position
        weighted, shown = (
            segment_sum(part, self.offsets) for part in (self.effective_displays(effects), displays)
        )
        usual = weighted.sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
        usual = np.where(usual > 0.0, usual, effects.of_ranks(self.positions).factors.mean(axis=0))
        result: Float64 = np.where(shown > 0, weighted / np.maximum(shown, 1), usual)
        return result

    @property
    def displays_by_position(self) -> Int64:
        """How often each document was shown at each rank, over all policies: int64, documents × ranks."""
        return self._matrix(self.cells.displays, slice(None))

    @property
    def clicks_by_position(self) -> Int64:
        """How often each document was clicked at each rank, over all policies: int64, documents × ranks."""
        return self._matrix(self.cells.clicks, slice(None))

    @property
    def clicks(self) -> Int64:
        """How often each document was clicked: int64, documents."""
        return _sums(self.cells.document, self.cells.clicks, self.n_documents)

    def displays_of(self, policy: int) -> Int64:
        """How often one policy, by its number, showed each document where: int64, documents × positions."""
        return self._matrix(self.cells.displays, self.cells.policy == policy)

    def clicks_of(self, policy: int) -> Int64:
        """How often each document was clicked under one policy, by its number: int64, documents."""
        which = self.cells.policy == policy
        return _sums(self.cells.document[which], self.cells.clicks[which], self.n_documents)

    def totals_by_position(self, policy: int | None = None) -> tuple[Int64, Int64]:
        """Displays and clicks at each rank, over all documents: int64, ranks; of one policy, or of all."""
        own: slice | NDArray[np.bool_] = slice(None) if policy is None else self.cells.policy == policy
        rank = self.cells.position[own]
        displays, clicks = (
            _sums(rank, counted[own], self.positions) for counted in (self.cells.displays, self.cells.clicks)
        )
        return displays, clicks

    def exploration(
        self, policy: int | None = None, queries: NDArray[np.bool_] | None = None
    ) -> float | None:
        """Of the queries that came again, the share whose ranking ever changed; None if none came again.

        Args:
            policy: the number of a policy, to count its impressions alone; None for all.
            queries: bool, queries; those that count. None for all.
        """
        own: slice | NDArray[np.bool_] = slice(None) if policy is None else self.cells.policy == policy
        document, rank = self.cells.document[own], self.cells.position[own]
        # A rank at which a query showed two documents had two rankings.
        shown = distinct(document.astype(np.int64) * self.positions + rank)
        query, place = segment_index(self.offsets)[shown // self.positions], shown % self.positions
        documents = np.bincount(query * self.positions + place, minlength=self.n_queries * self.positions)
        came = self.impressions_by_query if policy is None else self.impressions_by_policy[policy]
        again = (came > 1) if queries is None else (came > 1) & queries
        varied = documents.reshape(self.n_queries, self.positions).max(axis=1, initial=0) > 1
        return float(varied[again].mean()) if again.any() else None

    def explores(self, queries: NDArray[np.bool_] | None = None) -> bool:
        """Whether rankings vary: of the queries that came again, 1 % were not always ranked in the same way.

        If no query came again, whether any document was ever shown at two ranks.

        Args:
            queries: bool, queries; those that count. None for all.
        """
        share = self.exploration(queries=queries)
        if share is not None:
            return share >= EXPLORES
        inside = (
            np.ones(self.n_documents, np.bool_) if queries is None else queries[segment_index(self.offsets)]
        )
        cells = self.cells.select(inside[self.cells.document])
        names, documents = np.unique(self.doc_ids[cells.document], return_inverse=True)
        return len(distinct(documents * self.positions + cells.position)) > len(names)

    def document_name(self, document: int) -> str:
        """A document, as messages name it."""
        query = int(np.searchsorted(self.offsets, document, side="right")) - 1
        return f"query {str(self.query_ids[query])!r}, document {str(self.doc_ids[document])!r}"

    def _matrix(self, counted: Int64, which: slice | NDArray[np.bool_]) -> Int64:
        place = self.cells.document[which].astype(np.int64) * self.positions + self.cells.position[which]
        return _sums(place, counted[which], self.n_documents * self.positions).reshape(
            self.n_documents, self.positions
        )


def _sums(place: NDArray[np.integer], values: Int64, size: int) -> Int64:
    # bincount adds in float64, which is exact for counts below 2⁵³.
    return np.bincount(place, weights=values, minlength=size).astype(np.int64)


@dataclass(frozen=True, eq=False)
class ImpressionTable:
    """Rows of impressions, and one value per impression of everything that is not about a document.

    Attributes:
        rows: what was shown and clicked; the rows of an impression are ordered by position.
        policy: int64, impressions; the number of the policy.
        unit: int64, impressions; the number of the user, or another one for each impression.
        length: int64, impressions; how many documents the list had.
        time: float64, impressions; seconds since 1970, NaN where the time is unknown; None for a log without
            times.
        columns: by name, int64, impressions; the number of the value of a context column.
        policy_ids: the names of the policies, in the order of their first impressions.
        values: by the name of a context column, the names of its values.
        unit_name: what a unit is: ``user``, ``session`` or ``impression``.
        share: the share of the rows of the log that the table has.
        numbers: int64, documents; their numbers in the counts of the log. None if they are numbered as these,
            or if a document is the same one in all queries.
    """

    rows: ImpressionRows
    policy: Int64
    unit: Int64
    length: Int64
    time: Float64 | None = None
    columns: Mapping[str, Int64] = field(default_factory=dict)
    policy_ids: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit_name: str = "impression"
    share: float = 1.0
    numbers: Int64 | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.policy), len(self.unit), len(self.length), *map(len, self.columns.values())}
        if self.time is not None:
            sizes.add(len(self.time))
        if sizes != {len(self.rows)}:
            raise DataError(f"every impression needs one value: {len(self.rows)} impressions, got {sizes}")
        if not self.policy_ids:
            count = int(self.policy.max(initial=-1)) + 1
            object.__setattr__(self, "policy_ids", tuple(f"{number}" for number in range(count)))

    @classmethod
    def of_lists(
        cls,
        documents: ArrayLike,
        clicked: ArrayLike,
        *,
        query: ArrayLike,
        policy: ArrayLike | None = None,
        unit: ArrayLike | None = None,
        time: ArrayLike | None = None,
        columns: Mapping[str, Int64] | None = None,
    ) -> Self:
        """A table of lists: impressions × positions.

        Args:
            documents: int, impressions × positions; numbers over all queries, -1 where nothing is shown.
            clicked: bool, impressions × positions.
            query: int, impressions.
            policy: int, impressions; None for one policy.
            unit: int, impressions; None if the units are the impressions.
            time: seconds, impressions; None for none.
            columns: context columns, each with the number of a value per impression.

        Example:
            >>> table = ImpressionTable.of_lists([[4, 7], [7, -1]], [[1, 0], [0, 0]], query=[0, 0])
            >>> table.length, table.rows.document, table.rows.amount
            (array([2, 1]), array([4, 7, 7]), array([1., 0., 0.]))
        """
        lists = np.asarray(documents, np.int64)
        shown = lists >= 0
        length = shown.sum(axis=1)
        offsets = np.append(0, np.cumsum(length)).astype(np.int64)
        count = len(lists)
        rows = ImpressionRows(
            offsets,
            np.asarray(query, np.int64),
            lists[shown],
            np.nonzero(shown)[1].astype(np.int64),
            np.asarray(clicked)[shown].astype(np.float64),
        )
        return cls(
            rows,
            np.zeros(count, np.int64) if policy is None else np.asarray(policy, np.int64),
            np.arange(count) if unit is None else np.asarray(unit, np.int64),
            length.astype(np.int64),
            None if time is None else np.asarray(time, np.float64),
            columns or {},
            unit_name="impression" if unit is None else "user",
        )


@dataclass(frozen=True, eq=False)
class ImpressionRows:
    """What impressions showed and what was clicked: rows of documents, impression by impression.

    Attributes:
        offsets: int64, impressions + 1; impression t owns rows ``offsets[t]:offsets[t + 1]``.
        query: int64, impressions; the number of its query.
        document: int64, rows; the number of the document over all queries.
        position: int64, rows; where it stood, from 0.
        amount: float64, rows; 1 for a click, or what it was worth.
        weight: float64, rows; how much the display counts, by its context; None if all count alike.
    """

    offsets: Int64
    query: Int64
    document: Int64
    position: Int64
    amount: Float64
    weight: Float64 | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def impression_of(self) -> Int64:
        """int64, rows; the number of the impression."""
        return segment_index(self.offsets)

    def at_level(self, level: float) -> ImpressionRows:
        """The same rows if users click so many times as often: displays count as often."""
        weight = np.ones(len(self.document)) if self.weight is None else self.weight
        return replace(self, weight=level * weight)
