"""What importers read, before it is looked at: tables in files, with the place of every row.

    impressions  place  impression_id  timestamp  query_id  policy_id  position  doc_id  clicked
    clicks       place  impression_id  doc_id  timestamp  position
    scores       place  policy_id  query_id  doc_id  score
    features     query_id  doc_id

Logs whose rows say themselves whether they were clicked have no clicks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.logs.schema import FEATURES, IMPRESSIONS, ITEM

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
        ]
    ),
    CLICKS: pa.schema(
        [
            ("place", pa.int64()),
            ("impression_id", _TEXT),
            ("doc_id", _TEXT),
            ("timestamp", TIME),
            ("position", pa.int64()),
        ]
    ),
    SCORES: pa.schema(
        [
            ("place", pa.int64()),
            ("policy_id", _TEXT),
            *((name, _TEXT) for name in ITEM),
            ("score", pa.float64()),
        ]
    ),
    FEATURES: pa.schema([(name, _TEXT) for name in ITEM]),
}
# Rows that are held in Python before they go to a file.
ROWS_HELD = 100_000


class Staging:
    """Tables while they are being filled; they can be read when the block has ended.

    Attributes:
        rows: by table, how many rows there are.
    """

    def __init__(self, folder: Path, tables: Sequence[str] = (IMPRESSIONS, CLICKS, SCORES)) -> None:
        self.folder = folder
        self.rows = dict.fromkeys(tables, 0)
        self._held: dict[str, list[tuple[Any, ...]]] = {table: [] for table in tables}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        for table in self.rows:
            self._writers[table] = pq.ParquetWriter(self.path(table), SCHEMAS[table], compression="zstd")
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
        """The file of a table."""
        return self.folder / f"{table}.parquet"

    def add(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows; times are microseconds since 1970."""
        self._held[table].extend(rows)
        if len(self._held[table]) >= ROWS_HELD:
            self._flush(table)

    def add_batch(self, table: str, batch: pa.Table) -> None:
        """Add rows that are in columns already."""
        self._flush(table)
        self._writers[table].write_table(batch.select(SCHEMAS[table].names).cast(SCHEMAS[table]))
        self.rows[table] += len(batch)

    def _flush(self, table: str) -> None:
        held = self._held[table]
        if held:
            schema = SCHEMAS[table]
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*held, strict=True), schema, strict=True)
            ]
            self._writers[table].write_table(pa.table(columns, schema=schema))
            self.rows[table] += len(held)
            held.clear()
