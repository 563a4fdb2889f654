"""Recognise the format of a file by its content, and the program that wrote its records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankloop.errors import DataError
from rankloop.text_file import open_text

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
DELIMITERS = ("\t", ",", ";", "|")
# Fields with any white space between them, as in the files of TREC.
WHITE_SPACE = " "
PARQUET_ENDING = ".parquet"
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
DATABASE_ENDINGS = (".db", ".sqlite", ".sqlite3", ".duckdb")
JSON, CSV, PARQUET, DATABASE = "JSON", "CSV", "Parquet", "database"
# Number of bytes at the beginning of a file that are examined, and of lines to find the delimiter.
BEGINNING = 65_536
LINES = 50
# A spreadsheet names its delimiter in a first line of its own.
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\s*$', re.IGNORECASE)
# How JSON begins: an object, or an array of objects, arrays, texts or numbers.
_JSON_BEGINS = re.compile(rb"\{\s*(\"|\}|$)|\[\s*($|[\[{\"\d\-\]])")
SQLITE_MAGIC, DUCKDB_MAGIC, DUCKDB_MAGIC_AT = b"SQLite format 3\0", b"DUCK", 8

_MAGIC = {
    b"Obj\x01": "Avro: export it as Parquet or JSON lines",
    b"ORC": "ORC: export it as Parquet or JSON lines",
    b"<?xml": "XML: convert it to JSON lines or CSV, with one row per document shown",
    b"%PDF": "a PDF document",
    b"ARROW1": "Arrow or Feather: write it as Parquet (pyarrow.parquet.write_table)",
    b"\x89HDF": "HDF5: write it as Parquet (pandas.DataFrame.to_parquet)",
    b"\x93NUMPY": "an array of NumPy: write it as Parquet, with one row per impression or document",
    b"\x80\x04": "a pickle of Python: write it as Parquet (pandas.DataFrame.to_parquet)",
    b"\x80\x05": "a pickle of Python: write it as Parquet (pandas.DataFrame.to_parquet)",
}


def file_of(path: Path) -> Path:
    """The file that a path names: ``shop.db`` of ``shop.db:impressions``, unless a file is called so."""
    before, colon, _ = path.name.rpartition(":")
    return path.with_name(before) if colon and before and not path.exists() else path


def ending_of(path: Path) -> str:
    """Return the suffix of a file name, without that of a compressed file."""
    name = Path(path.name)
    return (Path(name.stem) if name.suffix.lower() in COMPRESSED_ENDINGS else name).suffix.lower()


def detect_format(path: Path, what: str) -> tuple[str, str]:
    """Return the format of a file and, for CSV, its delimiter.

    The content decides. Only where it could be several formats does the ending.

    Args:
        path: the file.
        what: the expected content, for messages.
    """
    ending = ending_of(path)
    with open_text(path, lambda: 0) as file:
        begin = file.read(BEGINNING)
    if begin.startswith(b"PAR1") or (ending == PARQUET_ENDING and not begin.lstrip().startswith(b"{")):
        return PARQUET, ""
    if begin.startswith(SQLITE_MAGIC) or begin[DUCKDB_MAGIC_AT:].startswith(DUCKDB_MAGIC):
        return DATABASE, ""
    for magic, name in _MAGIC.items():
        if begin.startswith(magic):
            raise DataError(f"{path}: expected {what}, but this is {name}")
    text = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    if ending in JSON_ENDINGS or (text.startswith((b"{", b"[")) and not _is_header(text, ending)):
        return JSON, ""
    delimiter = (
        None if b"\0" in begin else _delimiter(text, CSV_DELIMITERS.get(ending), len(begin) == BEGINNING)
    )
    if delimiter is not None:
        return CSV, delimiter
    raise DataError(
        f"{path}: expected {what} as JSON, CSV, TSV (plain or compressed), Parquet or a database, but this "
        f"is none of them"
    )


def _is_header(text: bytes, ending: str) -> bool:
    """Whether text that begins with a bracket begins with a name of a column, such as ``[query]``."""
    first = text.splitlines()[0]
    return ending in CSV_DELIMITERS and _JSON_BEGINS.match(first) is None


def _delimiter(text: bytes, usual: str | None, cut: bool) -> str | None:
    """The delimiter of a table; None if the text does not look like one."""
    lines = [line for line in text.splitlines()[: LINES + 1] if line.strip()]
    lines = lines[:-1] if cut and len(lines) > 1 else lines
    if lines and (named := _SEPARATOR_LINE.match(lines[0])):
        return named[1].decode("latin-1")
    header = lines[0] if lines else b""
    there = [one for one in DELIMITERS if one.encode() in header]
    if usual in there:
        return usual
    if there:
        # The one that splits most lines as it splits the first; then the one that is there most often.
        return max(there, key=lambda one: (_agreement(lines, one.encode()), header.count(one.encode())))
    if usual is not None:
        return usual
    widths = {len(line.split()) for line in lines}
    return WHITE_SPACE if len(lines) > 1 and len(widths) == 1 and min(widths) > 1 else None


def _agreement(lines: Sequence[bytes], delimiter: bytes) -> float:
    expected = lines[0].count(delimiter)
    return sum(line.count(delimiter) == expected for line in lines) / len(lines)


COMMANDS = {
    "ubi": "OpenSearch's User Behavior Insights",
    "metarank": "Metarank's events",
    "columns": "a table with one row per document shown",
}


def check_importer(command: str, values: Mapping[str, Any], where: str) -> None:
    """Refuse a file that another importer reads, judged by its first record.

    Args:
        command: the importer that reads the file.
        values: the first record.
        where: its place, for messages.
    """
    found = recognise(values)
    if found is not None and found != command:
        raise DataError(
            f"{where}: this looks like {COMMANDS[found]}, not {COMMANDS[command]}: use `rankloop import "
            f"{found}`"
        )


def recognise(values: Mapping[str, Any]) -> str | None:
    """Return the importer that reads a record; None if it cannot be told.

    >>> recognise({"event": "ranking", "id": "i1", "items": []})
    'metarank'
    """
    source = values.get("_source")
    record = source if isinstance(source, Mapping) else values
    index = str(
        next((v.get("_index") for v in values.values() if isinstance(v, Mapping)), values.get("_index"))
    )
    if record.get("event") in ("ranking", "interaction", "item", "user"):
        return "metarank"
    if "ubi" in index or "action_name" in record or {"user_query", "query_id"} <= set(record):
        return "ubi"
    if {"position", "clicked"} <= set(record) or {"position", "doc_id"} <= set(record):
        return "columns"
    return None
