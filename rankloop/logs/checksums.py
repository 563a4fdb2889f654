"""Checksums of the files of a log: damage on disk, or in a copy, is noticed before anything is computed.

Parquet readers notice little damage: most flipped bits are read as other values. The checksums are stored in
the folder of the log, and compared whenever it is opened. Hashing takes about as long as reading the files, a
second or two for a gigabyte, and a small part of the time that counting them takes.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rankloop.errors import DataError
from rankloop.logs.schema import TABLES
from rankloop.ragged import threads

CHECKSUMS_FILE = "checksums.json"
VERSION = "1"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all tables in a folder."""
    files = sorted(
        file
        for table in TABLES
        for file in ((folder / f"{table}.parquet"), *(folder / f"{table}.parquet").glob("*"))
        if file.is_file()
    )
    content = {file.relative_to(folder).as_posix(): _checksum(file) for file in files}
    text = json.dumps({"version": VERSION, "files": content}, indent=2, sort_keys=True)
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
        if content["version"] != VERSION or not all(
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
