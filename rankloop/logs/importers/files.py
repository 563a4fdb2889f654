"""Read records from files with their place: JSON and CSV, plain or compressed, Parquet and databases.

A broken line is reported with file, line and reason, and left out. A truncated file is rejected, because an
unknown part of it is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from rankloop.errors import DataError, one_line
from rankloop.logs.importers.csv_rows import read_csv_rows
from rankloop.logs.importers.database_rows import read_database
from rankloop.logs.importers.formats import (
    COMPRESSED_ENDINGS,
    CSV,
    CSV_DELIMITERS,
    DATABASE,
    DATABASE_ENDINGS,
    JSON,
    JSON_ENDINGS,
    PARQUET,
    PARQUET_ENDING,
    check_importer,
    detect_format,
    ending_of,
    file_of,
)
from rankloop.logs.importers.json_records import JsonRecords, Numbered
from rankloop.logs.problems import ProblemCounter
from rankloop.logs.schema import PARQUET_ERRORS, checked_batches
from rankloop.text_file import open_text

# Number of rows of a Parquet file to convert to Python objects at a time.
ROWS_PER_BATCH = 10_000
# A place in the staged tables is one integer with the number of the file and the line.
LINE_BITS = 40
# The column of places in a table that is read as a whole; a source may have a column of any other name.
PLACE = "\1place"

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Record:
    """A record, its place, and whether its values are text, as in CSV."""

    place: int
    values: dict[str, Any]
    is_text: bool = False


class SourceFiles:
    """The source files of an import: their records, and the names of their places.

    Attributes:
        paths: the files, in the order in which they were added.
        unreadable: number of lines that are not even a record.
        notes: sentences on how files were understood.
        first: how many records of each file are read; None for all.
    """

    def __init__(self, found: ProblemCounter, first: int | None = None) -> None:
        self.first = first
        self.paths: list[Path] = []
        self.found = found
        self.unreadable = 0
        self.notes: list[str] = []
        self._units: list[str] = []

    def records(
        self,
        sources: Paths,
        what: str,
        command: str | None = None,
        reader: ColumnReader | None = None,
    ) -> Iterator[Record]:
        """Iterate over the records of files.

        Args:
            sources: one path or several.
            what: the expected content, for messages.
            command: the importer that reads them, to refuse files that are for another one.
            reader: takes most rows as whole columns; they are then not among the records.
        """
        reader = None if self.first is not None else reader
        for path in as_paths(sources):
            number = self.add_file(path)
            kind, delimiter = detect_format(file_of(path), what)
            first = command is not None
            for line, values in islice(self._rows(path, number, kind, delimiter, reader), self.first):
                place = place_of(number, line)
                if first and command is not None:
                    check_importer(command, values, self.place_name(place))
                    first = False
                yield Record(place, values, kind == CSV)

    def add_file(self, path: Path, unit: str = "line") -> int:
        """Register a file and return its number; ``unit`` is what its places count."""
        if not file_of(path).exists():
            raise DataError(f"{path} is not a file")
        self.paths.append(path)
        self._units.append(unit)
        return len(self.paths) - 1

    def place_name(self, place: int) -> str:
        """Format a place for messages."""
        number, line = place >> LINE_BITS, place & ((1 << LINE_BITS) - 1)
        return f"{self.paths[number]}, {self._units[number]} {line}"

    def add_broken(self, place: int, reason: object) -> None:
        """Count a broken line."""
        self.found.add("broken_lines", f"{self.place_name(place)}: {reason}")

    def _rows(
        self,
        path: Path,
        number: int,
        kind: str,
        delimiter: str,
        reader: ColumnReader | None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        def add_broken(line: int, reason: object, unit: str = "line") -> None:
            self._units[number] = unit
            self.unreadable += 1
            self.add_broken(place_of(number, line), reason)

        if kind == PARQUET:
            self._units[number] = "row"
            yield from _parquet(path)
        elif kind == DATABASE:
            self._units[number] = "row"
            yield from enumerate(read_database(path, self.notes.append), 1)
        elif kind == JSON:
            take_block = None if reader is None else _take_objects(number, reader)
            records = JsonRecords(numbered_lines(path), path, add_broken, take_block)
            for line, values in records:
                self._units[number] = records.unit
                yield line, values
        else:
            take = None if reader is None else _take_text(number, reader)
            yield from read_csv_rows(
                numbered_lines(path), path, delimiter, add_broken, self.notes.append, take
            )


class ColumnReader(Protocol):
    """Reads whole columns."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it reads."""

    def take_columns(self, table: pa.Table, rows: Sequence[dict[str, Any]] | None = None) -> None:
        """Take a table with the places of its rows in `PLACE`.

        Args:
            table: the columns.
            rows: the rows as they are in the file, if they may have more than these columns.
        """


def _take_text(number: int, reader: ColumnReader) -> Callable[[pa.Table, Sequence[int]], None]:
    """Take columns of text with the numbers of their lines."""

    def take(columns: pa.Table, lines: Sequence[int]) -> None:
        places = pa.array([place_of(number, line) for line in lines], pa.int64())
        reader.take_columns(columns.append_column(PLACE, places))

    return take


def _take_objects(number: int, reader: ColumnReader) -> Callable[[Numbered], bool]:
    """Take numbered objects as columns, if all of them have the same columns with values of one type each."""

    def take(records: Numbered) -> bool:
        rows = [values for _, values in records]
        places = [place_of(number, line) for line, _ in records]
        try:
            columns = {name: pa.array([values[name] for values in rows]) for name in reader.columns}
        except (KeyError, ValueError, TypeError, OverflowError, pa.ArrowException):
            return False
        if len(set(places)) < len(places):
            return False
        reader.take_columns(pa.table(columns | {PLACE: pa.array(places, pa.int64())}), rows)
        return True

    return take


def as_paths(sources: Paths) -> list[Path]:
    """Convert one path or several to a list of files; a folder becomes its supported files, by name."""
    single = isinstance(sources, str | os.PathLike)
    given = [Path(sources)] if single else [Path(source) for source in sources]  # type: ignore[arg-type, union-attr]
    if not given:
        raise DataError("there are no files to import")
    return [file for path in given for file in (_files_in(path) if path.is_dir() else [path])]


def _files_in(folder: Path) -> list[Path]:
    known = (*JSON_ENDINGS, *CSV_DELIMITERS, PARQUET_ENDING, *DATABASE_ENDINGS)
    files = sorted(path for path in folder.iterdir() if path.is_file() and _may_be_table(path, known))
    if not files:
        raise DataError(f"{folder} has no files whose names end in {', '.join(known)}")
    return files


def _may_be_table(path: Path, known: Sequence[str]) -> bool:
    """Whether a file of a folder is read: by its name, which for parts of a table may have no ending."""
    if path.name.startswith((".", "_")):
        return False
    packed = path.suffix.lower() in COMPRESSED_ENDINGS and not ending_of(path)
    return ending_of(path) in known or packed or (path.name.startswith("part-") and not path.suffix)


def place_of(file: int, line: int) -> int:
    """Encode a place as one integer."""
    return file << LINE_BITS | line


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over the lines of a plain or compressed file with their numbers, from 1."""
    number = 0
    with open_text(path, lambda: number) as lines:
        for number, line in enumerate(lines, 1):
            yield number, line


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    row = 0
    for batch in parquet_batches(path):
        for values in python_rows(batch, path, row + 1):
            row += 1
            yield row, values


def python_rows(batch: pa.RecordBatch, path: Path, first: int) -> list[dict[str, Any]]:
    """Convert a batch to Python rows; ``first`` is the number of its first row, for messages."""
    try:
        return _in_utc(batch).to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path}, rows {first} to {first + len(batch) - 1}: a value is out of range in Python "
            f"({one_line(error)}), such as a time after the year 9999: correct or remove it"
        ) from error


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same moments in a time zone that Python knows: a file may name any other."""
    for number, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            moments = batch.column(number).cast(pa.timestamp(field.type.unit, "UTC"))
            batch = batch.set_column(number, field.name, moments)
    return batch


def parquet_batches(
    path: Path, rows: int = ROWS_PER_BATCH, first: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of a Parquet file in batches; over the first ones only, if a number is given."""
    try:
        if first is None:
            yield from checked_batches(path, rows)
        else:
            yield from islice(checked_batches(path, first), 1)
    except PARQUET_ERRORS as error:
        raise DataError(
            f"{path}: this is not a Parquet file, or part of it is missing: write or copy it again "
            f"({one_line(error)})"
        ) from error
