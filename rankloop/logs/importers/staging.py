"""Temporary tables of an import before cleaning, with the place of every row in its source.

    impressions  place  impression_id  timestamp  query_id  policy_id  position  doc_id  clicked  amount
    clicks       place  impression_id  doc_id  timestamp  position  action  value  click
    scores       place  policy_id  query_id  doc_id  score
    features     query_id  doc_id

The table of clicks is empty if the source has its clicks in the rows of impressions. It also has the actions
that count as amounts; ``click`` tells them apart. ``amount`` is empty in sources that have no amounts in
their rows of impressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.logs.schema import FEATURES, IMPRESSIONS, QUERY_DOCUMENT

CLICKS, SCORES = "clicks", "scores"
TIME = pa.timestamp("us", tz="UTC")
_TEXT = pa.string()

SCHEMAS = {
    IMPRESSIONS: pa.schema(
        [
            ("place", pa.int64()),
            ("impression_id", _TEXT),
            ("timestamp", TIME),
            ("query_id", _TEXT),
            ("policy_id", _TEXT),
            ("position", pa.int64()),
            ("doc_id", _TEXT),
            ("clicked", pa.bool_()),
            ("amount", pa.float64()),
        ]
    ),
    CLICKS: pa.schema(
        [
            ("place", pa.int64()),
            ("impression_id", _TEXT),
            ("doc_id", _TEXT),
            ("timestamp", TIME),
            ("position", pa.int64()),
            ("action", _TEXT),
            ("value", pa.float64()),
            ("click", pa.bool_()),
        ]
    ),
    SCORES: pa.schema(
        [
            ("place", pa.int64()),
            ("policy_id", _TEXT),
            *((name, _TEXT) for name in QUERY_DOCUMENT),
            ("score", pa.float64()),
        ]
    ),
    FEATURES: pa.schema([(name, _TEXT) for name in QUERY_DOCUMENT]),
}
# Number of rows to buffer in Python before they are written to a file.
BUFFER_ROWS = 100_000


class Staging:
    """A context in which the staged tables are written; they can be read after it ends.

    Attributes:
        rows: number of rows per table.
    """

    def __init__(
        self,
        folder: Path,
        tables: Sequence[str] = (IMPRESSIONS, CLICKS, SCORES),
        schemas: Mapping[str, pa.Schema] = SCHEMAS,
    ) -> None:
        self.folder, self.schemas = folder, schemas
        self.rows = dict.fromkeys(tables, 0)
        self._buffers: dict[str, list[tuple[Any, ...]]] = {table: [] for table in tables}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        for table in self.rows:
            self._writers[table] = pq.ParquetWriter(self.path(table), self.schemas[table], compression="zstd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for table in self.rows:
                self._flush(table)
        for writer in self._writers.values():
            writer.close()

    def path(self, table: str) -> Path:
        """Return the file of a table."""
        return self.folder / f"{table}.parquet"

    def add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows; times are in microseconds since 1970."""
        self._buffers[table].extend(rows)
        if len(self._buffers[table]) >= BUFFER_ROWS:
            self._flush(table)

    def add_batch(self, table: str, batch: pa.Table) -> None:
        """Add a batch of columns."""
        self._flush(table)
        self._writers[table].write_table(batch.select(self.schemas[table].names).cast(self.schemas[table]))
        self.rows[table] += len(batch)

    def _flush(self, table: str) -> None:
        buffer = self._buffers[table]
        if buffer:
            schema = self.schemas[table]
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*buffer, strict=True), schema, strict=True)
            ]
            self._writers[table].write_table(pa.table(columns, schema=schema))
            self.rows[table] += len(buffer)
            buffer.clear()
