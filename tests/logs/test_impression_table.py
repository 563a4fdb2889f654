"""The impressions of a log as one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import write_simulated
from rankloop.logs.impression_rows import read_impression_table
from rankloop.offline import open_log
from rankloop.statistics.counts import ImpressionTable
from tests.logs.logs_of import Row, simulated, write_rows

SECOND = 10**6


def read(folder: Path, *, columns: tuple[str, ...] = (), most_rows: int = 10**6) -> ImpressionTable:
    log = open_log(folder)
    counts = log.count()
    with log.open_engine() as engine:
        return read_impression_table(
            engine, log, counts, rng=np.random.default_rng(0), columns=columns, most_rows=most_rows
        )


def with_columns(folder: Path, columns: dict[str, list[object]]) -> Path:
    """Add columns to the impressions of a log."""
    path = folder / "impressions.parquet"
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)
    return folder


ROWS = [
    Row("i1", "q", "a", 1, "x", True, 5 * SECOND),
    Row("i1", "q", "a", 2, "y", False, 5 * SECOND),
    Row("i2", "q", "b", 2, "x", False, 9 * SECOND),
    Row("i2", "q", "b", 1, "y", True, 9 * SECOND),
    Row("i4", "q", "a", 1, "x", False, 12 * SECOND),
    Row("i3", "p", "b", 1, "x", False, None),
]


def test_the_table_has_what_the_rows_say(tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log", ROWS)
    device = ["phone", "phone", "desk", "desk", "desk"]
    with_columns(log, {"user_id": ["u", "u", "v", "v", "v", "u"], "device": [*device, None]})
    table = read(log, columns=("device",))
    assert table.policy_ids == ("a", "b")
    assert table.unit_name == "user"
    assert table.share == 1.0
    # The engine decides about the order of the impressions.
    assert table.time is not None
    order = np.argsort(table.time)
    assert table.time[order][:3].tolist() == [5.0, 9.0, 12.0]
    assert np.isnan(table.time[order][3])
    assert table.policy[order].tolist() == [0, 1, 0, 1]
    assert table.length[order].tolist() == [2, 2, 1, 1]
    assert table.unit[order].tolist() == [0, 1, 1, 0]
    assert [table.values["device"][code] for code in table.columns["device"][order]] == [
        "phone",
        "desk",
        "desk",
        "missing",
    ]
    begin = table.rows.offsets[order]
    # Documents are numbered query by query: p has x; q has x and y.
    assert [table.rows.document[k : k + 2].tolist() for k in begin[:2]] == [[1, 2], [2, 1]]
    assert [table.rows.amount[k : k + 2].tolist() for k in begin[:2]] == [[1.0, 0.0], [1.0, 0.0]]
    assert table.rows.document[begin[3]] == 0


def test_a_log_without_times_and_users(tmp_path: Path) -> None:
    rows = [row._replace(timestamp=None) for row in ROWS]
    log = write_rows(tmp_path / "log", rows)
    table = read(log)
    assert table.unit_name == "impression"
    assert sorted(table.unit) == [0, 1, 2, 3]
    assert table.time is None or np.isnan(table.time).all()


def test_a_document_is_the_same_in_queries_that_come_once(tmp_path: Path) -> None:
    rows = [Row(f"i{k}", f"q{k}", "a", 1 + d, f"d{(k + d) % 3}", False, k) for k in range(6) for d in (0, 1)]
    table = read(write_rows(tmp_path / "log", rows))
    assert set(table.rows.document.tolist()) == {0, 1, 2}


def test_a_large_log_gives_a_sample_and_says_so(tmp_path: Path) -> None:
    split, gathered = simulated(queries=300, impressions=3_000)
    log = write_simulated(tmp_path / "log", split, gathered)
    whole, part = read(log), read(log, most_rows=12_000)
    assert whole.share == 1.0
    assert 0.5 < part.share < 1.0
    assert len(part.rows.document) <= 12_000
    # Whole queries: their impressions are all there.
    of_query = np.bincount(np.bincount(part.rows.query))
    assert of_query.sum() >= 200
    assert part.share == len(part.rows.document) / len(whole.rows.document)


def test_a_large_log_of_few_queries_gives_a_sample_of_its_units(tmp_path: Path) -> None:
    split, gathered = simulated(queries=4, impressions=3_000)
    log = write_simulated(tmp_path / "log", split, gathered)
    whole, part = read(log), read(log, most_rows=len(read(log).rows.document) // 3)
    assert 0.2 < part.share < 0.5
    assert 0 < len(part.rows) < len(whole.rows)
    # Impressions are read with all their rows.
    assert np.isin(part.length, whole.length).all()
    assert (part.rows.position[part.rows.offsets[:-1]] == 0).all()


def test_a_column_that_is_no_context_is_refused(tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log", ROWS)
    with pytest.raises(DataError, match="'device' is not a context column; the log has none"):
        read(log, columns=("device",))
    with pytest.raises(DataError, match="'position' is not a context column"):
        read(log, columns=("position",))
