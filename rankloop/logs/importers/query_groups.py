"""Queries that differ by case, white space or forms of Unicode alone become one query."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

COLUMN = "query_id"
_SCHEMA = pa.schema([("text", pa.string()), ("query", pa.string())])


def grouped(text: str) -> str:
    r"""The text that stands for all that differ from it by case, white space or forms of Unicode alone.

    Text of nothing but white space stays as it is.

    >>> grouped(" Blue\u00a0\tSHOES "), grouped("Straße"), grouped("ﬁlm Ａ４"), grouped(" ")
    ('blue shoes', 'strasse', 'film a4', ' ')
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # A text that ends with NUL is no id.
    return " ".join(plain.replace("\0", " ").split()) or text


class QueryGroups:
    """A context in which the queries of staged tables are grouped; how many there were is known after it.

    Args:
        path: a Parquet file for the texts, which may be more than fit into memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._writer = pq.ParquetWriter(self._path, _SCHEMA, compression="zstd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def apply(self, rows: pa.Table) -> pa.Table:
        """The same rows with one query for each group."""
        codes = rows[COLUMN].cast(pa.string()).combine_chunks().dictionary_encode()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.combine_chunks()
        queries = pa.array(map(grouped, codes.dictionary.to_pylist()), pa.string())
        self._writer.write_table(pa.table([codes.dictionary, queries], schema=_SCHEMA))
        return rows.set_column(rows.schema.get_field_index(COLUMN), COLUMN, queries.take(codes.indices))

    def note(self) -> str:
        """A sentence that says how many texts became how many queries."""
        with duckdb.connect() as connection:
            counted = "SELECT count(DISTINCT text), count(DISTINCT query) FROM read_parquet(?)"
            (found,) = connection.execute(counted, [str(self._path)]).fetchall()
        texts, queries = found
        return (
            f"Queries that differ by case, white space or forms of Unicode alone are one. Different queries: "
            f"{texts:,} before, {queries:,} after."
        )
