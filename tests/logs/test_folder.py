"""Folders that are logs, folders that are none, and how logs are written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogWriter
from rankloop.offline import open_log
from tests.logs.logs_of import TIME, Row, write_rows

ROWS = [Row("i", "q", "a", 1, "x", True, 5), Row("i", "q", "a", 2, "y", False, 5)]


def columns(**changes: Any) -> dict[str, Any]:
    """Good columns of impressions, with these changed; None: without the column."""
    good = {
        "impression_id": ["i", "i"],
        "timestamp": pa.array([5, 5], TIME),
        "query_id": ["q", "q"],
        "policy_id": ["a", "a"],
        "position": [1, 2],
        "doc_id": ["x", "y"],
        "clicked": [True, False],
    }
    return {name: values for name, values in (good | changes).items() if values is not None}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "new" / "log") as writer:
        writer.write("impressions", columns())
        writer.write("impressions", pa.table(columns(impression_id=["j", "j"])))
    log = open_log(tmp_path / "new" / "log")
    assert log.tables == ("impressions",)
    assert not log.starts
    assert log.count().impressions_by_policy.tolist() == [[2]]
    schema = pq.read_schema(log.folder / "impressions.parquet")
    # What others read are plain types, whatever the writer used.
    assert schema.field("query_id").type == pa.string()
    assert schema.field("timestamp").type == TIME
    assert schema.field("position").type == pa.int32()
    assert [child.name for child in (tmp_path / "new").iterdir()] == ["log"]


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def failing() -> None:
        with LogWriter(tmp_path / "made" / "for" / "log") as writer:
            writer.write("impressions", columns())
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        failing()
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_replaced_only_if_that_is_wanted_and_only_a_log(tmp_path: Path) -> None:
    write_rows(tmp_path / "log", ROWS)
    with pytest.raises(DataError, match="log exists: choose another folder"):
        LogWriter(tmp_path / "log")
    with LogWriter(tmp_path / "log", overwrite=True) as writer:
        writer.write("impressions", columns(doc_id=["v", "w"]))
    assert open_log(tmp_path / "log").count().doc_ids.tolist() == ["v", "w"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(DataError, match="thesis is not a log, and is not overwritten"):
        LogWriter(tmp_path / "thesis", overwrite=True)
    assert sorted(child.name for child in tmp_path.iterdir()) == ["log", "thesis"]
    (tmp_path / "log" / "import.json").touch()
    LogWriter(tmp_path / "log", overwrite=True)
    (tmp_path / "log" / "notes.txt").write_text("what I saw")
    with pytest.raises(
        DataError, match=r"log contains other files than a log \(notes.txt\), and is not over"
    ):
        LogWriter(tmp_path / "log", overwrite=True)


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(RankloopError, match="file/log cannot be written"),
        LogWriter(tmp_path / "file" / "log"),
    ):
        pass
    with pytest.raises(DataError, match="rows that do not fit into the table of impressions"):
        _write_one(tmp_path / "log", columns(position=["first", "second"]))
    with pytest.raises(DataError, match="rows that do not fit into the table of impressions"):
        _write_one(tmp_path / "log", columns(doc_id=None))
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


def _write_one(folder: Path, values: dict[str, Any]) -> None:
    with LogWriter(folder) as writer:
        writer.write("impressions", values)


def test_a_promise_about_a_file_does_not_outlive_its_rows(tmp_path: Path) -> None:
    """Other programs copy metadata: a part of a log whose impressions all start must not be taken for one."""
    with LogWriter(tmp_path / "log") as writer:
        writer.starts = True
        writer.write("impressions", columns())
    path = tmp_path / "log" / "impressions.parquet"
    assert open_log(tmp_path / "log").starts
    (tmp_path / "log" / "checksums.json").unlink()
    pq.write_table(pq.read_table(path).slice(1), path)
    log = open_log(tmp_path / "log")
    assert not log.starts
    assert log.count().impressions_by_policy.tolist() == [[1]]


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none is not a folder"):
        open_log(tmp_path / "none")
    (tmp_path / "queries.csv").touch()
    with pytest.raises(DataError, match=r"it does not contain impressions.parquet, only \['queries.csv'\]"):
        open_log(tmp_path)
    (tmp_path / "impressions.parquet").mkdir()
    with pytest.raises(DataError, match=r"impressions.parquet is a folder without Parquet files"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clicked": None}, "the column 'clicked' is missing; a table of impressions has impression_id, "),
        (
            {"query_id": None, "queryid": ["q", "q"]},
            r"the column 'query_id' is missing \(is it 'queryid'\?\).*but found: .*, queryid",
        ),
        ({"position": [1.0, 2.0]}, "the column 'position' holds double; expected whole numbers"),
        (
            {"clicked": [1, 0]},
            r"the column 'clicked' holds int64; expected true or false \(`rankloop import columns` reads",
        ),
        ({"clicked": [1.0, 0.0]}, "the column 'clicked' holds double; expected true or false"),
        ({"clicked": ["yes", "no"]}, "the column 'clicked' holds string; expected true or false"),
        ({"timestamp": ["monday", "tuesday"]}, "the column 'timestamp' holds string; expected timestamps"),
        ({"doc_id": [0.5, 1.5]}, "the column 'doc_id' holds double; expected text or whole numbers"),
    ],
)
def test_wrong_columns_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table(columns(**changes)), tmp_path / "impressions.parquet")
    with pytest.raises(DataError, match=f"impressions.parquet: {message}"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    ("changes", "documents"),
    [
        ({"doc_id": pa.array(["x", "y"], pa.large_string())}, ["x", "y"]),
        ({"doc_id": pa.array(["x", "y"], pa.string_view())}, ["x", "y"]),
        ({"doc_id": pa.array([7, 8], pa.uint8()).dictionary_encode()}, ["7", "8"]),
        ({"timestamp": pa.nulls(2)}, ["x", "y"]),
        ({"timestamp": pa.array([5, 5], pa.timestamp("ns"))}, ["x", "y"]),
        ({"timestamp": pa.array([5, 5], pa.timestamp("s", tz="Europe/Berlin"))}, ["x", "y"]),
        ({"position": pa.array([1, 2], pa.uint64())}, ["x", "y"]),
        ({"more": [1, 2]}, ["x", "y"]),
    ],
)
def test_other_types_that_are_as_good(tmp_path: Path, changes: dict[str, Any], documents: list[str]) -> None:
    pq.write_table(pa.table(columns(**changes)), tmp_path / "impressions.parquet")
    counted = open_log(tmp_path).count()
    assert counted.doc_ids.tolist() == documents
    assert counted.displays_by_position.tolist() == [[1, 0], [0, 1]]


def test_wrong_columns_of_other_tables_are_refused(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", ROWS)
    wrong = {"policy_id": ["a"], "query_id": ["q"], "doc_id": ["x"], "score": ["high"]}
    pq.write_table(pa.table(wrong), folder / "candidates.parquet")
    with pytest.raises(DataError, match=r"candidates.parquet: the column 'score' holds string; expected num"):
        open_log(folder)


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", ROWS)
    path = folder / "impressions.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"impressions.parquet: this is not a Parquet file, or its end is"):
        open_log(folder)


def test_a_file_that_is_damaged_inside_is_refused(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", ROWS)
    path = folder / "impressions.parquet"
    data = bytearray(path.read_bytes())
    data[10:200] = bytes(190)
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"^the log cannot be read: .*: write or copy it again$"):
        open_log(folder).count()


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", ROWS)
    path = folder / "impressions.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"rankloop.version": b"3"}), path)
    with pytest.raises(DataError, match="the log has version '3', but this program reads version '2'"):
        open_log(folder)


def test_what_needs_no_files_loads_no_database() -> None:
    """`import rankloop` and statistics in memory must not wait for ibis."""
    code = (
        "import sys, rankloop.logs; from rankloop.statistics import Exposure, Statistics, of_impressions; "
        "assert not {'ibis', 'duckdb', 'pyarrow', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
