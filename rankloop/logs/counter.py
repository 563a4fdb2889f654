"""Counts a log with ibis expressions that are the same for every engine.

    blocks     impressions grouped by policy, query, document and eight positions: displays and clicks of each
    documents  every document of a query that was shown or is a candidate, numbered query by query
    queries    the number of impressions of each query under each policy

Only counts leave the engine, and their number does not grow with the number of clicks.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import CANDIDATES, COLUMNS, IMPRESSIONS, QUERY_DOCUMENT
from rankloop.ragged import offsets_of
from rankloop.statistics.counts import Cells, Counts
from rankloop.types import LIST_LENGTH, OTHER, Int64, Str

CELL = ("policy_id", *QUERY_DOCUMENT, "position")
# No user looks this far down. A larger position is an error, and counting it would take all memory.
DEEPEST_POSITION = 1_000
# 2³ positions are counted as columns of one row, which takes half the work of one row per position.
SHIFT = 3
NUL = "\0"
# The name of the column that is added; a log has no such column of its own by chance.
CONTEXT = "rankloop_context"
BESIDE = range(1 << SHIFT)
COUNTED = ("displays", "clicks", "cells")
DISPLAYS, CLICKS, CELLS = ([f"{what}_{place}" for place in BESIDE] for what in COUNTED)


class LogCounter:
    """Counts one log on one engine; impressions are grouped once, for everything that is asked.

    Args:
        log: the log.
        engine: the engine that runs the expressions.
        ranks: how many ranks to count; None for all.
        known: the counts of the log, if they are known: its documents are not listed again.
        context_of: what cells are told apart by, too: ``list length``, or a column; None for nothing.
    """

    def __init__(
        self,
        log: LogFolder,
        engine: Engine,
        ranks: int | None = None,
        known: Counts | None = None,
        context_of: str | None = None,
    ) -> None:
        self.log, self.engine, self.ranks, self.known = log, engine, ranks, known
        self.context_of = context_of
        self.impressions = engine.table(log.files(IMPRESSIONS))
        if context_of is not None:
            self.impressions = self.impressions.mutate(**context_of_rows(log, self.impressions, context_of))
        self.candidates: Expression | None = None
        if log.has(CANDIDATES):
            table = engine.table(log.files(CANDIDATES))
            self.candidates = table.select(
                **as_text("policy_id", *QUERY_DOCUMENT), score=_.score.cast("float64")
            )

    @cached_property
    def blocks(self) -> Expression:
        """Impressions, grouped by policy, document and block of positions."""
        below_top = _.position.cast("int64") - 1
        placed = self.impressions.mutate(block=below_top >> SHIFT, place=below_top & BESIDE[-1])
        counted = {name: _.count(where=_.place == place) for place, name in enumerate(DISPLAYS)}
        counted |= {name: _.count(where=_.clicked & (_.place == place)) for place, name in enumerate(CLICKS)}
        context = () if self.context_of is None else (CONTEXT,)
        return self.engine.stored(
            placed.group_by("policy_id", *QUERY_DOCUMENT, *context, "block")
            .agg(**counted, unknown=_.count(where=_.clicked.isnull()))
            .mutate(**as_text("policy_id", *QUERY_DOCUMENT))
        )

    @cached_property
    def documents(self) -> Expression:
        """The documents, numbered."""
        if self.known is not None:
            queries = np.repeat(self.known.query_ids, np.diff(self.known.offsets))
            names = dict(zip(QUERY_DOCUMENT, (queries, self.known.doc_ids), strict=True))
            columns = {name: pa.array(values.tolist(), pa.string()) for name, values in names.items()}
            return self.engine.given(
                pa.table({**columns, "document": np.arange(len(queries), dtype=np.int32)})
            )
        documents = self.blocks.select(*QUERY_DOCUMENT)
        if self.candidates is not None:
            documents = documents.union(self.candidates.select(*QUERY_DOCUMENT))
        numbered = ibis.row_number().over(order_by=list(QUERY_DOCUMENT)).cast("int32")
        return self.engine.stored(documents.distinct().mutate(document=numbered))

    def counts(self) -> Counts:
        """Count."""
        totals = self.totals
        query_ids, doc_ids, offsets = self._names()
        policy_ids = tuple(row["policy_id"] for row in self.policy_times)
        ranks = self._ranks()
        contexts = self._contexts()
        cells = self._cells(policy_ids, ranks, contexts)
        return Counts(
            offsets,
            policy_ids,
            self._impressions(policy_ids, offsets),
            cells,
            ranks,
            left_out=totals["rows"] - int(cells.displays.sum()),
            query_ids=query_ids,
            doc_ids=doc_ids,
            context_of=self.context_of,
            contexts=contexts,
        )

    def _ranks(self) -> int:
        deepest = self.totals["deepest"]
        if self.ranks is None and deepest > DEEPEST_POSITION:
            raise DataError(
                f"{self.log.source(IMPRESSIONS)}: the deepest position is {deepest:,}: choose how many ranks "
                f"to count, at most {DEEPEST_POSITION:,}, such as ranks=10"
            )
        return deepest if self.ranks is None else self.ranks

    @cached_property
    def totals(self) -> dict[str, int]:
        """The rows and clicks of the whole log and its deepest position; refuses bad rows."""
        self._refuse_bad_rows()
        if not len(self.by_rank):
            raise DataError(f"{self.log.folder}: the log is empty: it has no rows of impressions")
        rows, clicks = (int(self.by_rank[name].sum()) for name in ("displays", "clicks"))
        return {"rows": rows, "clicks": clicks, "deepest": int(self.by_rank["rank"].max()) + 1}

    @cached_property
    def by_rank(self) -> NDArray[np.void]:
        """The ranks, from 0, at which anything was shown: displays, clicks and number of cells."""
        sums = {name: _[name].sum() for name in (*DISPLAYS, *CLICKS)}
        cells = {name: (_[shown] > 0).sum() for name, shown in zip(CELLS, DISPLAYS, strict=True)}
        found = [
            ((row["block"] << SHIFT) + place, *(row[f"{what}_{place}"] for what in COUNTED))
            for row in self.rows(self.blocks.group_by("block").agg(**sums, **cells))
            for place in BESIDE
            if row[DISPLAYS[place]]
        ]
        return np.array(found, [(name, np.int64) for name in ("rank", *COUNTED)])

    @cached_property
    def policy_times(self) -> list[dict[str, Any]]:
        """The policies with the times of their first and last impressions, ordered by the first."""
        by_policy = self.impressions.group_by(**as_text("policy_id"))
        try:
            found = self.rows(by_policy.agg(first=_.timestamp.min(), last=_.timestamp.max()))
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"{self.log.source(IMPRESSIONS)}: a timestamp is outside the years 1 to 9999"
            ) from error
        rows = [row | {end: _utc(row[end]) for end in ("first", "last")} for row in found]
        # Policies without times come last.
        return sorted(rows, key=lambda row: (row["first"] is None, row["first"] or 0, row["policy_id"]))

    def rows(self, expression: Expression) -> list[dict[str, Any]]:
        """The rows of a small expression."""
        return [row for batch in self.engine.batches(expression) for row in batch.to_pylist()]

    def _refuse_bad_rows(self) -> None:
        nameless = [self.blocks[column].isnull() for column in ("policy_id", *QUERY_DOCUMENT, "block")]
        if not self.rows(self.blocks.filter(ibis.or_(*nameless, _.block < 0, _.unknown > 0)).limit(1)):
            return
        missing = [self.impressions[column].isnull() for column in (*CELL, "clicked")]
        bad = self.impressions.filter(ibis.or_(*missing, _.position < 1)).group_by(*CELL)
        cells = bad.agg(displays=_.count(), unknown=_.count(where=_.clicked.isnull()))
        for row in self.rows(cells.mutate(**as_text("policy_id", *QUERY_DOCUMENT)).order_by(*CELL).limit(1)):
            place = (
                f"{self.log.source(IMPRESSIONS)}: policy {row['policy_id']!r}, query {row['query_id']!r}, "
                f"document {row['doc_id']!r}"
            )
            empty = [name for name in CELL if row[name] is None] + ["clicked"] * (row["unknown"] > 0)
            if empty:
                raise DataError(f"{place}: {row['displays']} rows without {empty[0]!r}; every row needs one")
            raise DataError(
                f"{place}: the position is {row['position']}, but positions count from 1 "
                f"(`rankloop import` recognises positions that count from 0)"
            )

    def _refuse_nameless(self) -> None:
        nameless = self.impressions.filter(_.impression_id.isnull()).agg(rows=_.count())
        ((rows,),) = (row.values() for row in self.rows(nameless))
        if rows:
            where = self.log.source(IMPRESSIONS)
            raise DataError(f"{where}: {rows} rows without 'impression_id'; every row needs one")

    def _names(self) -> tuple[Str, Str, Int64]:
        tables = [pa.Table.from_batches([batch]) for batch in self.engine.batches(self.documents)]
        documents = pa.concat_tables(tables).sort_by("document")
        queries = documents["query_id"].combine_chunks().dictionary_encode()
        sizes = np.bincount(queries.indices.to_numpy())
        return _text(queries.dictionary), _text(documents["doc_id"]), offsets_of(sizes)

    def _contexts(self) -> tuple[str, ...]:
        if self.context_of is None:
            return ()
        return tuple(sorted(row[CONTEXT] for row in self.rows(self.blocks.select(CONTEXT).distinct())))

    def _cells(self, policy_ids: tuple[str, ...], ranks: int, contexts: tuple[str, ...]) -> Cells:
        within = self.by_rank["rank"] < ranks
        # Filled batch by batch, so that millions of cells are held only once.
        result = Cells.empty(int(self.by_rank["cells"][within].sum()), contexts=self.context_of is not None)
        named = self.blocks.join(self.documents, QUERY_DOCUMENT)
        at = 0
        names = ("policy_id", "document", "block", *(() if result.context is None else (CONTEXT,)))
        for batch in self.engine.batches(named.select(*names, *DISPLAYS, *CLICKS)):
            displays, clicks = (_matrix(batch, names) for names in (DISPLAYS, CLICKS))
            first_rank = batch.column("block").to_numpy() << SHIFT
            rows, places = np.nonzero((displays > 0) & (first_rank[:, None] + BESIDE < ranks))
            here = slice(at, at + len(rows))
            result.policy[here] = _codes(batch.column("policy_id"), policy_ids)[rows]
            result.document[here] = batch.column("document").to_numpy()[rows]
            if result.context is not None:
                result.context[here] = _codes(batch.column(CONTEXT), contexts)[rows]
            result.position[here] = first_rank[rows] + places
            result.displays[here] = displays[rows, places]
            result.clicks[here] = clicks[rows, places]
            at = here.stop
        # Engines return rows in any order.
        return result.in_order()

    def _impressions(self, policy_ids: tuple[str, ...], offsets: Int64) -> Int64:
        by_query = ("policy_id", "query_id")
        if self.log.starts:
            came = self.blocks.filter(_.block == 0).group_by(*by_query).agg(came=_[DISPLAYS[0]].sum())
        else:
            self._refuse_nameless()
            impressions = self.impressions.select("impression_id", **as_text(*by_query)).distinct()
            came = impressions.group_by(*by_query).agg(came=_.count())
        # A query is identified by its first document.
        firsts = self.documents.group_by("query_id").agg(first=_.document.min())
        result = np.zeros((len(policy_ids), len(offsets) - 1), np.int64)
        for batch in self.engine.batches(came.join(firsts, "query_id")):
            policies = _codes(batch.column("policy_id"), policy_ids)
            queries = np.searchsorted(offsets, batch.column("first").to_numpy())
            result[policies, queries] = batch.column("came").to_numpy()
        return result


def context_of_rows(log: LogFolder, rows: Expression, context_of: str) -> dict[str, Expression]:
    """The context of each row of impressions, as text: the length of its list, or the value of a column.

    Raises:
        DataError: the log has no such column.
    """
    if context_of == LIST_LENGTH:
        own = ibis.window(group_by=["impression_id", "policy_id", "query_id"])
        return {CONTEXT: rows.count().over(own).cast("string")}
    others = [name for name in rows.columns if name not in COLUMNS[IMPRESSIONS]]
    if context_of not in others:
        raise DataError(
            f"{log.source(IMPRESSIONS)}: {context_of!r} is not a context column; the log has "
            f"{', '.join(others) or 'none'}"
        )
    return {CONTEXT: ibis.coalesce(rows[context_of].cast("string"), OTHER)}


def as_text(*columns: str) -> dict[str, Expression]:
    """Columns as text: ids may be whole numbers."""
    return {column: _[column].cast("string") for column in columns}


def _utc(time: datetime | None) -> datetime | None:
    """A time in UTC, which not every engine states."""
    return time if time is None else time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _codes(values: pa.Array, known: tuple[str, ...]) -> NDArray[np.int32]:
    codes: NDArray[np.int32] = pc.index_in(values, value_set=pa.array(known, pa.string())).to_numpy()
    return codes


def _matrix(batch: pa.RecordBatch, columns: list[str]) -> Int64:
    """Columns of counts as one matrix: rows × columns."""
    return np.stack([batch.column(name).to_numpy() for name in columns], axis=1)


def _text(values: Any) -> Str:
    ids = pa.array(values) if not isinstance(values, pa.Array | pa.ChunkedArray) else values
    if pc.any(pc.ends_with(ids, NUL)).as_py():
        # NumPy would drop it, and the id could become that of another query or document.
        raise DataError(
            "an id in the log ends with a NUL character: `rankloop import columns` reads the log and leaves "
            "such rows out"
        )
    return np.asarray(values.to_pylist(), dtype=np.str_)


# The value of a column where it has none.
MISSING = "missing"


class Segment(NamedTuple):
    """The impressions with one value of a column, such as a device.

    Attributes:
        column: the name of the column.
        value: the value as text; ``missing`` where it is missing.
    """

    column: str
    value: str


class Span(NamedTuple):
    """The impressions from one time to another, or those of some policies or of a segment.

    Attributes:
        start: seconds since 1970; impressions without a time belong to a span without a start.
        end: the first second after it.
        policies: the policies; None for all.
        segment: the segment; None for all impressions.
    """

    start: float = -math.inf
    end: float = math.inf
    policies: tuple[str, ...] | None = None
    segment: Segment | None = None

    def of(self, rows: Expression) -> Expression:
        """The rows of impressions that belong to it."""
        if self.policies is not None:
            rows = rows.filter(as_text("policy_id")["policy_id"].isin(self.policies))
        if self.segment is not None:
            value = ibis.coalesce(_[self.segment.column].cast("string"), MISSING)
            rows = rows.filter(value == self.segment.value)
        # Whole seconds: Spark has no others.
        second = _.timestamp.epoch_seconds()
        if self.end < math.inf:
            early = second < int(self.end)
            rows = rows.filter(early | _.timestamp.isnull() if self.start == -math.inf else early)
        return rows if self.start == -math.inf else rows.filter(second >= int(self.start))


WHOLE = Span()
