"""The files of a log: ``impressions.parquet``, optionally ``candidates.parquet`` and ``features.parquet``."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankloop.errors import DataError, one_line
from rankloop.logs.schema import (
    FEATURES,
    IMPRESSIONS,
    PARQUET_ERRORS,
    TABLES,
    VERSION,
    check_columns,
    feature_columns,
    parquet_footer,
)
from rankloop.ragged import threads

CHECKSUMS_FILE = "checksums.json"
CHECKSUMS_VERSION = "1"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all tables in a folder."""
    files = sorted(
        file
        for table in TABLES
        for file in ((folder / f"{table}.parquet"), *(folder / f"{table}.parquet").glob("*"))
        if file.is_file()
    )
    content = {file.relative_to(folder).as_posix(): _checksum(file) for file in files}
    text = json.dumps({"version": CHECKSUMS_VERSION, "files": content}, indent=2, sort_keys=True)
    (folder / CHECKSUMS_FILE).write_text(text + "\n", encoding="utf-8")


def verify_checksums(folder: Path) -> None:
    """Compare the files of a log with their checksums; a log that others wrote has none.

    Raises:
        DataError: a file is missing or has changed, or the checksums cannot be read.
    """
    path = folder / CHECKSUMS_FILE
    if not path.exists():
        return
    stored = _read(path)
    with ThreadPoolExecutor(threads(), thread_name_prefix="checksum") as pool:
        found = pool.map(lambda name: _checksum(folder / name), stored)
        for name, checksum in zip(stored, found, strict=True):
            if checksum != stored[name]:
                what = "is missing" if checksum is None else "is damaged, or was changed after it was written"
                raise DataError(
                    f"{folder / name} {what}: its checksum is not the one in {path.name}. Copy or import the "
                    f"log again; if the file was changed on purpose, remove {path}"
                )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
        files = content["files"]
        # Names lead to files of this folder only.
        if content["version"] != CHECKSUMS_VERSION or not all(
            isinstance(name, str) and name.split("/")[0] in {f"{table}.parquet" for table in TABLES}
            for name in files
        ):
            raise ValueError("it lists other files, or has another version")
        if any(".." in name.split("/") for name in files):
            raise ValueError("it lists files outside the folder")
        return dict(files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise DataError(f"{path} is damaged ({error}): copy or import the log again, or remove it") from error


def _checksum(file: Path) -> dict[str, Any] | None:
    try:
        with file.open("rb") as opened:
            return {
                "bytes": file.stat().st_size,
                "sha256": hashlib.file_digest(opened, "sha256").hexdigest(),
            }
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error


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


def open_folder(
    folder: str | os.PathLike[str], *, verify: bool = True, in_database: bool = False
) -> LogFolder:
    """Open the folder of a log and check its files.

    Args:
        folder: the folder.
        verify: whether to compare the files with their checksums, which reads all of them.
        in_database: whether the impressions are in the database that counts them, and not in the folder.

    Raises:
        DataError: the folder is not a log, a file is damaged or has changed, or a column is missing or of
            the wrong type.
    """
    place = Path(folder)
    if place.is_file():
        raise DataError(
            f"{place} is a file, and a log is a folder: import it first: "
            f"rankloop import {place} -o {place.name.partition('.')[0] or 'log'}"
        )
    if not place.is_dir():
        raise DataError(f"{place} is not a folder: a log is a folder that contains {IMPRESSIONS}.parquet")
    tables = tuple(table for table in TABLES if (place / f"{table}.parquet").exists())
    if in_database and IMPRESSIONS in tables:
        raise DataError(
            f"{place} has impressions of its own, which a database does not count: use engine duckdb"
        )
    if IMPRESSIONS not in tables and not in_database:
        found = sorted(child.name for child in place.iterdir())[:10]
        raise DataError(
            f"{place} is not a log: it does not contain {IMPRESSIONS}.parquet, only {found or 'nothing'}; "
            f"`rankloop import` converts other formats into a log"
        )
    if verify:
        verify_checksums(place)
    starts, pinned, log = not in_database, not in_database, LogFolder(place, tables)
    randomised: dict[str, None] = {}
    for table in tables:
        for file in log.files(table):
            metadata, rows = check_file(file, table)
            if table == IMPRESSIONS:
                starts &= metadata.get(STARTS_KEY) == str(rows).encode()
                pinned &= metadata.get(PINNED_KEY) == str(rows).encode()
                randomised |= dict.fromkeys(_randomised(metadata))
    tables = (IMPRESSIONS, *tables) if in_database else tables
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
