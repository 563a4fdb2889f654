"""Importers, up to the tables that they stage: what is staged is in the file, and every record is counted.

Whole imports spend nearly all of their time in DuckDB; `tests.attack.readers` and `tests.attack.accounting`
try some. Here the functions that read the source stage their rows in memory, so that an input takes a
millisecond or two.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.logs import import_columns, import_metarank, import_ubi
from rankloop.logs.importers import columns, metarank, ubi
from rankloop.logs.importers.files import LINE_BITS
from rankloop.logs.importers.pipeline import UNNAMED_POLICY, ImportOptions, ImportSession
from rankloop.logs.importers.staging import CLICKS, SCHEMAS, SCORES
from rankloop.logs.schema import IMPRESSIONS
from tests.attack.campaign import Attack, campaign
from tests.attack.mutations import BINARY, FILES, mutate

Row = tuple[Any, ...]
# Records that are not staged are counted under one of these, and not as broken.
SET_ASIDE = ("empty_impressions", "clicks_without_impression", "unknown_queries")


class MemoryStaging:
    """Staged tables as lists of rows; takes the place of `Staging`."""

    def __init__(self, folder: Path, *_: Any) -> None:
        self.folder = folder
        self.tables: dict[str, list[Row]] = {IMPRESSIONS: [], CLICKS: [], SCORES: [], "events": []}
        self.rows: dict[str, int] = Counter()

    def __enter__(self) -> MemoryStaging:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def add(self, table: str, rows: list[Row]) -> None:
        self.tables[table] += rows
        self.rows[table] += len(rows)

    def write(self) -> None:
        """What Arrow cannot hold fails, as when tables are written."""
        for table, rows in self.tables.items():
            for column, field in zip(zip(*rows, strict=True), SCHEMAS.get(table, ()), strict=False):
                pa.array(column, field.type)

    def add_batch(self, table: str, batch: pa.Table) -> None:
        names = SCHEMAS[table].names
        self.add(table, [tuple(row[name] for name in names) for row in batch.select(names).to_pylist()])


class Staged:
    """What an importer read: its session, its staged rows, and for UBI the raw ones."""

    def __init__(self, folder: Path) -> None:
        self.session = ImportSession(MemoryStaging(folder), ImportOptions())  # type: ignore[arg-type]
        self.raw = MemoryStaging(folder)

    def rows(self, table: str) -> list[Row]:
        return self.session.staging.tables[table] + self.raw.tables.get(table, [])  # type: ignore[attr-defined, no-any-return]

    @property
    def counts_records(self) -> bool:
        """Whether places are numbers of records, because they are not one per line."""
        return self.session.files.place_name(0).endswith("record 0")

    def unbalanced(self, tables: tuple[str, ...] = (IMPRESSIONS, CLICKS, "events")) -> str | None:
        """What does not add up: records = staged + broken + set aside; a record is staged in ``tables``."""
        session = self.session
        staged = {row[0] for table in tables for row in self.rows(table)}
        broken, aside = sum(session.broken.values()), sum(session.aside.values())
        other = sum(session.found.count(name) for name in SET_ASIDE)
        # The item events of Metarank become features.
        documents = session.records["item events"] - session.broken["item events"]
        records = sum(session.records.values())
        counted = len(staged) + broken + aside + other + documents
        if records != counted:
            return f"{records} records, but {len(staged)} staged, {broken} broken, {aside + other} aside"
        lines = session.found.count("broken_lines")
        if lines != broken + session.files.unreadable:
            return f"{lines} broken lines, not {broken} + {session.files.unreadable}"
        return None


def staged(folder: Path, importer: Any, call: Callable[[], object]) -> Staged:
    """Run an importer with its tables in memory, up to the cleaning."""
    result = Staged(folder)

    def run(read: Callable[[ImportSession], None], *_: object, **__: object) -> None:
        read(result.session)
        result.session.staging.write()  # type: ignore[attr-defined]

    with patch.object(importer, "run", run):
        if importer is not ubi:
            call()
            return result
        (folder / "ubi").mkdir(exist_ok=True)
        with (
            patch.object(ubi, "Staging", lambda *_: result.raw),
            patch.object(ubi, "Displays", lambda *_: _NoDisplays()),
            patch.object(Path, "mkdir", lambda *_, **__: None),
        ):
            call()
    return result


class _NoDisplays:
    def assemble(self, _raw: object) -> None:
        """UBI's displays are assembled by DuckDB: whole imports try that."""


def line_of(row: Row) -> int:
    """The number of the line of a staged row."""
    return int(row[0]) & ((1 << LINE_BITS) - 1)


def unpacked(path: Path) -> list[bytes]:
    """The lines of a file that may be gzipped."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return []
    return data.removeprefix(b"\xef\xbb\xbf").split(b"\n")


# The rows of a table before it is damaged.
ROWS = 12
COLUMNS = ("impression_id", "timestamp", "query_id", "policy_id", "position", "doc_id", "clicked")


def _table_rows() -> list[list[str]]:
    return [
        [f"i{n // 3}", str(1_700_000_000 + n), f"query {n % 2}", "p", str(n % 3 + 1), f"d{n % 7}", str(n % 2)]
        for n in range(ROWS)
    ]


def _table(delimiter: str, columns: tuple[str, ...] = COLUMNS) -> bytes:
    lines = [delimiter.join(columns), *(delimiter.join(row) for row in _table_rows())]
    return ("\n".join(lines) + "\n").encode()


@campaign("tables", inputs=150)
def attack_tables(folder: Path) -> Attack:
    """Tables as CSV, TSV and JSON lines: ids, positions and clicks are those of the line."""
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in _table_rows()]
    lists = [
        {"request": f"r{n}", "query": "q", "docs": ["a", "b", f"c{n}"], "clicked": ["b"]} for n in range(6)
    ]
    events = [
        {"event": kind, "search_id": f"s{n}", "query": "q", "doc_id": f"d{n}", "position": 1}
        for n in range(4)
        for kind in ("impression", "click")
    ]
    forms = {
        "rows.csv": _table(","),
        "rows.tsv": _table("\t"),
        "rows.jsonl": _lines(objects),
        "lists.jsonl": _lines(lists),
        "events.jsonl": _lines(events),
        "array.json": json.dumps(objects, indent=1).encode(),
    }

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(forms))
        path = folder / name
        path.write_bytes(mutate(forms[name], chosen, FILES))
        found = staged(folder, columns, lambda: import_columns(path, folder / "log"))
        # A row with an empty list may still have clicks.
        problem = found.unbalanced((IMPRESSIONS,)) if name.startswith("lists") else found.unbalanced()
        if problem is not None or not name.startswith("rows") or found.counts_records:
            return problem
        lines = unpacked(path)
        for row in found.rows(IMPRESSIONS):
            if not _is_in_line(row, lines[line_of(row) - 1], name):
                return f"line {line_of(row)} is {lines[line_of(row) - 1]!r}, not {row!r}"
        return None

    return attack


def _lines(values: list[Any]) -> bytes:
    return ("\n".join(map(json.dumps, values)) + "\n").encode()


def _is_in_line(row: Row, line: bytes, name: str) -> bool:
    """Whether the ids and the position of a staged row are in its line, in whatever column."""
    if name.endswith(".jsonl"):
        there = set(_texts(json.loads(line.rstrip())))
    else:
        text = line.decode().removesuffix("\r")
        if '"' in text or "\r" in text:
            return True
        there = set(text.split("\t" if name.endswith(".tsv") else ","))
    _, impression, _, query, policy, position, document, *_ = row
    # Without a column of impressions or policies, because damage renamed it, ids are made.
    made = "|" in impression or impression.startswith("row ")
    ids = [document, *([] if made else [impression, query]), *([] if policy == UNNAMED_POLICY else [policy])]
    # Without a column of positions, rows of an impression are counted.
    return all(one in there for one in ids) and (position in _numbers(there) or position <= ROWS)


def _texts(value: Any) -> Iterator[str]:
    """All values in a JSON value, as text."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield value if isinstance(value, str) else str(value)


def _numbers(texts: set[str]) -> set[float]:
    found = set()
    for text in texts:
        with contextlib.suppress(ValueError):
            found.add(float(text))
    return found


@campaign("metarank", inputs=200)
def attack_metarank(folder: Path) -> Attack:
    """Metarank's events: documents, impressions and clicks are those of the line."""
    events: list[Any] = []
    for n in range(4):
        documents = [{"id": f"d{n}{k}", "relevancy": k / 2} for k in range(3)]
        named = [{"name": "query", "value": f"q{n % 2}"}, {"name": "policy", "value": "p"}]
        common = {"timestamp": str(1_700_000_000_000 + n), "user": "u", "session": "s"}
        events += [
            {"event": "ranking", "id": f"r{n}", "items": documents, "fields": named, **common},
            {
                "event": "interaction",
                "id": f"c{n}",
                "ranking": f"r{n}",
                "item": f"d{n}1",
                "type": "click",
                **common,
            },
            {
                "event": "item",
                "id": f"e{n}",
                "item": f"d{n}1",
                "fields": [{"name": "price", "value": n}],
                **common,
            },
        ]
    good, path = _lines(events), folder / "events.jsonl"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(good, chosen, FILES))
        found = staged(folder, metarank, lambda: import_metarank(path, folder / "log"))
        lines = unpacked(path)
        if found.counts_records:
            return found.unbalanced()
        for row in found.rows(IMPRESSIONS):
            event = json.loads(lines[line_of(row) - 1].rstrip())
            if str(event["id"]) != row[1] or str(event["items"][row[5] - 1]["id"]) != row[6]:
                return f"a ranking is {event}, not {row!r}"
        for row in found.rows(CLICKS):
            event = json.loads(lines[line_of(row) - 1].rstrip())
            if (str(event["ranking"]), str(event["item"])) != row[1:3]:
                return f"an impression is {event}, not {row!r}"
        return found.unbalanced()

    return attack


@campaign("ubi", inputs=200)
def attack_ubi(folder: Path) -> Attack:
    """UBI's queries and events: documents, impressions and clicks are those of the line."""
    records: list[Any] = []
    for n in range(4):
        time, shown = f"2024-05-01T12:00:0{n}.000Z", [f"d{n}1", f"d{n}2"]
        attributes = {"policy_id": "p", "scores": dict.fromkeys(shown, 0.5)}
        records += [
            {
                "query_id": f"i{n}", "user_query": f"q{n % 2}", "timestamp": time,
                "query_response_hit_ids": shown, "query_attributes": attributes,
            },
            {
                "query_id": f"i{n}", "action_name": chosen_action(n), "timestamp": time,
                "event_attributes": {"object": {"object_id": f"d{n}1"}, "position": {"ordinal": 1}},
            },
        ]  # fmt: skip
    good, path = _lines(records), folder / "ubi.jsonl"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(good, chosen, FILES))
        found = staged(folder, ubi, lambda: import_ubi(path, folder / "log"))
        lines = unpacked(path)
        if found.counts_records:
            return found.unbalanced()
        for row in found.rows("events"):
            record = json.loads(lines[line_of(row) - 1].rstrip())
            hits = record.get("query_response_hit_ids")
            listed = [hits] if isinstance(hits, str | int) else hits or []
            if str(record["query_id"]) != row[1] or (
                row[6] is not None and row[6] != [str(h) for h in listed]
            ):
                return f"a query is {record}, not {row!r}"
        for row in found.rows(CLICKS):
            record = json.loads(lines[line_of(row) - 1].rstrip())
            document = record["event_attributes"]["object"]["object_id"]
            if (str(record["query_id"]), str(document)) != row[1:3]:
                return f"an event is {record}, not {row!r}"
        return found.unbalanced()

    return attack


def chosen_action(number: int) -> str:
    """The action of an event: mostly clicks, one impression."""
    return "impression" if number == 1 else "click"


@campaign("parquet table", inputs=80, separate=True)
def attack_parquet_table(folder: Path) -> Attack:
    """Tables as Parquet, which has no checksums here: as many rows as pyarrow reads, with the same ids."""
    rows = _table_rows()
    values = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    table = pa.table(
        {
            **{name: pa.array(values[name]) for name in ("impression_id", "query_id", "policy_id", "doc_id")},
            "timestamp": pa.array([int(v) * 10**6 for v in values["timestamp"]], pa.timestamp("us")),
            "position": pa.array(list(map(int, values["position"])), pa.int32()),
            "clicked": pa.array([v == "1" for v in values["clicked"]]),
        }
    )
    goods = []
    for compression in ("none", "zstd", "gzip"):
        for dictionary in (True, False):
            pq.write_table(table, folder / "good.parquet", compression=compression, use_dictionary=dictionary)
            goods.append((folder / "good.parquet").read_bytes())
    path = folder / "rows.parquet"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(chosen.choice(goods), chosen, BINARY))
        found = staged(folder, columns, lambda: import_columns(path, folder / "log"))
        read = pq.ParquetFile(path).read()
        problem = found.unbalanced()
        if problem is None and sum(found.session.records.values()) != len(read):
            problem = f"{sum(found.session.records.values())} records of {len(read)} rows"
        shown = (
            Counter(str(value) for value in read["doc_id"].to_pylist())
            if "doc_id" in read.column_names
            else None
        )
        if problem is None and shown is not None:
            extra = Counter(row[6] for row in found.rows(IMPRESSIONS)) - shown
            problem = f"documents that are not in the file: {extra}" if extra else None
        return problem

    return attack
