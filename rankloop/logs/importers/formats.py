"""Recognise the format of a file by its content, and the program that wrote its records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankloop.errors import DataError
from rankloop.text_file import open_text

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t"}
DELIMITERS = ("\t", ",", ";", "|")
PARQUET_ENDING = ".parquet"
JSON, CSV, PARQUET = "JSON", "CSV", "Parquet"
# Number of bytes at the beginning of a file that are examined.
BEGINNING = 65_536

_MAGIC = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or export it as CSV",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: decompress it, or compress it with gzip",
    b"BZh": "compressed with bzip2: decompress it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz: decompress it, or compress it with gzip",
    b"\xff\xfe": "UTF-16 text: convert it to UTF-8",
    b"\xfe\xff": "UTF-16 text: convert it to UTF-8",
    b"Obj\x01": "Avro: export it as Parquet or JSON lines",
    b"ORC": "ORC: export it as Parquet or JSON lines",
    b"SQLite format 3": "a SQLite database: export the table as CSV",
}


def ending_of(path: Path) -> str:
    """Return the suffix of a file name, without ``.gz``."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


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
    for magic, name in _MAGIC.items():
        if begin.startswith(magic):
            raise DataError(f"{path}: expected {what}, but this is {name}")
    text = begin.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")) or ending in JSON_ENDINGS:
        return JSON, ""
    header = text.splitlines()[0] if text else b""
    usual = CSV_DELIMITERS.get(ending)
    for delimiter in (*([usual] if usual else []), *DELIMITERS):
        if delimiter.encode() in header and b"\0" not in begin:
            return CSV, delimiter
    if usual is not None:
        return CSV, usual
    raise DataError(
        f"{path}: expected {what} as JSON lines, CSV, TSV (all optionally gzipped) or Parquet, but this is "
        f"none of them"
    )


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
