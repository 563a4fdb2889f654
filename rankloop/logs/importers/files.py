"""Records from files, each with its place: JSON lines, CSV and Parquet, plain or gzipped.

A line that cannot be read is reported with file, line and reason, and left out. A file whose end is missing
is refused: nobody knows what was in the rest.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import DataError, one_line
from rankloop.logs.problems import ProblemCounter

GZIP_MAGIC = b"\x1f\x8b"
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET_ENDING = ".parquet"
# Records of Parquet files that are turned into Python at a time.
ROWS_AT_A_TIME = 10_000
# A place is one whole number in the staged tables: file and line.
LINE_BITS = 40

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class Record:
    """A record and its place."""

    place: int
    values: dict[str, Any]


class SourceFiles:
    """The files of an import: their records, and the names of places in them."""

    def __init__(self, found: ProblemCounter) -> None:
        self.paths: list[Path] = []
        self.found = found

    def records(self, sources: Paths, what: str) -> Iterator[Record]:
        """The records of some files, one after the other.

        Args:
            sources: one path or several.
            what: what they should hold, for messages.
        """
        for path in as_paths(sources):
            number = self.enter(path)
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
                    f"{path}: expected {what} in a file whose name ends in {text} (and perhaps .gz after it) "
                    f"or {PARQUET_ENDING}"
                )
            for line, values in rows:
                yield Record(place_of(number, line), values)

    def enter(self, path: Path) -> int:
        """Remember a file; its number."""
        if not path.is_file():
            raise DataError(f"{path} is no file")
        self.paths.append(path)
        return len(self.paths) - 1

    def place_name(self, place: int) -> str:
        """A place as messages call it."""
        path, line = self.paths[place >> LINE_BITS], place & ((1 << LINE_BITS) - 1)
        return f"{path}, {'row' if ending_of(path) == PARQUET_ENDING else 'line'} {line}"

    def broken(self, place: int, reason: object) -> None:
        """Count a line that cannot be read."""
        self.found.add("broken_lines", f"{self.place_name(place)}: {reason}")

    def _json(self, path: Path, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in numbered_lines(path):
            if not text.strip():
                continue
            if line == 1 and text.lstrip().startswith(b"["):
                raise DataError(
                    f"{path}, line 1: this is one JSON array; expected JSON lines, one object a line "
                    f"(jq -c '.[]' makes them)"
                )
            try:
                values = json.loads(text.rstrip())
            except json.JSONDecodeError as error:
                self.broken(place_of(number, line), f"not JSON ({error.msg}, at character {error.pos + 1})")
                continue
            except (ValueError, RecursionError) as error:
                self.broken(place_of(number, line), f"not JSON ({error})")
                continue
            if isinstance(values, dict):
                yield line, values
            else:
                self.broken(place_of(number, line), f"not an object but {type(values).__name__}")

    def _csv(self, path: Path, number: int, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
        undecoded: set[int] = set()
        reader = csv.reader(_decoded_lines(path, undecoded), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        while True:
            begun = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end" in str(error):
                    raise DataError(
                        f"{path}, line {begun}: a quote is opened and never closed; the file is cut short, "
                        f"or the quote should be doubled"
                    ) from error
                self.broken(place_of(number, begun), error)
                continue
            if header is None:
                header = [name.strip() for name in fields]
                if len(set(header)) < len(header):
                    raise DataError(f"{path}, line 1: two columns have the same name: {', '.join(header)}")
            elif not undecoded.isdisjoint(range(begun, reader.line_num + 1)):
                self.broken(place_of(number, begun), "not UTF-8")
            elif len(fields) == len(header):
                yield begun, dict(zip(header, fields, strict=True))
            elif fields:
                count, wanted = len(fields), len(header)
                self.broken(place_of(number, begun), f"{count} fields where the first line has {wanted}")


def as_paths(sources: Paths) -> list[Path]:
    """One path or several, as a list; for a folder, the files in it that can be read, by name."""
    single = isinstance(sources, str | os.PathLike)
    given = [Path(sources)] if single else [Path(source) for source in sources]  # type: ignore[arg-type, union-attr]
    if not given:
        raise DataError("there are no files to import")
    return [file for path in given for file in (_files_in(path) if path.is_dir() else [path])]


def _files_in(folder: Path) -> list[Path]:
    known = (*JSON_ENDINGS, *CSV_DELIMITERS, PARQUET_ENDING)
    files = sorted(path for path in folder.iterdir() if path.is_file() and ending_of(path) in known)
    if not files:
        raise DataError(f"{folder} is a folder without files whose names end in {', '.join(known)}")
    return files


def ending_of(path: Path) -> str:
    """How a file's name ends, ``.gz`` aside."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def place_of(file: int, line: int) -> int:
    """A place as one whole number."""
    return file << LINE_BITS | line


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, from 1, plain or gzipped."""
    number = 0
    try:
        with path.open("rb") as raw:
            gzipped = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            with gzip.open(raw) if gzipped else raw as lines:
                for number, line in enumerate(lines, 1):
                    yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}, after line {number}: the compressed file is cut short or damaged ({error}): fetch it "
            f"again"
        ) from error
    except OSError as error:
        raise DataError(f"{path}, after line {number}: {error.strerror or error}") from error


def _decoded_lines(path: Path, undecoded: set[int]) -> Iterator[str]:
    """Lines as text; those that are not UTF-8 go on, marked, so that the lines around them are read."""
    for number, line in numbered_lines(path):
        try:
            # A byte-order mark is how some programs begin a file.
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
    """The rows of a batch; ``first`` is the number of the first of them."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"{path}, rows {first} to {first + len(batch) - 1}: a value that Python has no room for "
            f"({one_line(error)}), such as a time after the year 9999: correct or remove it"
        ) from error


def parquet_batches(path: Path, rows: int = ROWS_AT_A_TIME) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file."""
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: this is not a Parquet file, or a part of it is missing: write or copy it again "
            f"({one_line(error)})"
        ) from error
