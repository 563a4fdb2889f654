"""A mapping of rows as one SELECT, which stages whole columns at a time.

A row is staged if all of its values are written as most programs write them. The others are read one by one,
which takes longer, accepts more, and says what is wrong with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import PLACE
from rankloop.logs.importers.parsing import DIGITS, EARLIEST, LATEST, NO_VALUE
from rankloop.logs.importers.parsing import MISSING as NO_TIME
from rankloop.logs.importers.staging import SCHEMAS
from rankloop.logs.importers.tables.fields import SEPARATOR
from rankloop.logs.importers.tables.shape import TableShape
from rankloop.logs.schema import IMPRESSIONS

VALID, WANTED = "\1valid", "\1wanted"
NUMBER = f"[0-9]{{1,{DIGITS}}}"
# Seconds, milliseconds and microseconds since 1970; other lengths may be days and seconds written as numbers.
EPOCHS = (("[0-9]{9,11}", 1_000_000), ("[0-9]{12,13}", 1_000), ("[0-9]{15,17}", 1))
ISO = (
    "[1-9][0-9]{3}-[01][0-9]-[0-3][0-9]([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"
    "(Z|[+]00:00)?)?"
)


class StagedColumns(NamedTuple):
    """What a SELECT made of a table.

    Attributes:
        rows: rows of impressions.
        rest: rows of the source that must be read one by one.
        aside: the number of rows that filters leave out, by what is said of them.
    """

    rows: pa.Table
    rest: pa.Table
    aside: Mapping[str, int]


class ColumnSelect:
    """Stages whole columns of rows of documents.

    Args:
        names: the columns of the fields.
        shape: how values are written.
        policy: the policy of all rows; None if a column has it.
        only: a filter on rows, by column and value.

    Example:
        >>> select = ColumnSelect(Columns(query_id=None, timestamp=None), TableShape(), "p", {})
        >>> rows = {PLACE: [1, 2], "impression_id": ["i", "i"], "position": ["1", "2nd"], "doc_id": [7, 8],
        ...         "clicked": ["1", "0"]}
        >>> staged = select.run(pa.table(rows))
        >>> staged.rows["doc_id"].to_pylist(), staged.rest["position"].to_pylist()
        (['7'], ['2nd'])
    """

    def __init__(
        self, names: Columns, shape: TableShape, policy: str | None, only: Mapping[str, str]
    ) -> None:
        self.names, self.shape, self.policy, self.only = names, shape, policy, only
        self._engine = duckdb.connect()
        self._engine.execute("SET threads = 1")

    def run(self, table: pa.Table) -> StagedColumns | None:
        """Stage the rows of a table with a column `PLACE`; None if its columns have other types."""
        table = _plain(table, self.names.timestamp)
        query = self._query(table.schema)
        if query is None:
            return None
        self._engine.register("source", table)
        result = self._engine.execute(query)
        # Older versions of DuckDB use another name.
        found = result.to_arrow_table() if hasattr(result, "to_arrow_table") else result.fetch_arrow_table()
        self._engine.unregister("source")
        aside = {}
        wanted = pa.chunked_array([pa.repeat(True, len(table))])
        for number, column in enumerate(self.only):
            passed = found[f"{WANTED}{number}"]
            if left_out := pc.sum(pc.and_not(wanted, passed)).as_py():
                aside[f"rows where {column} is not {self.only[column]!r}"] = left_out
            wanted = pc.and_(wanted, passed)
        valid = found[VALID]
        schema = SCHEMAS[IMPRESSIONS]
        rows = found.select(schema.names).filter(pc.and_(wanted, valid)).cast(schema)
        return StagedColumns(rows, table.filter(pc.and_not(wanted, valid)), aside)

    def _query(self, schema: pa.Schema) -> str | None:
        names = self.names
        parts = [_text(schema, name) for name in names.impression_columns]
        if not parts or names.position is None:
            return None
        impression = parts[0]
        if len(parts) > 1:
            escaped = [
                f"replace(replace({part}, '\\', '\\\\'), '{SEPARATOR}', '\\{SEPARATOR}')" for part in parts
            ]
            impression = None if None in parts else f" || '{SEPARATOR}' || ".join(escaped)
        columns = {
            "impression_id": impression,
            "query_id": impression if names.query_id is None else _text(schema, names.query_id),
            "policy_id": _literal(self.policy) if self.policy is not None else _text(schema, names.policy_id),
            "position": _whole(schema, names.position),
            "doc_id": _text(schema, names.doc_id),
            "clicked": "false" if names.clicked is None else self._clicked(schema, names.clicked),
        }
        time = ("NULL::TIMESTAMP", "true") if names.timestamp is None else _time(schema, names.timestamp)
        filters = [_text(schema, column, is_filter=True) for column in self.only]
        if time is None or None in columns.values() or None in filters:
            return None
        selected = [f"{text} AS {name}" for name, text in columns.items()]
        moment, is_time = time
        valid = " AND ".join([*(f"{name} IS NOT NULL" for name in columns), is_time])
        wanted = [
            f'coalesce({text} = {_literal(value)}, false) AS "{WANTED}{number}"'
            for number, (text, value) in enumerate(zip(filters, self.only.values(), strict=True))
        ]
        outer = [
            f'"{PLACE}" AS place', *columns, f"{moment} AS timestamp", "NULL::DOUBLE AS amount",
            f'{valid} AS "{VALID}"', *wanted,
        ]  # fmt: skip
        renamed = ", ".join(f"{_quoted(name)} AS c{at}" for at, name in enumerate(schema.names))
        inner = f'SELECT {", ".join(selected)}, * FROM (SELECT {renamed}, "{PLACE}" FROM source)'
        return f"SELECT {', '.join(outer)} FROM ({inner})"

    def _clicked(self, schema: pa.Schema, name: str) -> str | None:
        at = schema.get_field_index(name)
        kind = schema.field(at).type if at >= 0 else None
        if kind is None:
            return None
        if pa.types.is_boolean(kind):
            return f"c{at}"
        if pa.types.is_integer(kind):
            return f"CASE WHEN c{at} >= 0 THEN c{at} > 0 END"
        if not pa.types.is_string(kind):
            return None
        cases = [f"c{at} IS NULL OR {_is_one_of(at, NO_VALUE)} THEN false"]
        cases = cases if self.shape.empty_is_unclicked else []
        cases.append(f"regexp_full_match(c{at}, '{NUMBER}') THEN c{at}::INT > 0")
        cases += [f"lower(c{at}) = '{word}' THEN {word}" for word in ("true", "false")]
        return f"CASE {' '.join(f'WHEN {case}' for case in cases)} END"


def _plain(table: pa.Table, time: str | None) -> pa.Table:
    """The same with text as text and moments in microseconds, as far as they are in range."""
    for at, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or kind is not field.type:
            kind = pa.string() if not pa.types.is_integer(kind) else kind
            table = table.set_column(at, field.name, table.column(at).cast(kind))
        elif field.name == time and pa.types.is_timestamp(kind) and _are_in_range(table.column(at)):
            moments = table.column(at).cast(pa.timestamp("us", kind.tz), safe=False)
            table = table.set_column(at, field.name, moments.cast(pa.int64()).cast(pa.timestamp("us")))
    return table


def _are_in_range(column: pa.ChunkedArray) -> bool:
    """Whether moments are between the years 1 and 9999, or missing."""
    per_microsecond = {"s": 1e-6, "ms": 1e-3, "us": 1.0, "ns": 1e3}[column.type.unit]
    ends = pc.min_max(column.cast(pa.int64())).as_py().values()
    return all(end is None or EARLIEST <= end / per_microsecond <= LATEST for end in ends)


def _by_type(
    schema: pa.Schema, name: str | None, of_text: Callable[[int], str], of_integer: Callable[[int], str]
) -> str | None:
    at = -1 if name is None else schema.get_field_index(name)
    if at < 0:
        return None
    if pa.types.is_string(schema.field(at).type):
        return of_text(at)
    return of_integer(at) if pa.types.is_integer(schema.field(at).type) else None


def _text(schema: pa.Schema, name: str | None, *, is_filter: bool = False) -> str | None:
    """An id; any text and truth, too, if it is compared with that of a filter."""
    at = -1 if name is None else schema.get_field_index(name)
    if is_filter and at >= 0 and pa.types.is_boolean(schema.field(at).type):
        return f"c{at}::VARCHAR"
    return _by_type(
        schema,
        name,
        lambda at: (
            f"c{at}" if is_filter else f"CASE WHEN c{at} <> '' AND right(c{at}, 1) <> chr(0) THEN c{at} END"
        ),
        lambda at: f"c{at}::VARCHAR",
    )


def _whole(schema: pa.Schema, name: str) -> str | None:
    return _by_type(
        schema,
        name,
        lambda at: f"CASE WHEN regexp_full_match(c{at}, '{NUMBER}') THEN c{at}::BIGINT END",
        lambda at: f"CASE WHEN c{at} > -1e{DIGITS} AND c{at} < 1e{DIGITS} THEN c{at}::BIGINT END",
    )


def _time(schema: pa.Schema, name: str) -> tuple[str, str] | None:
    """A moment, and whether it is one or missing."""
    at = schema.get_field_index(name)
    if at >= 0 and schema.field(at).type == pa.timestamp("us"):
        return f"c{at}", "true"
    text = _by_type(schema, name, lambda at: f"c{at}", lambda at: f"c{at}::VARCHAR")
    if text is None:
        return None
    epochs = " ".join(
        f"WHEN regexp_full_match({text}, '{pattern}') THEN make_timestamp({text}::BIGINT * {unit})"
        for pattern, unit in EPOCHS
    )
    moment = (
        f"CASE {epochs} WHEN regexp_full_match({text}, '{ISO}') "
        f"THEN try_cast(regexp_replace({text}, '(Z|[+]00:00)$', '') AS TIMESTAMP) END"
    )
    return moment, f"({text} IS NULL OR {_is_one_of(at, NO_TIME)} OR {moment} IS NOT NULL)"


def _is_one_of(at: int, words: tuple[str, ...]) -> str:
    return f"lower(trim(c{at}::VARCHAR)) IN ({', '.join(map(_literal, words))})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
