"""Read records from files with their place: JSON lines, CSV and Parquet, plain or gzipped.

A broken line is reported with file, line and reason, and left out. A truncated file is rejected, because an
unknown part of it is missing.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError, one_line
from rankloop.logs.problems import ProblemCounter
from rankloop.text_file import open_text

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET_ENDING = ".parquet"
# Number of rows of a Parquet file to convert to Python objects at a time.
ROWS_PER_BATCH = 10_000
# A place in the staged tables is one integer with the number of the file and the line.
LINE_BITS = 40

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Record:
    """A record and its place."""

    place: int
    values: dict[str, Any]


class SourceFiles:
    """The source files of an import: their records, and the names of their places."""

    def __init__(self, found: ProblemCounter) -> None:
        self.paths: list[Path] = []
        self.found = found

    def records(self, sources: Paths, what: str) -> Iterator[Record]:
        """Iterate over the records of files.

        Args:
            sources: one path or several.
            what: the expected content, for messages.
        """
        for path in as_paths(sources):
            number = self.add_file(path)
            ending = ending_of(path)
            if ending == PARQUET_ENDING:
                rows: Iterable[tuple[int, dict[str, Any]]] = _parquet(path)
            elif ending in JSON_ENDINGS:
                rows = self._json(path, number)
            elif ending in CSV_DELIMITERS:
                rows = self._csv(path, number, CSV_DELIMITERS[ending])
            else:
                text = ", ".join([*JSON_ENDINGS, *CSV_DELIMITERS])
                raise DataError(
                    f"{path}: expected {what} in a file whose name ends in {text} (optionally followed by "
                    f".gz) or {PARQUET_ENDING}"
                )
            for line, values in rows:
                yield Record(place_of(number, line), values)

    def add_file(self, path: Path) -> int:
        """Register a file and return its number."""
        if not path.is_file():
            raise DataError(f"{path} is not a file")
        self.paths.append(path)
        return len(self.paths) - 1

    def place_name(self, place: int) -> str:
        """Format a place for messages."""
        path, line = self.paths[place >> LINE_BITS], place & ((1 << LINE_BITS) - 1)
        return f"{path}, {'row' if ending_of(path) == PARQUET_ENDING else 'line'} {line}"

    def add_broken(self, place: int, reason: object) -> None:
        """Count a broken line."""
        self.found.add("broken_lines", f"{self.place_name(place)}: {reason}")

    def _json(self, path: Path, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in numbered_lines(path):
            if not text.strip():
                continue
            if line == 1 and text.lstrip().startswith(b"["):
                raise DataError(
                    f"{path}, line 1: this is one JSON array; expected JSON lines, one object per line "
                    f"(jq -c '.[]' converts it)"
                )
            try:
                values = json.loads(text.rstrip())
            except json.JSONDecodeError as error:
                self.add_broken(
                    place_of(number, line), f"not JSON ({error.msg}, at character {error.pos + 1})"
                )
                continue
            except (ValueError, RecursionError) as error:
                self.add_broken(place_of(number, line), f"not JSON ({error})")
                continue
            if isinstance(values, dict):
                yield line, values
            else:
                self.add_broken(place_of(number, line), f"not a JSON object but {type(values).__name__}")

    def _csv(self, path: Path, number: int, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
        undecoded: set[int] = set()
        reader = csv.reader(_decoded_lines(path, undecoded), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        while True:
            first_line = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end" in str(error):
                    raise DataError(
                        f"{path}, line {first_line}: a quote is opened and never closed; the file is "
                        f"truncated, or the quote must be doubled"
                    ) from error
                self.add_broken(place_of(number, first_line), error)
                continue
            if header is None:
                header = [name.strip() for name in fields]
                if len(set(header)) < len(header):
                    raise DataError(f"{path}, line 1: two columns have the same name: {', '.join(header)}")
            elif not undecoded.isdisjoint(range(first_line, reader.line_num + 1)):
                self.add_broken(place_of(number, first_line), "not UTF-8")
            elif len(fields) == len(header):
                yield first_line, dict(zip(header, fields, strict=True))
            elif fields:
                reason = f"{len(fields)} fields where the first line has {len(header)}"
                self.add_broken(place_of(number, first_line), reason)


def as_paths(sources: Paths) -> list[Path]:
    """Convert one path or several to a list of files; a folder becomes its supported files, by name."""
    single = isinstance(sources, str | os.PathLike)
    given = [Path(sources)] if single else [Path(source) for source in sources]  # type: ignore[arg-type, union-attr]
    if not given:
        raise DataError("there are no files to import")
    return [file for path in given for file in (_files_in(path) if path.is_dir() else [path])]


def _files_in(folder: Path) -> list[Path]:
    known = (*JSON_ENDINGS, *CSV_DELIMITERS, PARQUET_ENDING)
    files = sorted(path for path in folder.iterdir() if path.is_file() and ending_of(path) in known)
    if not files:
        raise DataError(f"{folder} has no files whose names end in {', '.join(known)}")
    return files


def ending_of(path: Path) -> str:
    """Return the suffix of a file name, without ``.gz``."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def place_of(file: int, line: int) -> int:
    """Encode a place as one integer."""
    return file << LINE_BITS | line


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over the lines of a plain or gzipped file with their numbers, from 1."""
    number = 0
    with open_text(path, lambda: number) as lines:
        for number, line in enumerate(lines, 1):
            yield number, line


def _decoded_lines(path: Path, undecoded: set[int]) -> Iterator[str]:
    """Decode lines; lines that are not UTF-8 are added to `undecoded`, so that the others can be read."""
    for number, line in numbered_lines(path):
        try:
            # Some programs write a byte-order mark.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            undecoded.add(number)
            yield line.decode("utf-8", "replace")


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    row = 0
    for batch in parquet_batches(path):
        for values in python_rows(batch, path, row + 1):
            row += 1
            yield row, values


def python_rows(batch: pa.RecordBatch, path: Path, first: int) -> list[dict[str, Any]]:
    """Convert a batch to Python rows; ``first`` is the number of its first row, for messages."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path}, rows {first} to {first + len(batch) - 1}: a value is out of range in Python "
            f"({one_line(error)}), such as a time after the year 9999: correct or remove it"
        ) from error


def parquet_batches(path: Path, rows: int = ROWS_PER_BATCH) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of a Parquet file in batches."""
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: this is not a Parquet file, or part of it is missing: write or copy it again "
            f"({one_line(error)})"
        ) from error
