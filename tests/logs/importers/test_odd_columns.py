"""Tables with columns and values that other programs write now and then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.errors import DataError
from rankloop.logs import ImportOptions, ImportReport, import_columns
from tests.logs.importers.reading import counts, shown

COLUMNS: dict[str, Any] = {
    "impression_id": ["i", "j"],
    "timestamp": pa.array([1, 2], pa.timestamp("us", tz="UTC")),
    "query_id": ["q", "r"],
    "policy_id": ["p", "p"],
    "position": [1, 1],
    "doc_id": ["x", "y"],
    "clicked": [True, False],
}


def imported(folder: Path, **changes: Any) -> ImportReport:
    pq.write_table(pa.table({**COLUMNS, **changes}), folder / "rows.parquet")
    return import_columns(folder / "rows.parquet", folder / "log", options=ImportOptions(max_loss=1.0))


def test_a_column_called_place(tmp_path: Path) -> None:
    assert imported(tmp_path, place=["a", "b"]).rows == 2


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    twice = pa.table([*map(pa.array, COLUMNS.values()), pa.array(["a", "b"])], names=[*COLUMNS, "query_id"])
    pq.write_table(twice, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="there are several columns called 'query_id': keep one"):
        import_columns(tmp_path / "rows.parquet", tmp_path / "log")
    (tmp_path / "own").mkdir()
    pq.write_table(twice, tmp_path / "own" / "impressions.parquet")
    with pytest.raises(DataError, match="there are several columns called 'query_id': keep one"):
        rankloop.open_log(tmp_path / "own")


def test_clicks_beyond_63_bits(tmp_path: Path) -> None:
    report = imported(tmp_path, clicked=pa.array([2**63, 0], pa.uint64()))
    assert (report.rows, report.clicks) == (2, 1)


def test_a_time_zone_that_nobody_knows(tmp_path: Path) -> None:
    times = pa.array([1, 2], pa.timestamp("us", tz="Nowhere/Nothing"))
    assert imported(tmp_path, timestamp=times).rows == 2


def test_ids_that_end_with_nul(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    pq.write_table(pa.table({**COLUMNS, "query_id": ["q\0", "q"]}), own / "impressions.parquet")
    with pytest.raises(DataError, match="an id in the log ends with a NUL character"):
        rankloop.open_log(own).count()
    source = tmp_path / "rows.jsonl"
    values = {**COLUMNS, "timestamp": [1, 2], "query_id": ["q\0", "q"]}
    rows = [{name: column[number] for name, column in values.items()} for number in (0, 1)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = import_columns(source, tmp_path / "log", options=ImportOptions(max_loss=1.0))
    assert counts(report) == {"broken_lines": 1}
    assert [row[1] for row in shown(tmp_path / "log")] == ["q"]
