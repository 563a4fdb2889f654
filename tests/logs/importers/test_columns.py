"""Tables with arbitrary column names, in all formats; positions from 0 and from 1; real clicks."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, ImportOptions, import_columns
from rankloop.offline import open_log
from tests.logs.importers.reading import counts, examples, rows_of, shown, write_lines

pytestmark = pytest.mark.usefixtures("any_loss")

NAMES = Columns(
    impression_id="session",
    timestamp="when",
    query_id="text",
    policy_id="ranker",
    position="rank",
    doc_id="sku",
)
TABLE: dict[str, list[Any]] = {
    "session": ["i", "i", "j", "j"],
    "when": ["2024-05-01T12:00:00"] * 2 + ["2024-05-01T12:00:01"] * 2,
    "text": ["cat", "cat", "dog", "dog"],
    "ranker": ["a", "a", "b", "b"],
    "rank": [1, 2, 1, 2],
    "sku": ["007", "8", "9", "8"],
    "clicked": [0, 1, 1, 0],
}
SHOWN = [
    ("i", "cat", "a", 1, "007", False),
    ("i", "cat", "a", 2, "8", True),
    ("j", "dog", "b", 1, "9", True),
    ("j", "dog", "b", 2, "8", False),
]


def write(path: Path, table: dict[str, list[Any]]) -> Path:
    if path.suffix == ".csv":
        pa.csv.write_csv(pa.table(table), path)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    else:
        write_lines(path, [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)])
    return path


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_format(tmp_path: Path, ending: str) -> None:
    report = import_columns(write(tmp_path / f"t.{ending}", TABLE), tmp_path / "log", columns=NAMES)
    assert shown(report.log) == SHOWN
    assert [row["timestamp"].second for row in rows_of(report.log)] == [0, 0, 1, 1]
    assert report.problems == ()
    assert report.position_base == 1
    assert open_log(report.log).starts


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("said", [False, True])
def test_positions_from_0_and_from_1(tmp_path: Path, ending: str, base: int, said: bool) -> None:
    table = TABLE | {"rank": [position - 1 + base for position in TABLE["rank"]]}
    options = ImportOptions(position_base=base if said else None)
    path = write(tmp_path / f"t.{ending}", table)
    report = import_columns(path, tmp_path / "log", columns=NAMES, options=options)
    assert shown(report.log) == SHOWN
    assert report.position_base == base


def test_mixed_position_bases_are_rejected_unless_one_is_given(tmp_path: Path) -> None:
    table = TABLE | {"rank": [0, 1, 1, 2]}
    path = write(tmp_path / "t.csv", table)
    with pytest.raises(
        DataError,
        match=r"count from 0 in 1 impressions \(such as .*t.csv, line 2\) and from 1 in 1 impressions "
        r"\(such as .*t.csv, line 4\): say which is right \(--position-base 0",
    ):
        import_columns(path, tmp_path / "log", columns=NAMES)
    assert not (tmp_path / "log").exists()
    report = import_columns(path, tmp_path / "log", columns=NAMES, options=ImportOptions(position_base=0))
    assert [row[3] for row in shown(report.log)] == [1, 2, 2, 3]
    assert counts(report) == {"missing_positions": 1}
    assert not open_log(report.log).starts
    assert open_log(report.log).count().impressions_by_policy.sum() == 2


def test_positions_before_the_first_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TABLE | {"rank": [0, 1, 1, 2]})
    report = import_columns(path, tmp_path / "log", columns=NAMES, options=ImportOptions(position_base=1))
    assert counts(report) == {"bad_positions": 1}
    assert report.rows == 3


def test_positions_that_begin_late_need_a_base(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TABLE | {"rank": [11, 12, 11, 12]})
    with pytest.raises(DataError, match="positions begin at 11 in 2 impressions"):
        import_columns(path, tmp_path / "log", columns=NAMES)


def test_no_times_and_one_policy(tmp_path: Path, ending: str) -> None:
    names = ("session", "text", "rank", "sku", "clicked")
    path = write(tmp_path / f"t.{ending}", {name: TABLE[name] for name in names})
    columns = Columns.parse("impression_id=session, query_id=text, position=rank, doc_id=sku, timestamp=-")
    report = import_columns(path, tmp_path / "log", columns=columns, policy="only")
    assert [row[2] for row in shown(report.log)] == ["only"] * 4
    assert {row["timestamp"] for row in rows_of(report.log)} == {None}
    assert report.problems == ()


def test_only_some_rows(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"t.{ending}", TABLE | {"split": ["train", "train", "test", "test"]})
    report = import_columns(path, tmp_path / "log", columns=NAMES, only={"split": "train"})
    assert shown(report.log) == SHOWN[:2]
    assert report.aside == {"rows where split is not 'train'": 2}


def test_a_separate_table_of_clicks(tmp_path: Path, ending: str) -> None:
    table = {name: values for name, values in TABLE.items() if name != "clicked"}
    clicks = {
        "session": ["i", "i", "k"],
        "sku": ["8", "5", "8"],
        "when": [1_714_564_860] * 3,
        "rank": [2, 1, 1],
    }
    report = import_columns(
        write(tmp_path / f"t.{ending}", table),
        tmp_path / "log",
        columns=NAMES,
        clicks=write(tmp_path / f"c.{ending}", clicks),
    )
    assert [row[4] for row in shown(report.log) if row[-1]] == ["8"]
    assert counts(report) == {"clicks_without_impression": 1, "clicks_not_shown": 1}


def test_candidates_and_features(tmp_path: Path, ending: str) -> None:
    candidates = {"ranker": ["a", "a"], "text": ["cat", "cat"], "sku": ["007", "8"], "score": [0.5, 1.5]}
    features = tmp_path / "features.csv"
    features.write_text("query_id,doc_id,f\ncat,007,1\ncat,8,2\n")
    report = import_columns(
        write(tmp_path / f"t.{ending}", TABLE),
        tmp_path / "log",
        columns=NAMES,
        candidates=write(tmp_path / f"c.{ending}", candidates),
        options=ImportOptions(features=features),
    )
    assert [(row["doc_id"], row["score"]) for row in rows_of(report.log, "candidates")] == [
        ("007", 0.5),
        ("8", 1.5),
    ]
    assert (report.candidates, report.features) == (2, 2)
    assert open_log(report.log).tables == ("impressions", "candidates", "features")


def test_bad_features_leave_no_log_behind(tmp_path: Path) -> None:
    features = tmp_path / "features.csv"
    features.write_text("query_id,doc_id,f\ncat,8,1\ncat,007,inf\n")
    with pytest.raises(DataError, match="feature 'f' is inf"):
        import_columns(
            write(tmp_path / "t.csv", TABLE),
            tmp_path / "log",
            columns=NAMES,
            options=ImportOptions(features=features),
        )
    assert sorted(child.name for child in tmp_path.iterdir()) == ["features.csv", "t.csv"]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("session", None, "no session"),
        ("sku", None, "no sku"),
        ("text", None, "no text"),
        ("ranker", None, "no ranker"),
        ("rank", None, "no rank"),
        ("clicked", None, "no clicked"),
        ("rank", "top", "rank is 'top'; expected a whole number"),
        ("rank", "10000000000", "rank is .*10000000000'?; expected a whole number"),
        ("clicked", "-1", "clicked is '?-1'?; expected true, false or a number of clicks"),
        ("when", "noon", "when is 'noon'; expected ISO 8601"),
    ],
)
def test_rows_that_cannot_be_read_are_broken_lines(
    tmp_path: Path, ending: str, column: str, value: str | None, reason: str
) -> None:
    values = [str(v) for v in TABLE[column]]
    path = write(tmp_path / f"t.{ending}", TABLE | {column: [*values[:2], value, values[3]]})  # type: ignore[list-item]
    report = import_columns(path, tmp_path / "log", columns=NAMES)
    assert report.rows == 3
    assert report.problems[0].name == "broken_lines"
    (example,) = examples(report, "broken_lines")
    place = {"csv": "line 4", "jsonl": "line 3", "parquet": "row 3"}[ending]
    assert example.startswith(f"{path}, {place}: ")
    assert re.search(reason, example)


@pytest.mark.parametrize(
    ("column", "value"), [("rank", -1), ("rank", 10**12), ("clicked", -1), ("rank", None), ("sku", None)]
)
def test_parquet_columns_are_validated(tmp_path: Path, column: str, value: int | None) -> None:
    """Columns of the right types go the fast way: what it cannot take must still be counted."""
    table = TABLE | {"when": pa.array([1, 2, 3, 4], pa.timestamp("s"))}
    table[column] = [*TABLE[column][:3], value]  # type: ignore[list-item]
    path = write(tmp_path / "t.parquet", table)
    options = ImportOptions(position_base=1)
    report = import_columns(path, tmp_path / "log", columns=NAMES, options=options)
    assert report.rows == 3
    assert sum(problem.left_out for problem in report.problems) == 1


@pytest.mark.parametrize("way", ["fast", "slow"])
@pytest.mark.parametrize(
    "changes",
    [
        {"when": pa.array([1, 1, 2, 2], pa.timestamp("ns"))},
        {"when": pa.array([1, 1, 2, 2], pa.date32())},
        {"rank": pa.array([1, 2, 1, 2]).cast(pa.decimal128(38, 0))},
        {"clicked": [0.0, 1.0, 3.0, 0.0]},
        {"clicked": ["no", "yes", "true", "0"]},
        {"clicked": [False, True, True, False]},
        {"sku": pa.array(TABLE["sku"], pa.string_view())},
        {"text": pa.array(TABLE["text"]).dictionary_encode()},
    ],
)
def test_other_types_of_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, changes: dict[str, Any]
) -> None:
    from rankloop.logs.importers import columns as module

    if way == "slow":
        monkeypatch.setattr(module.ImpressionReader, "staged", lambda *_: None)
    table = TABLE | {"when": pa.array([1, 1, 2, 2], pa.timestamp("us"))} | changes
    report = import_columns(write(tmp_path / "t.parquet", table), tmp_path / "log", columns=NAMES)
    assert shown(report.log) == SHOWN
    assert report.problems == ()


def test_times_after_the_last_year_are_rejected(tmp_path: Path) -> None:
    table = TABLE | {"when": pa.array([1, 2, 3, 2**50], pa.timestamp("s"))}
    with pytest.raises(DataError, match=r"t.parquet, rows 1 to 4: a value is out of range in Python"):
        import_columns(write(tmp_path / "t.parquet", table), tmp_path / "log", columns=NAMES)


def test_an_empty_id_is_missing_in_every_format(tmp_path: Path, ending: str) -> None:
    table = TABLE | {"sku": ["007", "", "9", "8"], "when": pa.array([1, 1, 2, 2], pa.timestamp("us"))}
    if ending == "jsonl":
        table["when"] = [1, 1, 2, 2]
    report = import_columns(write(tmp_path / f"t.{ending}", table), tmp_path / "log", columns=NAMES)
    assert counts(report) == {"broken_lines": 1}
    assert "no sku" in examples(report, "broken_lines")[0]


@pytest.mark.parametrize("clicked", [[0, 1, 1, 0], ["0", "1", "1", "0"]])
def test_rows_are_chosen_by_true_and_false_too(tmp_path: Path, ending: str, clicked: list[Any]) -> None:
    table = TABLE | {"train": [True, True, False, False], "clicked": clicked}
    report = import_columns(
        write(tmp_path / f"t.{ending}", table), tmp_path / "log", columns=NAMES, only={"train": "true"}
    )
    assert shown(report.log) == SHOWN[:2]
    assert report.aside == {"rows where train is not 'true'": 2}


def test_an_import_without_matching_rows_fails(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"t.{ending}", TABLE)
    with pytest.raises(DataError, match=r"no impression could be read: 4 rows where text is not 'cow': set"):
        import_columns(path, tmp_path / "log", columns=NAMES, only={"text": "cow"})


def test_documents_without_features_are_counted_with_their_place(tmp_path: Path) -> None:
    features = tmp_path / "features.csv"
    features.write_text("query_id,doc_id,f\ncat,007,1\ncat,8,2\ndog,8,3\n")
    candidates = {"ranker": ["b"], "text": ["dog"], "sku": ["10"], "score": [0.5]}
    path = write(tmp_path / "t.csv", TABLE)
    more = write(tmp_path / "c.csv", candidates)
    options = ImportOptions(features=features)
    report = import_columns(path, tmp_path / "log", columns=NAMES, candidates=more, options=options)
    assert counts(report) == {"missing_features": 2}
    assert examples(report, "missing_features") == (
        f"{path}, line 4: query 'dog', doc '9'",
        f"{more}, line 2: query 'dog', doc '10'",
    )
    assert report.problems[0].left_out == 0
    with pytest.raises(DataError, match="strict import failed: 2 documents without features"):
        import_columns(
            path,
            tmp_path / "other",
            columns=NAMES,
            candidates=more,
            options=ImportOptions(features=features, strict=True),
        )
    assert not (tmp_path / "other").exists()


def test_features_given_twice_are_rejected(tmp_path: Path) -> None:
    features = tmp_path / "features.csv"
    features.write_text("query_id,doc_id,f\ncat,007,1\ncat,8,2\ncat,007,1\n")
    with pytest.raises(DataError, match=r"features.csv: 2 rows for query 'cat', document '007'"):
        import_columns(
            write(tmp_path / "t.csv", TABLE),
            tmp_path / "log",
            columns=NAMES,
            options=ImportOptions(features=features),
        )
    assert not (tmp_path / "log").exists()


def test_the_fast_path_for_parquet_gives_the_same_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankloop.logs.importers import columns as module

    rng = np.random.default_rng(0)
    table: dict[str, Any] = {
        "session": rng.integers(0, 300, 2000),
        "when": pa.array(rng.integers(0, 10**9, 2000), pa.timestamp("ms")),
        "text": pa.array(rng.choice(["cat", "dog"], 2000).tolist()).dictionary_encode(),
        "ranker": ["a"] * 2000,
        "rank": rng.integers(1, 9, 2000),
        "sku": rng.integers(0, 12, 2000),
        "clicked": rng.random(2000) < 0.3,
        "kind": rng.integers(0, 2, 2000),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(table), path, row_group_size=300)
    fast = import_columns(path, tmp_path / "fast", columns=NAMES, only={"kind": "1"})
    monkeypatch.setattr(module.ImpressionReader, "staged", lambda *_: None)
    slow = import_columns(path, tmp_path / "slow", columns=NAMES, only={"kind": "1"})
    assert shown(fast.log) == shown(slow.log)
    assert rows_of(fast.log) == rows_of(slow.log)
    assert fast.problems == slow.problems
    assert fast.aside == slow.aside
    assert {problem.name for problem in fast.problems} >= {"mixed_impressions", "repeated_positions"}


def test_missing_columns_are_rejected(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        path = write(tmp_path / f"t.{ending}", TABLE)
        with pytest.raises(
            DataError,
            match=r"the column 'query' is missing; a table of impressions has .*session, when, text",
        ):
            import_columns(path, tmp_path / "log", columns=Columns(**(vars(NAMES) | {"query_id": "query"})))
    path = write(tmp_path / "t.jsonl", TABLE)
    with pytest.raises(DataError, match=r"no impression could be read: 4 lines .*line 1: no query"):
        import_columns(path, tmp_path / "log", columns=Columns(**(vars(NAMES) | {"query_id": "query"})))


def test_invalid_options_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TABLE)
    with pytest.raises(DataError, match="the rows have no clicks"):
        import_columns(path, tmp_path / "log", columns=Columns.parse("clicked=-"), policy="a")
    with pytest.raises(DataError, match="position_base must be 0, 1 or None, got 2"):
        ImportOptions(position_base=2)
    for text, message in (
        ("query=text", "cannot parse 'query=text': expected column=name with one of impression_id"),
        ("query_id", "cannot parse 'query_id'"),
        ("doc_id=-", "the column doc_id is required"),
    ):
        with pytest.raises(DataError, match=message):
            Columns.parse(text)


def test_real_clicks(tmp_path: Path, real_data: Path) -> None:
    """A part of the WSCD 2012 sample; the whole is 565,000 rows and only slower."""
    with gzip.open(real_data / "clicks-yandex" / "impressions.csv.gz", "rt") as file:
        lines = [next(file) for _ in range(30_001)]
    path = tmp_path / "impressions.csv.gz"
    path.write_bytes(gzip.compress("".join(lines).encode()))
    columns = Columns(timestamp=None)
    report = import_columns(path, tmp_path / "log", columns=columns, policy="yandex", only={"split": "train"})
    rows = [
        dict(zip(lines[0].strip().split(","), line.strip().split(","), strict=True)) for line in lines[1:]
    ]
    train = [row for row in rows if row["split"] == "train"]
    assert report.problems == ()
    assert report.rows == len(train)
    assert report.clicks == sum(row["clicked"] == "1" for row in train)
    assert report.impressions == len({row["impression_id"] for row in train})
    counted = open_log(report.log).count()
    assert counted.n_documents == len({(row["query_id"], row["doc_id"]) for row in train})
    by_rank = [sum(row["position"] == str(k) for row in train) for k in range(1, 11)]
    assert counted.displays_by_position.sum(axis=0).tolist() == by_rank
    assert json.loads((report.log / "import.json").read_text())["rows"] == report.rows
