"""A log is a folder: ``impressions.parquet``, and perhaps ``candidates.parquet`` and ``features.parquet``."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError, one_line
from rankloop.logs.schema import FEATURES, IMPRESSIONS, TABLES, VERSION, check_columns, feature_columns

# Keys of a file's own metadata, which this program writes after it has looked. The second says of how many
# rows it holds: other programs hand metadata on to what they have made of a file.
VERSION_KEY, STARTS_KEY = b"rankloop.version", b"rankloop.starts"


@dataclass(frozen=True)
class Log:
    """A log on disk that has been looked at: the tables that are there have the columns they need.

    A table is one Parquet file, or a folder of that name with any number of them.

    Attributes:
        folder: where it is.
        tables: the names of the tables that are there.
        starts: whether every impression is known to have exactly one row at position 1; counting is faster
            then.
    """

    folder: Path
    tables: tuple[str, ...]
    starts: bool = False

    def source(self, table: str) -> str:
        """A table as messages call it."""
        return str(self.folder / f"{table}.parquet")

    def files(self, table: str) -> list[Path]:
        """The files of a table, at least one."""
        path = self.folder / f"{table}.parquet"
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path} is a folder without Parquet files")
        return files

    def has(self, table: str) -> bool:
        """Whether the table is there."""
        return table in self.tables


def open_log(folder: str | os.PathLike[str]) -> Log:
    """The log in this folder.

    Raises:
        DataError: there is none, a file is damaged, or a column is missing or of the wrong type.
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{place} is no folder: a log is a folder with {IMPRESSIONS}.parquet in it")
    tables = tuple(table for table in TABLES if (place / f"{table}.parquet").exists())
    if IMPRESSIONS not in tables:
        found = sorted(child.name for child in place.iterdir())[:10]
        raise DataError(
            f"{place} is no log: there is no {IMPRESSIONS}.parquet in it, only {found or 'nothing'}; "
            f"`rankloop import` makes a log of other formats"
        )
    starts, log = True, Log(place, tables)
    for table in tables:
        for file in log.files(table):
            schema, metadata, rows = _read_schema(file)
            if table == FEATURES:
                feature_columns(schema, str(file))
            else:
                check_columns(schema, table, str(file))
            starts &= table != IMPRESSIONS or metadata.get(STARTS_KEY) == str(rows).encode()
    return replace(log, starts=starts)


def _read_schema(file: Path) -> tuple[Any, dict[bytes, bytes], int]:
    try:
        footer = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{file}: this is not a Parquet file, or the end of it is missing: write or copy it again "
            f"({one_line(error)})"
        ) from error
    metadata = footer.metadata or {}
    version = metadata.get(VERSION_KEY, VERSION.encode())
    if version != VERSION.encode():
        raise DataError(
            f"{file}: the log has version {version.decode()!r}, but this program reads {VERSION!r}: "
            f"update rankloop, or import the log again"
        )
    return footer.schema.to_arrow_schema(), metadata, footer.num_rows
