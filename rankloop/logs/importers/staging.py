"""Temporary tables of an import before cleaning, with the place of every row in its source.

    impressions  place  impression_id  timestamp  query_id  policy_id  position  doc_id  clicked  amount
    clicks       place  impression_id  doc_id  timestamp  position  action  value  click
    scores       place  policy_id  query_id  doc_id  score
    features     query_id  doc_id

The table of clicks is empty if the source has its clicks in the rows of impressions. It also has the actions
that count as amounts; ``click`` tells them apart. ``amount`` is empty in sources that have no amounts in
their rows of impressions. A log that an import is added to is staged as well: its rows are cleaned again
together with the new ones, so that repeated rows are found and late clicks reach the impressions that they
belong to. Where the two contradict each other, the log keeps what it has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError
from rankloop.logs.engines import Engine
from rankloop.logs.folder import LogFolder, open_folder
from rankloop.logs.importers.files import parquet_batches
from rankloop.logs.importers.query_groups import QueryGroups
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS, QUERY_DOCUMENT, REPORT_FILE
from rankloop.logs.writer import AMOUNT, LogWriter

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
        queries: groups the queries of all tables, if they are to be grouped.
    """

    def __init__(
        self,
        folder: Path,
        tables: Sequence[str] = (IMPRESSIONS, CLICKS, SCORES),
        schemas: Mapping[str, pa.Schema] = SCHEMAS,
        queries: QueryGroups | None = None,
    ) -> None:
        self.folder, self.schemas, self.queries = folder, schemas, queries
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
        self._write(table, batch.select(self.schemas[table].names).cast(self.schemas[table]))

    def _flush(self, table: str) -> None:
        buffer = self._buffers[table]
        if buffer:
            schema = self.schemas[table]
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*buffer, strict=True), schema, strict=True)
            ]
            self._write(table, pa.table(columns, schema=schema))
            buffer.clear()

    def _write(self, table: str, rows: pa.Table) -> None:
        if self.queries is not None and "query_id" in rows.schema.names:
            rows = self.queries.apply(rows)
        self._writers[table].write_table(rows)
        self.rows[table] += len(rows)


# Number of rows to copy at a time.
ROWS_PER_BATCH = 500_000


@dataclass(frozen=True)
class EarlierLog:
    """A log on disk that is read again.

    Attributes:
        log: its folder.
        report: the report of the imports it consists of; None if it was not imported.
    """

    log: LogFolder
    report: ImportReport | None

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> EarlierLog | None:
        """Open a log; None if there is none yet."""
        if not Path(folder).exists():
            return None
        return cls(open_folder(folder), ImportReport.read_file(Path(folder) / REPORT_FILE))

    @property
    def source(self) -> Path:
        """The table of impressions, as messages name it."""
        return Path(self.log.source(IMPRESSIONS))

    @property
    def has_amounts(self) -> bool:
        """Whether the log has a column of amounts."""
        return AMOUNT in pq.read_schema(self.log.files(IMPRESSIONS)[0].absolute()).names

    def stage_impressions(self, folder: Path) -> Path:
        """Stage the rows of impressions; the log is file number 0."""
        return self._stage(IMPRESSIONS, SCHEMAS[IMPRESSIONS], folder)

    def stage_scores(self, folder: Path) -> Path | None:
        """Stage the scores of candidates; None if the log has none."""
        if not self.log.has(CANDIDATES):
            return None
        return self._stage(CANDIDATES, SCHEMAS[SCORES], folder)

    def _stage(self, table: str, schema: pa.Schema, folder: Path) -> Path:
        path, row = folder / f"earlier-{table}.parquet", 1
        with pq.ParquetWriter(path, schema, compression="zstd") as staged:
            for file in self.log.files(table):
                for batch in parquet_batches(file, ROWS_PER_BATCH):
                    rows = pa.Table.from_batches([batch])
                    rows = rows.append_column("place", pa.array(row + np.arange(len(batch))))
                    row += len(batch)
                    for name in schema.names:
                        if name not in rows.schema.names:
                            rows = rows.append_column(name, pa.nulls(len(batch), schema.field(name).type))
                    columns = [
                        # Codes of text cannot become other types of text directly.
                        rows[name].cast(pa.string()) if schema.field(name).type == pa.string() else rows[name]
                        for name in schema.names
                    ]
                    staged.write_table(pa.table(columns, names=schema.names).cast(schema))
        return path

    def copy_features(self, writer: LogWriter, engine: Engine, new: Path | None) -> int:
        """Copy the features of the log; return their number.

        Args:
            writer: the writer of the log.
            engine: the engine that reads them.
            new: a Parquet file with the ids of documents whose features have been written already, which are
                left out; None if there are none.
        """
        if not self.log.has(FEATURES):
            return 0
        files = self.log.files(FEATURES)
        if new is None:
            source = self.log.folder / f"{FEATURES}.parquet"
            copy = shutil.copytree if source.is_dir() else shutil.copyfile
            copy(source, writer.scratch / source.name)
            return sum(pq.read_metadata(file.absolute()).num_rows for file in files)
        table = engine.table(files)
        keys = [name for name in QUERY_DOCUMENT if name in table.columns]
        written = 0
        given = engine.table([new]).select(*keys).distinct()
        try:
            for batch in engine.batches(table.anti_join(given, keys)):
                writer.write(FEATURES, batch)
                written += len(batch)
        except DataError as error:
            raise DataError(
                f"{self.log.source(FEATURES)}: the features of the log and the new ones are not the same: "
                f"{error}. Give the same features with every import, or import everything at once"
            ) from error
        return written
