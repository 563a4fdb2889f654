"""Whole columns and single rows: whatever is in a table, both ways give the same log and the same report."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.logs import Columns, ImportOptions, ImportReport, import_columns
from rankloop.logs.importers import csv_rows, json_records
from tests.logs.importers.reading import rows_of

NAMES = ("request_id", "ts", "query", "position", "sku", "clicked", "price")
COLUMNS = Columns(impression_id="request_id", timestamp="ts", query_id="query", doc_id="sku")
ROWS = 3_000
# What is written here and there, and how many of the rows have it.
ODD: dict[str, list[Any]] = {
    "ts": ["", "NULL", "2024-05-01", "2024-05-01T12:00:00.5Z", "2024-05-01T12:00:00+02:00", "1714564800123",
           "01/May/2024:12:00:00 +0000", "noon"],
    "query": ['with, comma and "quotes"', "é", "", "a\\b|c"],
    "position": ["x", "", "-1", "3.0", " 2"],
    "sku": [""],
    "clicked": ["yes", "True", "FALSE", "2", "", "maybe"],
    "price": ["", "NULL", "2.5e3"],
}  # fmt: skip


def rows(odd: str | None) -> list[list[Any]]:
    rng = np.random.default_rng(7)
    table: list[list[Any]] = []
    for number in range(ROWS):
        search = number // 5
        row = [f"r{search}", 1_714_564_800 + search, f"query {search % 17}", number % 5 + 1,
               f"d{rng.integers(40)}", int(rng.random() < 0.3), number % 7 + 0.5]  # fmt: skip
        if odd is not None and rng.random() < 0.02:
            row[NAMES.index(odd)] = rng.choice(np.array(ODD[odd], object))
        table.append(row)
    return table


def imported(path: Path, out: Path, only: dict[str, str]) -> ImportReport:
    options = ImportOptions(max_loss=1.0, position_base=1)
    return import_columns(path, out, columns=COLUMNS, only=only, feature_columns=["price"], options=options)


def compare(path: Path, monkeypatch: pytest.MonkeyPatch, only: dict[str, str]) -> int:
    """Check that both ways agree; return the number of blocks that were read as columns."""
    blocks = []
    columns, take = csv_rows._columns, json_records.JsonRecords.__init__

    def counted(*block: Any) -> Any:
        found = columns(*block)
        blocks.append(found is not None)
        return found

    monkeypatch.setattr(csv_rows, "BLOCK", 300)
    monkeypatch.setattr(json_records, "BLOCK", 300)
    monkeypatch.setattr(csv_rows, "_columns", counted)
    fast = imported(path, path.parent / "fast", only)
    monkeypatch.setattr(csv_rows, "_columns", lambda *_: None)
    monkeypatch.setattr(json_records.JsonRecords, "__init__", lambda self, *given: take(self, *given[:3]))
    slow = imported(path, path.parent / "slow", only)
    monkeypatch.undo()
    for table in ("impressions", "features"):
        assert sorted(map(repr, rows_of(fast.log, table))) == sorted(map(repr, rows_of(slow.log, table)))
    assert (fast.aside, fast.losses, fast.read) == (slow.aside, slow.losses, slow.read)
    assert [(one.name, one.count, one.left_out) for one in fast.problems] == [
        (one.name, one.count, one.left_out) for one in slow.problems
    ]
    return sum(blocks)


@pytest.mark.parametrize("odd", [None, *ODD])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_blocks_of_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str | None, ends: str) -> None:
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=ends).writerows([NAMES, *rows(odd)])
    assert compare(tmp_path / "t.csv", monkeypatch, {}) == 7


@pytest.mark.parametrize("damage", ["fields", "quote", "empty line", "encoding", "two lines", "quoted"])
def test_damage_in_blocks_of_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    lines = [",".join(map(str, row)).encode() for row in (NAMES, *rows(None))]
    at = 1_500
    lines[at] = {
        "fields": lines[at] + b",more",
        "quote": lines[at].replace(b"query", b'"query'),
        "empty line": b"",
        "encoding": lines[at].replace(b"query", b"qu\xe9ry"),
        "two lines": lines[at].replace(b"query 11", b'"query\n11"').replace(b"query 10", b'"query\n10"'),
        "quoted": lines[at].replace(b"query", b'5" query'),
    }[damage]
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines))
    assert compare(tmp_path / "t.csv", monkeypatch, {"price": "0.5"}) >= 1


@pytest.mark.parametrize("odd", [None, *ODD, "missing", "not JSON", "nested"])
def test_blocks_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str | None) -> None:
    records = [dict(zip(NAMES, row, strict=True)) for row in rows(odd if odd in ODD else None)]
    lines = [json.dumps(record) for record in records]
    other = dict(records[1_500])
    if odd == "missing":
        del other["ts"]
    elif odd == "nested":
        other["query"] = {"text": "x"}
    lines[1_500] = "{" if odd == "not JSON" else json.dumps(other)
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    compare(tmp_path / "t.jsonl", monkeypatch, {})
