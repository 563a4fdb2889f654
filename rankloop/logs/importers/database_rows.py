"""Read the rows of the table of a database file: SQLite or DuckDB."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from rankloop.errors import DataError, one_line
from rankloop.logs.importers.formats import SQLITE_MAGIC, file_of

# Tables that look like those of what was shown, and of clicks.
SHOWN = re.compile(r"impression|shown|display|result|search|serp", re.IGNORECASE)
CLICKS = re.compile(r"click", re.IGNORECASE)
# Number of rows to fetch at a time.
ROWS = 10_000
_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
_DUCKDB_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"


def read_database(path: Path, add_note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table of a database.

    Args:
        path: the file; if it has several tables, with a colon and the name of one, ``shop.db:impressions``.
        add_note: takes a sentence on how the file was understood.
    """
    named = path.name.rpartition(":")[2] if file_of(path) != path else None
    path = file_of(path)
    with path.open("rb") as file:
        is_sqlite = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    try:
        with closing(_connect(path, is_sqlite)) as connection:
            names = connection.execute(_SQLITE_TABLES if is_sqlite else _DUCKDB_TABLES).fetchall()
            table = _table(path, sorted(name for (name,) in names), named)
            add_note(f"The rows are those of the table {table!r} in {path}.")
            quoted = table.replace('"', '""')
            found = connection.execute(f'SELECT * FROM "{quoted}"')
            columns = [column[0] for column in found.description]
            while rows := found.fetchmany(ROWS):
                for row in rows:
                    yield dict(zip(columns, row, strict=True))
    except (sqlite3.Error, duckdb.Error) as error:
        raise DataError(
            f"{path}: this database cannot be read ({one_line(error)}): is another program writing to it, or "
            f"is a part of it missing? Export the table as Parquet or CSV"
        ) from error


def _connect(path: Path, is_sqlite: bool) -> Any:
    if is_sqlite:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    return duckdb.connect(str(path), read_only=True)


def _table(path: Path, names: list[str], named: str | None) -> str:
    if named in names or (named is None and len(names) == 1):
        return named or names[0]
    listed = ", ".join(names) or "none"
    if named is not None:
        raise DataError(f"{path}: there is no table {named!r}; its tables are {listed}")
    example = next((name for name in names if SHOWN.search(name)), names[0] if names else "TABLE")
    clicks = next((f" --clicks {path}:{name}" for name in names if CLICKS.search(name)), "")
    raise DataError(
        f"{path}: its tables are {listed}: name the one that has what was shown, as in `rankloop import "
        f"columns {path}:{example}{clicks}`. If the log is in several tables, make a view that joins them"
    )
