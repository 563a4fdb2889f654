"""Writes a log batch by batch: the folder appears when it is complete, and not at all if anything fails."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError, one_line
from rankloop.logs.folder import (
    CHECKSUMS_FILE,
    RANDOMISED_KEY,
    STARTS_KEY,
    VERSION_KEY,
    check_file,
    open_folder,
    write_checksums,
)
from rankloop.logs.schema import (
    FEATURES,
    IMPRESSIONS,
    MAPPING_FILE,
    REPORT_FILE,
    TABLES,
    VERSION,
    arrow_schema,
)
from rankloop.storage.files import replace_folder

# An additional column of impressions: what a display was worth, where actions have weights.
AMOUNT = "amount"
# Rows per row group: what one thread of a reader reads at a time.
ROWS_PER_GROUP = 1_000_000


class LogWriter:
    """Writes the tables of a log to a temporary folder, which is moved into place when the block succeeds.

    Attributes:
        folder: the folder of the log.
        scratch: the temporary folder.
        starts: whether every impression has exactly one row at position 1; set before the block ends.
        randomised: the policies that show documents in random order; set before the block ends.

    Example:
        >>> import tempfile
        >>> row = {"impression_id": ["1"], "timestamp": [None], "query_id": ["q"], "policy_id": ["a"]}
        >>> row |= {"position": [1], "doc_id": ["x"], "clicked": [True]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with LogWriter(Path(folder) / "log") as writer:
        ...         writer.write("impressions", row)
        ...     sorted(child.name for child in (Path(folder) / "log").iterdir())
        ['checksums.json', 'impressions.parquet']
    """

    def __init__(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Prepare to write; ``folder`` does not change before the block ends.

        Args:
            folder: the folder of the log; its parents are created.
            overwrite: whether an existing log may be replaced.
        """
        self.folder = Path(folder)
        self._overwrite = overwrite
        self._check()
        self.starts = False
        self.randomised: tuple[str, ...] = ()
        self._rows = dict.fromkeys(TABLES, 0)
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.scratch = self._stack.enter_context(
            replace_folder(self.folder, check=self._check, read_back=self._read_back)
        )
        self._stack.callback(self._add_checksums)
        self._stack.callback(self._close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = kind is not None
        self._stack.__exit__(kind, error, trace)

    def _add_checksums(self) -> None:
        if not self._failed:
            write_checksums(self.scratch)

    def _read_back(self, folder: Path) -> None:
        """Open the log as every reader does, and count its rows; the checksums were just computed."""
        open_folder(folder, verify=False)
        for table in self._writers:
            _, found = check_file(folder / f"{table}.parquet", table)
            if found != self._rows[table]:
                raise DataError(f"{table}.parquet has {found:,} of {self._rows[table]:,} rows")

    def _check(self) -> None:
        if self.folder.exists():
            _check_replaceable(self.folder, self._overwrite)

    def _close(self) -> None:
        for table, writer in self._writers.items():
            metadata = {VERSION_KEY: VERSION}
            if table == IMPRESSIONS and self.starts:
                metadata[STARTS_KEY] = str(self._rows[IMPRESSIONS])
            if table == IMPRESSIONS and self.randomised:
                metadata[RANDOMISED_KEY] = json.dumps(self.randomised)
            writer.add_key_value_metadata(metadata)
            writer.close()

    def write(self, table: str, columns: Any) -> None:
        """Append rows.

        Args:
            table: ``impressions``, ``candidates`` or ``features``.
            columns: a mapping from column to values, or a record batch or table of Arrow. The features' own
                columns are as in the first batch.
        """
        batch = columns if isinstance(columns, pa.Table | pa.RecordBatch) else pa.table(dict(columns))
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        if table not in self._writers:
            self._writers[table] = self._writer(table, batch.schema)
        try:
            batch = batch.select(self._writers[table].schema.names).cast(self._writers[table].schema)
        except (pa.ArrowException, KeyError) as error:
            raise DataError(f"rows that do not fit into the table of {table}: {one_line(error)}") from error
        self._writers[table].write_table(batch, row_group_size=ROWS_PER_GROUP)
        self._rows[table] += len(batch)

    def _writer(self, table: str, given: pa.Schema) -> pq.ParquetWriter:
        schema = arrow_schema(table)
        for name in given.names:
            if name not in schema.names and (table == FEATURES or (table, name) == (IMPRESSIONS, AMOUNT)):
                schema = schema.append(given.field(name))
        # Without Arrow's own schema, so that readers see ids as text and not as codes.
        return pq.ParquetWriter(
            self.scratch / f"{table}.parquet", schema, compression="zstd", store_schema=False
        )


def _check_replaceable(folder: Path, overwrite: bool) -> None:
    if not overwrite:
        raise DataError(
            f"{folder} exists: choose another folder, or replace it with --overwrite (overwrite=True)"
        )
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / f"{IMPRESSIONS}.parquet").exists()):
        raise DataError(f"{folder} is not a log, and is not overwritten: choose another folder")
    # Other files are not ours to delete.
    ours = {*(f"{table}.parquet" for table in TABLES), REPORT_FILE, MAPPING_FILE, CHECKSUMS_FILE}
    others = sorted(child.name for child in folder.iterdir() if child.name not in ours)
    if others:
        raise DataError(
            f"{folder} contains other files than a log ({', '.join(others[:5])}), and is not overwritten: "
            f"move them away, or choose another folder"
        )
