"""The files of a log: ``impressions.parquet``, optionally ``candidates.parquet`` and ``features.parquet``."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import DataError, one_line
from rankloop.logs.checksums import verify_checksums
from rankloop.logs.parquet_file import PARQUET_ERRORS, parquet_footer
from rankloop.logs.schema import FEATURES, IMPRESSIONS, TABLES, VERSION, check_columns, feature_columns

# Keys of a file's own metadata, written after the rows have been checked. The second one records the number
# of rows it is true for: other programs copy metadata into files that they derive from this one.
VERSION_KEY, STARTS_KEY = b"rankloop.version", b"rankloop.starts"
# Also with the number of rows: positions without a row were taken before anything was drawn.
PINNED_KEY = b"rankloop.pinned"
# A JSON list of the policies that were declared to show documents in random order.
RANDOMISED_KEY = b"rankloop.randomised"


@dataclass(frozen=True, eq=False)
class LogFolder:
    """The folder of a log, whose tables have been checked to have the columns they need.

    A table is one Parquet file, or a folder of that name with any number of Parquet files in it.

    Attributes:
        folder: the path of the folder.
        tables: the names of the tables in it.
        starts: whether every impression is known to have exactly one row at position 1, which makes counting
            faster.
        randomised: the policies that were declared, when the log was imported, to show documents in random
            order.
        pinned: whether positions without a row are known to have been taken, by documents that were pinned
            there, before the policies drew the others.
    """

    folder: Path
    tables: tuple[str, ...]
    starts: bool = False
    randomised: tuple[str, ...] = ()
    pinned: bool = False

    def source(self, table: str) -> str:
        """The path of a table, for messages."""
        return str(self.folder / f"{table}.parquet")

    def files(self, table: str) -> list[Path]:
        """The files of a table, at least one."""
        path = self.folder / f"{table}.parquet"
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path} is a folder without Parquet files: copy or import the log again")
        return files

    def has(self, table: str) -> bool:
        """Whether the log has a table."""
        return table in self.tables


def open_folder(folder: str | os.PathLike[str], *, verify: bool = True) -> LogFolder:
    """Open the folder of a log and check its files.

    Args:
        folder: the folder.
        verify: whether to compare the files with their checksums, which reads all of them.

    Raises:
        DataError: the folder is not a log, a file is damaged or has changed, or a column is missing or of
            the wrong type.
    """
    place = Path(folder)
    if not place.is_dir():
        raise DataError(f"{place} is not a folder: a log is a folder that contains {IMPRESSIONS}.parquet")
    tables = tuple(table for table in TABLES if (place / f"{table}.parquet").exists())
    if IMPRESSIONS not in tables:
        found = sorted(child.name for child in place.iterdir())[:10]
        raise DataError(
            f"{place} is not a log: it does not contain {IMPRESSIONS}.parquet, only {found or 'nothing'}; "
            f"`rankloop import` converts other formats into a log"
        )
    if verify:
        verify_checksums(place)
    starts, pinned, log = True, True, LogFolder(place, tables)
    randomised: dict[str, None] = {}
    for table in tables:
        for file in log.files(table):
            metadata, rows = check_file(file, table)
            if table == IMPRESSIONS:
                starts &= metadata.get(STARTS_KEY) == str(rows).encode()
                pinned &= metadata.get(PINNED_KEY) == str(rows).encode()
                randomised |= dict.fromkeys(_randomised(metadata))
    return LogFolder(place, tables, starts, tuple(randomised), pinned)


def check_file(file: Path, table: str) -> tuple[dict[bytes, bytes], int]:
    """The metadata and the number of rows of one file of a table.

    Raises:
        DataError: the file is damaged, of another version, or a column is missing or of the wrong type.
    """
    try:
        schema, metadata, rows = parquet_footer(file)
    except PARQUET_ERRORS as error:
        raise DataError(
            f"{file}: this is not a Parquet file, or its end is missing: write or copy it again "
            f"({one_line(error)})"
        ) from error
    version = metadata.get(VERSION_KEY, VERSION.encode())
    if version != VERSION.encode():
        raise DataError(
            f"{file}: the log has version {version.decode(errors='replace')!r}, but this program reads "
            f"version {VERSION!r}: update rankloop, or import the log again"
        )
    check_columns(schema, table, str(file))
    if table == FEATURES:
        feature_columns(schema, str(file))
    return metadata, rows


def _randomised(metadata: dict[bytes, bytes]) -> list[str]:
    try:
        return [str(policy) for policy in json.loads(metadata.get(RANDOMISED_KEY, b"[]"))]
    except (ValueError, TypeError):
        # A key of the same name that another program wrote.
        return []
