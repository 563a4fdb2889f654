"""The tables of a log: their columns, and the types that are accepted.

    impressions   impression_id  timestamp  query_id  policy_id  position  doc_id  clicked
    candidates    policy_id  query_id  doc_id  score
    features      query_id  doc_id  one column per feature, named after it; or one column of vectors

One row of ``impressions`` is one document that was shown. Ids are text; whole numbers are read as text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.errors import DataError

VERSION = "2"

IMPRESSIONS, CANDIDATES, FEATURES = "impressions", "candidates", "features"
TABLES = (IMPRESSIONS, CANDIDATES, FEATURES)
QUERY_DOCUMENT = ("query_id", "doc_id")
# Names of a column that was meant to be query_id, besides those that are spelt nearly alike; `query_count` is
# a feature.
OTHER_QUERY_IDS, ALIKE = ("q", "qid", "query"), 0.75
# The report of an import, stored beside the tables so that later reports can show what was repaired.
REPORT_FILE = "import.json"
# How its source was read.
MAPPING_FILE = "mapping.toml"

# The kinds of columns, as messages name them.
ID, TIME, RANK, SCORE, FLAG = (
    "text or whole numbers",
    "timestamps",
    "whole numbers",
    "numbers",
    "true or false",
)

COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        IMPRESSIONS: {
            "impression_id": ID,
            "timestamp": TIME,
            "query_id": ID,
            "policy_id": ID,
            "position": RANK,
            "doc_id": ID,
            "clicked": FLAG,
        },
        CANDIDATES: {"policy_id": ID, "query_id": ID, "doc_id": ID, "score": SCORE},
        FEATURES: {"query_id": ID, "doc_id": ID},
    }
)

_WRITTEN = {
    # Ids repeat: as codes into a dictionary they take a few bytes per row.
    ID: pa.dictionary(pa.int32(), pa.string()),
    TIME: pa.timestamp("us", tz="UTC"),
    RANK: pa.int32(),
    SCORE: pa.float64(),
    FLAG: pa.bool_(),
}


def arrow_schema(table: str) -> pa.Schema:
    """The types that a table is written with.

    Example:
        >>> arrow_schema("candidates").names
        ['policy_id', 'query_id', 'doc_id', 'score']
    """
    return pa.schema([pa.field(name, _WRITTEN[kind]) for name, kind in COLUMNS[table].items()])


def check_columns(schema: pa.Schema, table: str, where: str) -> None:
    """Refuse a table without the columns it needs, or with a column of the wrong type.

    Example:
        >>> check_columns(pa.schema([("policy_id", pa.string())]), "candidates", "log/candidates.parquet")
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: log/candidates.parquet: the column 'query_id' is missing; a table of
        candidates has policy_id, query_id, doc_id, score, but found: policy_id
    """
    for column, kind in COLUMNS[table].items():
        if column not in schema.names:
            raise missing_column(where, column, COLUMNS[table], schema.names, table)
        if schema.names.count(column) > 1:
            raise DataError(f"{where}: there are several columns called {column!r}: keep one of them")
        given = schema.field(column).type
        if not _fits(given, kind):
            hint = "" if table == FEATURES else " (`rankloop import columns` reads values of other types)"
            raise DataError(f"{where}: the column {column!r} holds {given}; expected {kind}{hint}")


def missing_column(
    where: str, column: str, needed: Iterable[str], there: Iterable[str], table: str
) -> DataError:
    """The error for a missing column, with a suggestion if another column has a similar name."""
    present, wanted = list(there), list(needed)
    others = [name for name in present if name not in wanted]
    close = difflib.get_close_matches(column, others, n=1)
    hint = f" (is it {close[0]!r}?)" if close else ""
    return DataError(
        f"{where}: the column {column!r} is missing{hint}; a table of {table} has {', '.join(wanted)}, "
        f"but found: {', '.join(present) or 'none'}"
    )


def feature_columns(schema: pa.Schema, where: str) -> list[str]:
    """The columns that hold features: one column of vectors, or one column of numbers or of text per feature.

    Text is a category, such as a brand. The table is keyed by ``query_id`` and ``doc_id``, or by ``doc_id``
    alone (`feature_ids`).
    """
    ids = feature_ids(schema, where)
    names = [name for name in schema.names if name not in ids]
    if not names:
        raise DataError(f"{where}: there are no columns of features, only {', '.join(schema.names)}")
    if len(names) == 1 and is_list(schema.field(names[0]).type):
        element = schema.field(names[0]).type.value_type
        if not _is_number(element):
            raise DataError(f"{where}: the vectors in {names[0]!r} hold {element}; expected numbers")
        return names
    for name in names:
        given = schema.field(name).type
        # A column without any value has no type.
        if not (_is_number(given) or is_text(given) or pa.types.is_boolean(given) or pa.types.is_null(given)):
            raise DataError(
                f"{where}: the feature {name!r} holds {given}; expected numbers, or categories as text"
            )
    return names


def feature_ids(schema: pa.Schema, where: str) -> tuple[str, ...]:
    """The ids that a table of features is keyed by: query and document, or the document alone.

    A table without ``query_id`` describes documents, unless one of its columns looks like a misspelt one.

    Example:
        >>> feature_ids(pa.schema([("doc_id", pa.string()), ("price", pa.float64())]), "docs.parquet")
        ('doc_id',)
    """
    query, document = QUERY_DOCUMENT
    likely = [name for name in schema.names if name in OTHER_QUERY_IDS]
    misspelt = likely or difflib.get_close_matches(query, schema.names, n=1, cutoff=ALIKE)
    if query in schema.names or misspelt or document not in schema.names:
        check_columns(schema, FEATURES, where)
        return QUERY_DOCUMENT
    given = schema.field(document).type
    if not is_id(given):
        raise DataError(f"{where}: the column {document!r} holds {given}; expected {ID}")
    return (document,)


def is_id(given: Any) -> bool:
    """Whether ids can have this type, or be codes of values of this type."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    kinds = pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(is_kind(given) for is_kind in kinds)


def _fits(given: Any, kind: str) -> bool:
    if pa.types.is_dictionary(given):
        given = given.value_type
    whole = pa.types.is_integer(given)
    if kind == ID:
        return is_id(given)
    if kind == TIME:
        # In a log without times the column has no values.
        return bool(pa.types.is_timestamp(given) or pa.types.is_null(given))
    if kind == RANK:
        return bool(whole)
    if kind == SCORE:
        return bool(whole or pa.types.is_floating(given))
    return bool(pa.types.is_boolean(given))


def is_text(given: Any) -> bool:
    """Whether a type is that of text, or of codes of text."""
    return is_id(given) and not pa.types.is_integer(
        given.value_type if pa.types.is_dictionary(given) else given
    )


def is_list(given: Any) -> bool:
    """Whether a type is that of vectors."""
    kinds = pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list
    return any(is_kind(given) for is_kind in kinds)


def _is_number(given: Any) -> bool:
    return bool(pa.types.is_integer(given) or pa.types.is_floating(given))


# What pyarrow raises for damaged files; the names of columns are decoded when they are asked for.
PARQUET_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


def checked_batches(path: Path, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of a file in batches.

    Most damage to a Parquet file is read as other values, which nothing but a checksum can tell. What can be
    told is refused here: missing rows, text that is not UTF-8, and offsets outside of their column, which
    crash functions that use them.

    Args:
        path: the file.
        rows: number of rows per batch, at most.
        columns: names of the columns to read; None for all.

    Raises:
        PARQUET_ERRORS: the file is damaged.
    """
    found = 0
    with pq.ParquetFile(path.absolute()) as file:
        expected = file.metadata.num_rows
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            batch.validate(full=True)
            found += len(batch)
            yield batch
    if found != expected:
        raise pa.ArrowInvalid(f"{found:,} of {expected:,} rows could be read")


def parquet_footer(path: Path) -> tuple[pa.Schema, dict[bytes, bytes], int]:
    """The columns, the metadata and the number of rows of a file.

    Raises:
        PARQUET_ERRORS: the file is damaged.
    """
    footer = pq.read_metadata(path.absolute())
    schema = footer.schema.to_arrow_schema()
    # Names that cannot be decoded are an error here, not where they are first used.
    list(schema.names)
    return schema, footer.metadata or {}, footer.num_rows


def document_keys(queries: pa.Array, documents: pa.Array) -> pa.Array:
    """One string per pair; the length in front tells where the query's id ends."""
    lengths = pc.binary_length(queries).cast(pa.string())
    return pc.binary_join_element_wise(lengths, queries, documents, ":")
