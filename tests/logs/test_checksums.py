"""Damage in the files of a log is noticed when the log is opened."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import rankloop
from rankloop.errors import DataError
from rankloop.logs import ImportOptions, import_columns

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [f"i{n},{n},q{n % 3},a,{n % 2 + 1},d{n % 5},{n % 2}" for n in range(40)]
    (tmp_path / "rows.csv").write_text(HEADER + "\n".join(rows) + "\n")
    features = [f"d{n},{n}.5,{n * n}" for n in range(5)]
    (tmp_path / "features.csv").write_text("doc_id,price,age\n" + "\n".join(features) + "\n")
    import_columns(
        tmp_path / "rows.csv", tmp_path / "log", options=ImportOptions(features=tmp_path / "features.csv")
    )
    return tmp_path / "log"


@pytest.mark.parametrize("table", ["features", "impressions"])
def test_flipped_bits_are_noticed(log: Path, table: str) -> None:
    """Before: 240 of 279 flipped bits in ``features.parquet`` were read as other values."""
    path, chosen = log / f"{table}.parquet", random.Random(18)
    whole = path.read_bytes()
    for _ in range(50):
        damaged = bytearray(whole)
        damaged[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=rf"{table}\.parquet is damaged, or was changed .*: its checksum"):
            rankloop.open_log(log)
    path.write_bytes(whole)
    rankloop.open_log(log)


def test_a_missing_table_is_noticed(log: Path) -> None:
    (log / "features.parquet").unlink()
    with pytest.raises(DataError, match=r"features\.parquet is missing"):
        rankloop.open_log(log)


def test_a_log_that_was_changed_on_purpose(log: Path) -> None:
    (log / "checksums.json").unlink()
    (log / "features.parquet").unlink()
    assert rankloop.open_log(log).tables == ("impressions",)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": "2", "files": {}}',
        b'{"version": "1", "files": {"../secret": {}}}',
        b'{"version": "1", "files": {"features.parquet/../../secret": {}}}',
        b'{"version": "1", "files": {"/etc/passwd": {}}}',
        b'{"version": "1", "files": 3}',
    ],
)
def test_damaged_checksums(log: Path, content: bytes) -> None:
    (log / "checksums.json").write_bytes(content)
    with pytest.raises(DataError, match=r"checksums\.json is damaged"):
        rankloop.open_log(log)


def test_an_appended_log_has_new_checksums(log: Path, tmp_path: Path) -> None:
    before = json.loads((log / "checksums.json").read_text())
    (tmp_path / "more.csv").write_text(HEADER + "j,99,q0,a,1,d0,1\n")
    import_columns(tmp_path / "more.csv", log, options=ImportOptions(append=True))
    after = json.loads((log / "checksums.json").read_text())
    assert set(after["files"]) == set(before["files"]) == {"features.parquet", "impressions.parquet"}
    assert after["files"]["impressions.parquet"] != before["files"]["impressions.parquet"]
    rankloop.open_log(log)
