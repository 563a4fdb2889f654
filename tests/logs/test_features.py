"""Features in the order of the statistics, and what is wrong with tables of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import LogWriter, write_simulated
from rankloop.logs.features import copy_features, why_unusable
from rankloop.offline import open_log
from tests.logs.logs_of import Row, simulated, write_rows

ROWS = [
    Row("i", "q", "a", 1, "x", True),
    Row("i", "q", "a", 2, "y", False),
    Row("j", "1:q", "a", 1, "x", False),
]
TABLE = {"query_id": ["q", "1:q", "q", "q"], "doc_id": ["y", "x", "x", "unknown"]}
COLUMNS = {"age": [1, 2, 3, 4], "price": [0.5, 1.5, 2.5, np.nan], "new": [True, False, True, False]}
# A log has impressions, whatever else.
IMPRESSION = {
    "impression_id": ["i"],
    "timestamp": [None],
    "query_id": ["q"],
    "policy_id": ["a"],
    "position": [1],
    "doc_id": ["x"],
    "clicked": [True],
}
# Documents are (1:q, x), (q, x), (q, y).
EXPECTED = [[2, 1.5, 0], [3, 2.5, 1], [1, 0.5, 1]]


def log_with(folder: Path, features: dict[str, Any]) -> Path:
    write_rows(folder, ROWS)
    pq.write_table(pa.table(features), folder / "features.parquet")
    return folder


@pytest.mark.parametrize("vector", [False, True])
def test_features_are_in_the_order_of_the_documents(tmp_path: Path, vector: bool) -> None:
    """Rows of other documents are not looked at, wrong as they may be."""
    features: dict[str, Any] = COLUMNS
    if vector:
        features = {"anything": [list(map(float, row)) for row in zip(*COLUMNS.values(), strict=True)]}
    log = open_log(log_with(tmp_path / "log", TABLE | features))
    split = log.split()
    assert split.features.tolist() == EXPECTED
    assert split.features.dtype == np.float32
    assert split.query_ids.tolist() == ["1:q", "q"]
    assert split.offsets.tolist() == [0, 1, 3]
    assert split.labels.tolist() == [0, 0, 0]


def test_a_simulated_log_gives_its_split_back(tmp_path: Path) -> None:
    split, gathered = simulated()
    log = open_log(write_simulated(tmp_path / "log", split, gathered))
    back = log.split()
    np.testing.assert_array_equal(back.features, split.features)
    np.testing.assert_array_equal(back.offsets, split.offsets)
    assert split.doc_ids is not None
    assert back.doc_ids is not None
    assert back.doc_ids.tolist() == split.doc_ids.tolist()
    without = write_simulated(tmp_path / "other", split, gathered, features=False)
    with pytest.raises(DataError, match=r"the log has no features.parquet"):
        open_log(without).split()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": ["y", "x", "z", "z"]}, r"no features for query 'q', document 'x' \(1 of 3 documents"),
        (
            {"query_id": ["none"] * 4},
            r"none of the log's 3 documents has features \(such as query '1:q', document 'x'\)",
        ),
        (
            {"doc_id": ["y", "x", "x", "x"], "price": [1.0] * 4},
            "more than one row for query 'q', document 'x'",
        ),
        ({"price": [0.5, np.nan, 2.5, 1.0]}, "query '1:q', document 'x': feature 'price' is missing"),
        ({"price": [np.inf, 0.0, 2.5, 1.0]}, "query 'q', document 'y': feature 'price' is inf"),
        ({"price": [1e300, 0.0, 2.5, 1.0]}, "query 'q', document 'y': feature 'price' is inf"),
        ({"age": [1, None, 3, 4]}, "query '1:q', document 'x': feature 'age' is missing"),
        ({"new": [True, None, True, False]}, "query '1:q', document 'x': feature 'new' is missing"),
    ],
)
def test_features_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    log = open_log(log_with(tmp_path / "log", TABLE | COLUMNS | changes))
    with pytest.raises(DataError, match=f"features.parquet: {message}"):
        log.split()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"colour": [b"red"] * 4}, "the feature 'colour' holds binary; expected numbers"),
        ({}, "there are no columns of features, only query_id, doc_id"),
        ({"v": [["red"]] * 4}, "the vectors in 'v' hold string; expected numbers"),
        ({"query_id": [0.5] * 4, "v": [1] * 4}, "the column 'query_id' holds double"),
    ],
)
def test_tables_that_hold_no_features_are_refused(
    tmp_path: Path, features: dict[str, Any], message: str
) -> None:
    folder = log_with(tmp_path / "log", TABLE | features)
    with pytest.raises(DataError, match=f"features.parquet: {message}"):
        open_log(folder)


def test_vectors_of_different_lengths_are_refused(tmp_path: Path) -> None:
    features = {"v": [[1.0, 2.0], [1.0], [1.0, 2.0], [1.0, 2.0]]}
    log = open_log(log_with(tmp_path / "log", TABLE | features))
    with pytest.raises(DataError, match="document 'x': a vector of 1 features, but others have 2"):
        log.split()
    parts = tmp_path / "parts"
    write_rows(parts, ROWS)
    (parts / "features.parquet").mkdir()
    for number, width in enumerate((2, 3)):
        part = {name: values[2 * number : 2 * number + 2] for name, values in TABLE.items()}
        vectors = pa.array([[1.0] * width] * 2)
        pq.write_table(pa.table(part | {"v": vectors}), parts / "features.parquet" / f"{number}.parquet")
    with pytest.raises(DataError, match=r"1.parquet: 3 features, but other rows have 2"):
        open_log(parts).split()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_tables_are_copied_with_their_names(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"table.{ending}"
    table = pa.table(TABLE | COLUMNS | {"doc_id": ["007", "8", "9", "10"], "price": [0.5, 1.5, 2.5, 3.5]})
    if ending == "csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    with LogWriter(tmp_path / "log") as writer:
        writer.write("impressions", IMPRESSION)
        ids = pa.concat_tables(copy_features(path, writer)).to_pydict()
    assert ids == TABLE | {"doc_id": ["007", "8", "9", "10"]}
    copied = pq.read_table(tmp_path / "log" / "features.parquet").to_pydict()
    assert copied["doc_id"] == ["007", "8", "9", "10"]
    assert [copied[name][0] for name in COLUMNS] == [1, 0.5, 1]
    assert list(copied) == ["query_id", "doc_id", *COLUMNS]


def test_copies_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for text, message in (
        ("query_id,doc_id,f\nq,x,1\nq,y,inf\n", "table.csv: query 'q', document 'y': feature 'f' is inf"),
        ("query_id,doc_id,f\nq,x,1\nq,y\n", "table.csv: the features cannot be read"),
        ("query_id,doc_id,f\n", "table.csv: the table has no rows of features"),
        ("query_id,doc_id,f\nq,x,2024-05-31\n", "table.csv: the feature 'f' holds date32"),
        ("query,doc_id,f\nq,x,1\n", "the column 'query_id' is missing"),
        ("", "table.csv: the features cannot be read as CSV: Empty CSV file"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message), LogWriter(tmp_path / "log") as writer:
            list(copy_features(path, writer))
        assert not (tmp_path / "log").exists()
    nameless = tmp_path / "table.parquet"
    pq.write_table(pa.table({"query_id": ["q", None], "doc_id": ["x", "y"], "f": [1, 2]}), nameless)
    with (
        pytest.raises(DataError, match=r"table.parquet, row 2: no query_id"),
        LogWriter(tmp_path / "log") as w,
    ):
        list(copy_features(nameless, w))


def test_fractions_far_down_are_read(tmp_path: Path) -> None:
    """Types of CSV are told by the first million bytes: what looks whole there may have fractions later."""
    path, rows = tmp_path / "table.csv", 60_000
    lines = [f"q,{number:020d},7\n" for number in range(rows)]
    path.write_text("query_id,doc_id,f\n" + "".join(lines) + "q,last,0.5\n")
    assert path.stat().st_size > 1.5e6
    with LogWriter(tmp_path / "log") as writer:
        writer.write("impressions", IMPRESSION)
        assert sum(len(ids) for ids in copy_features(path, writer)) == rows + 1
    assert pq.read_table(tmp_path / "log" / "features.parquet")["f"][-1].as_py() == 0.5


def test_why_features_cannot_be_used(tmp_path: Path) -> None:
    """Missing ones are counted elsewhere."""
    for name, changes, message in (
        ("good", {}, None),
        ("missing", {"doc_id": ["y", "x", "z", "z"]}, None),
        ("nan", {"price": [0.5, np.nan, 2.5, 1.0]}, None),
        ("inf", {"price": [0.5, np.inf, 2.5, 1.0]}, "document 'x': feature 'price' is inf"),
        ("twice", {"doc_id": ["y", "x", "x", "x"], "price": [1.0] * 4}, "more than one row for query 'q'"),
    ):
        log = open_log(log_with(tmp_path / name, TABLE | COLUMNS | changes))
        why = why_unusable(log, log.count())
        assert why is None if message is None else message in str(why)
