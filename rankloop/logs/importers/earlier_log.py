"""The log that an import is added to.

Its rows are cleaned again together with the new ones, so that repeated rows are found and late clicks reach
the impressions that they belong to. Where the two contradict each other, the log keeps what it has.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError
from rankloop.logs.engines import Engine
from rankloop.logs.folder import LogFolder, open_folder
from rankloop.logs.importers.files import parquet_batches
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import SCHEMAS, SCORES
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS, QUERY_DOCUMENT, REPORT_FILE
from rankloop.logs.writer import AMOUNT, LogWriter

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
