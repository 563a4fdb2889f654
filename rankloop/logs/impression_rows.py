"""The impressions of a log as arrays: batch by batch where the rows are, or as one table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.counter import CONTEXT, MISSING, WHOLE, Span, as_text, context_of_rows
from rankloop.logs.engines import Batches, Engine, Expression, Mapped
from rankloop.logs.folder import LogFolder
from rankloop.logs.grading import CLICKED, CLICKS, Grading, share_of
from rankloop.logs.impression_shapes import CLIENT_COLUMNS
from rankloop.logs.schema import COLUMNS as KNOWN
from rankloop.logs.schema import IMPRESSIONS, QUERY_DOCUMENT
from rankloop.logs.writer import AMOUNT
from rankloop.ragged import offsets_of, segment_index
from rankloop.statistics import Counts
from rankloop.statistics.counts import ImpressionRows, ImpressionTable
from rankloop.types import ContextEffects, Float64, Int64

# What identifies an impression: a hash of its id and of its policy, and its query, which one id may share.
IMPRESSION = ("code", "query")
COLUMNS: Sequence[str] = (*IMPRESSION, "document", "position", "amount")
# A table takes about 100 bytes per row, and time to be tested. Effects of two percent are seen in so many.
MOST_ROWS = 500_000
# With fewer queries than this, a sample of queries would say little about others: impressions are sampled.
LEAST_QUERIES = 200
# A column with more values is not a context that many impressions share.
MOST_VALUES = 1_000
# A column with more is tested only if it is named.
FEW_VALUES = 20
# Users are put into so many groups, a power of 2: a variance over groups is as good as one over users.
UNIT_GROUPS = 1 << 14


def map_impressions(
    engine: Engine,
    log: LogFolder,
    counts: Counts,
    function: Mapped,
    schema: pa.Schema,
    *,
    queries: NDArray[np.bool_],
    grading: Grading = CLICKS,
    policy: str | None = None,
    effects: ContextEffects | None = None,
    span: Span = WHOLE,
    units: bool = False,
) -> Batches:
    """The results of a function on batches of whole impressions, in no particular order.

    The function takes batches with the columns of `rows_of`. Queries and documents are numbered among those
    that are asked for.

    Args:
        engine: the engine that runs the expression.
        log: the log.
        counts: its counts: names and numbers of its queries and documents.
        function: what is computed; it may be sent to other machines.
        schema: the columns of its results.
        queries: bool, queries; those whose impressions are wanted.
        grading: what displays are worth.
        policy: the impressions of this policy alone; None for all.
        effects: how much more users click in some contexts: rows then have their context, and `rows_of` takes
            the same effects.
        span: the part of the log that is read.
        units: whether batches have the column ``unit``, too, the group of the user.
    """
    rows = span.of(engine.table(log.files(IMPRESSIONS)))
    context = {} if effects is None else context_of_rows(log, rows, effects.of)
    if policy is not None:
        rows = rows.filter(_.policy_id.cast("string") == policy)
    more = {"unit": _unit_of(rows).hash() & (UNIT_GROUPS - 1)} if units else {}
    named = (
        rows.select(
            **as_text("impression_id", "policy_id", *QUERY_DOCUMENT),
            **more,
            position=_.position.cast("int64") - 1,
            amount=share_of(grading),
            **context,
        )
        .join(engine.given(_numbers(counts, queries)), QUERY_DOCUMENT)
        .mutate(code=_.impression_id.hash() ^ _.policy_id.hash())
    )
    return engine.grouped(named.select(*COLUMNS, *more, *context), IMPRESSION, function, schema)


def client_of(rows: Expression) -> str | None:
    """The column that tells who looked, if there is one."""
    return next((name for name in CLIENT_COLUMNS if name in rows.columns), None)


def unit_name(client: str | None) -> str:
    """What is independent: ``user``, ``session``, or ``impression`` if it is not known who looked."""
    return "impression" if client is None else client.removesuffix("_id").replace("client", "user")


def rows_of(batch: pa.RecordBatch, effects: ContextEffects | None = None) -> ImpressionRows:
    """A batch of `map_impressions` as arrays; the rows of an impression are ordered by position."""
    return _sorted_rows(batch, effects)[0]


def rows_and_units(
    batch: pa.RecordBatch, effects: ContextEffects | None = None
) -> tuple[ImpressionRows, Int64]:
    """The same with the group of each impression's user: int64, impressions."""
    rows, first = _sorted_rows(batch, effects)
    return rows, batch.column("unit").to_numpy()[first].astype(np.int64)


def _sorted_rows(batch: pa.RecordBatch, effects: ContextEffects | None) -> tuple[ImpressionRows, Int64]:
    """The rows, and a row of each impression in the batch."""
    code, query, document, position, amount = (batch.column(name).to_numpy() for name in COLUMNS)
    # Engines return the rows of an impression in any order, and sums depend on it.
    order = np.lexsort((document, position, query, code))
    code, query = code[order], query[order]
    starts = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (query[1:] != query[:-1])))
    weight = None
    if effects is not None:
        coded = batch.column(CONTEXT).dictionary_encode()
        context = effects.codes(coded.dictionary.to_pylist())[coded.indices.to_numpy()[order]]
        weight = effects.factors[context, np.minimum(position[order], effects.ranks - 1)]
    rows = ImpressionRows(
        np.append(starts, len(code)).astype(np.int64),
        query[starts],
        document[order],
        position[order],
        amount[order],
        weight,
    )
    return rows, order[starts]


def read_impression_table(
    engine: Engine,
    log: LogFolder,
    counts: Counts,
    *,
    rng: np.random.Generator,
    columns: Sequence[str] | None = None,
    most_rows: int = MOST_ROWS,
) -> ImpressionTable:
    """Read the impressions of a log, with what they have in common; whole queries of a log that is larger.

    Units are users where the log has a column of them (``client_id``, ``user_id``), else sessions, else
    impressions. Where most queries come once, as in recommendation logs, a document is the same document in
    every query.

    Args:
        engine: the engine that runs the expressions.
        log: the log.
        counts: its counts: names and numbers of its queries and documents.
        rng: draws the queries, if not all of them are read.
        columns: the names of context columns, such as ``device``; None for all columns of texts, whole
            numbers or truth values that have few values.
        most_rows: how many rows are read at most, about. A log of few queries gives a sample of its units.
    """
    rows = engine.table(log.files(IMPRESSIONS))
    if columns is None:
        columns = _context_columns(engine, rows)
    for column in columns:
        if column not in rows.columns or column in KNOWN[IMPRESSIONS]:
            others = [name for name in rows.columns if name not in KNOWN[IMPRESSIONS]]
            raise DataError(
                f"{log.source(IMPRESSIONS)}: {column!r} is not a context column; the log has "
                f"{', '.join(others) or 'none'}"
            )
    client, unit = client_of(rows), _unit_of(rows)
    timed = bool(rows.schema()["timestamp"].is_timestamp())
    chosen, steps = _sample(counts, most_rows, rng)
    if steps > 1:
        rows = rows.filter(unit.hash() % steps == 0)
    named = (
        rows.mutate(unit=unit, **as_text("impression_id", "policy_id", *QUERY_DOCUMENT))
        .join(engine.given(_numbers(counts, chosen)), QUERY_DOCUMENT)
        .select(
            "query",
            "document",
            "policy_id",
            "unit",
            code=_.impression_id.hash() ^ _.policy_id.hash(),
            position=_.position.cast("int64") - 1,
            amount=CLICKED,
            # Whole seconds: Spark has no others.
            time=_.timestamp.epoch_seconds().cast("float64").floor() if timed else ibis.literal(np.nan),
            **{f"column_{place}": _[name].cast("string") for place, name in enumerate(columns)},
        )
    )
    found = pa.Table.from_batches(engine.batches(named), named.schema().to_pyarrow())
    if not len(found):
        raise DataError(f"{log.source(IMPRESSIONS)}: the log has no impressions of known documents")
    everything = counts.rows + counts.left_out
    listed = _tabulate(found, counts, chosen)
    units = _numbered(listed.texts["unit"])[0]
    contexts = {name: _numbered(listed.texts[f"column_{place}"]) for place, name in enumerate(columns)}
    for name, (_codes, names) in contexts.items():
        if len(names) > MOST_VALUES:
            raise DataError(
                f"{log.source(IMPRESSIONS)}: the column {name!r} has {len(names):,} values; a context column "
                f"has few, such as the kinds of devices"
            )
    return ImpressionTable(
        listed.rows,
        pc.index_in(listed.texts["policy_id"], pa.array(counts.policy_ids)).to_numpy().astype(np.int64),
        units,
        np.diff(listed.rows.offsets),
        listed.time if timed else None,
        {name: numbers for name, (numbers, _) in contexts.items()},
        counts.policy_ids,
        {name: tuple(names.to_pylist()) for name, (_, names) in contexts.items()},
        unit_name(client),
        min(1.0, len(found) / everything),
        None if _pools_documents(counts) else np.flatnonzero(chosen[segment_index(counts.offsets)]),
    )


def _context_columns(engine: Engine, rows: Expression) -> list[str]:
    """The columns of few values, with which an impression may say where it was shown, such as the device."""
    known = {*KNOWN[IMPRESSIONS], *CLIENT_COLUMNS, AMOUNT}
    kinds = rows.schema()
    names = [
        name
        for name in rows.columns
        if name not in known
        and (kinds[name].is_string() or kinds[name].is_boolean() or kinds[name].is_integer())
    ]
    if not names:
        return []
    counted = rows.agg(**{f"column_{place}": _[name].nunique() for place, name in enumerate(names)})
    (found,) = [row for batch in engine.batches(counted) for row in batch.to_pylist()]
    return [name for place, name in enumerate(names) if 1 < found[f"column_{place}"] <= FEW_VALUES]


def _pools_documents(counts: Counts) -> bool:
    """Whether the same document of every query has one number: hardly any query came again."""
    return counts.impressions < 2 * counts.n_queries


class _Listed(NamedTuple):
    """Rows in the order of their impressions, and the text columns with one value per impression."""

    rows: ImpressionRows
    time: Float64
    texts: dict[str, pa.Array]


def _tabulate(found: pa.Table, counts: Counts, chosen: NDArray[np.bool_]) -> _Listed:
    code, query, document, position, amount = (found.column(name).to_numpy() for name in COLUMNS)
    if _pools_documents(counts):
        names = counts.doc_ids[chosen[segment_index(counts.offsets)]]
        document = np.unique(names, return_inverse=True)[1].astype(np.int64)[document]
    order = np.lexsort((document, position, query, code))
    code, query = code[order], query[order]
    starts = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (query[1:] != query[:-1])))
    units = _numbered(found.column("unit").combine_chunks().take(pa.array(order[starts])))[0]
    time = found.column("time").to_numpy()[order[starts]]
    # Hashes differ between engines, and sums depend on the order of impressions.
    content = np.add.reduceat((position[order] + 1) * (2.0 * document[order] + amount[order]), starts)
    moved = np.lexsort((content, time, query[starts], units))
    first, sizes = starts[moved], np.diff(np.append(starts, len(code)))[moved]
    offsets = offsets_of(sizes)
    order = order[np.repeat(first - offsets[:-1], sizes) + np.arange(len(order))]
    rows = ImpressionRows(offsets, query[first], document[order], position[order], amount[order])
    firsts = pa.array(order[offsets[:-1]])
    texts = {
        name: found.column(name).combine_chunks().take(firsts)
        for name in found.column_names
        if pa.types.is_string(found.schema.field(name).type)
    }
    return _Listed(rows, time[moved], texts)


def _numbered(texts: pa.Array) -> tuple[Int64, pa.Array]:
    """Numbers of values in the order of their names, which all engines return alike, and these names."""
    coded = pc.fill_null(texts, MISSING).dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    number = np.empty(len(order), np.int64)
    number[order.to_numpy()] = np.arange(len(order))
    return number[coded.indices.to_numpy()], coded.dictionary.take(order)


def _sample(counts: Counts, most_rows: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], int]:
    """Which queries are read, and of how many units one is."""
    everything = np.ones(counts.n_queries, np.bool_)
    rows = counts.rows + counts.left_out
    if rows <= most_rows:
        return everything, 1
    query = segment_index(counts.offsets)[counts.cells.document]
    per_query = np.bincount(query, counts.cells.displays, counts.n_queries)
    drawn = rng.permutation(counts.n_queries)
    within = drawn[np.cumsum(per_query[drawn]) <= most_rows]
    if len(within) < LEAST_QUERIES:
        return everything, -(-rows // most_rows)
    everything[:] = False
    everything[within] = True
    return everything, 1


def _unit_of(rows: Expression) -> Expression:
    """Who looked, as an expression on rows: the impression itself if that is not known."""
    client, impression = client_of(rows), _.impression_id.cast("string")
    return impression if client is None else ibis.coalesce(_[client].cast("string"), impression)


def _numbers(counts: Counts, queries: NDArray[np.bool_]) -> pa.Table:
    """The numbers of the queries and documents that are asked for, by their ids."""
    query = segment_index(counts.offsets)
    documents = np.flatnonzero(queries[query])
    chosen = query[documents]
    return pa.table(
        {
            "query_id": pa.array(counts.query_ids[chosen].tolist(), pa.string()),
            "doc_id": pa.array(counts.doc_ids[documents].tolist(), pa.string()),
            "query": (np.cumsum(queries) - 1)[chosen].astype(np.int64),
            "document": np.arange(len(documents), dtype=np.int64),
        }
    )
