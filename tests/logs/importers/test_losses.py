"""The limit on what an import may leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, ImportLossError, ImportOptions, import_columns, import_metarank
from tests.logs.importers.reading import counts, rows_of
from tests.logs.importers.test_metarank import ranking

HEADER = "session_id,query,timestamp,position,doc_id,clicked\n"
NAMES = Columns.parse("impression_id=session_id, query_id=query")


def sessions(folder: Path) -> Path:
    """A table in which every session searches twice, and one of them once."""
    rows = [
        f"s{session},{query},{1_700_000_000 + 60 * number},{position},{query}{position},0"
        for session in range(5)
        for number, query in enumerate(("cat", "dog"))
        for position in (1, 2)
    ]
    rows += [f"last,cat,1700000000,{position},d{position},1" for position in (1, 2)]
    path = folder / "table.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_sessions_that_were_taken_for_impressions_are_refused(tmp_path: Path) -> None:
    """Nothing is written, and the message says what the id looks like and how to fix it."""
    with pytest.raises(ImportLossError) as caught:
        import_columns(sessions(tmp_path), tmp_path / "log", columns=NAMES, policy="a")
    text = str(caught.value)
    assert "20 of 22 rows of shown documents (90.9%) would be left out" in text
    assert "5 of 6 impression ids hold several queries or policies: this looks like a session id" in text
    assert "--impression session_id,query,timestamp" in text
    assert "--max-loss 0.91" in text
    assert not (tmp_path / "log").exists()
    assert caught.value.report.rows == 2


def test_several_columns_make_an_impression(tmp_path: Path) -> None:
    names = NAMES.identified_by("session_id, query, timestamp")
    report = import_columns(sessions(tmp_path), tmp_path / "log", columns=names, policy="a")
    assert (report.impressions, report.rows, report.problems) == (11, 22, ())
    assert rows_of(report.log)[0]["impression_id"] == "s0|cat|1700000000"


def test_values_with_the_separator_are_told_apart(tmp_path: Path) -> None:
    """Three pairs of values that a plain join would mix up, in text and in Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {
        "a": ["x|y", "x", "x\\"],
        "b": ["z", "y|z", "|z"],
        "query_id": ["q"] * 3,
        "position": [1] * 3,
        "doc_id": ["d"] * 3,
        "clicked": [True] * 3,
        "timestamp": pa.nulls(3, pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    lines = [
        "a,b,query_id,position,doc_id,clicked,timestamp",
        "x|y,z,q,1,d,1,",
        "x,y|z,q,1,d,1,",
        "x\\,|z,q,1,d,1,",
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    names = Columns().identified_by("a,b")
    ids = []
    for ending in ("parquet", "csv"):
        source, log = tmp_path / f"table.{ending}", tmp_path / ending
        report = import_columns(source, log, columns=names, policy="p")
        assert report.impressions == 3
        ids.append({row["impression_id"] for row in rows_of(log)})
    assert ids[0] == ids[1]


def test_the_limit_can_be_raised(tmp_path: Path) -> None:
    options = ImportOptions(max_loss=0.95)
    report = import_columns(sessions(tmp_path), tmp_path / "log", columns=NAMES, policy="a", options=options)
    assert report.rows == 2
    assert report.losses[0].share == 20 / 22
    assert any("looks like a session id" in hint for hint in report.notes)
    with pytest.raises(DataError, match="max_loss must be a share between 0 and 1, got 10"):
        ImportOptions(max_loss=10)


def test_losses_are_measured_by_kind_of_record(tmp_path: Path) -> None:
    """Half of the rankings are broken; with ten rows each and many items they are few of all lines."""
    items = [{"id": f"d{i}"} for i in range(10)]
    events = [ranking(n, items=items) for n in range(4)] + [ranking(n, items="") for n in range(4, 8)]
    others = [{"event": "user"}] * 100
    from tests.logs.importers.reading import write_lines

    source = write_lines(tmp_path / "events.jsonl", [*events, *others])
    with pytest.raises(ImportLossError, match=r"4 of 8 ranking events \(50.0%\) would be left out"):
        import_metarank(source, tmp_path / "log")


def test_randomised_rows_become_a_policy(tmp_path: Path) -> None:
    from rankloop.offline import open_log

    (tmp_path / "table.csv").write_text(
        "impression_id,query_id,position,doc_id,clicked,random_bool\n"
        "i,q,1,x,1,0\ni,q,2,y,0,0\nj,q,1,y,0,1\nj,q,2,x,0,1\n"
    )
    columns = Columns.parse("randomised=random_bool, timestamp=-")
    report = import_columns(tmp_path / "table.csv", tmp_path / "log", columns=columns, policy="live")
    assert {row["impression_id"]: row["policy_id"] for row in rows_of(report.log)} == {
        "i": "live",
        "j": "live-randomised",
    }
    assert report.randomised == open_log(report.log).randomised == ("live-randomised",)
    plain = Columns.parse("timestamp=-, randomised=-")
    declared = ImportOptions(randomised=("live",), overwrite=True)
    report = import_columns(
        tmp_path / "table.csv", tmp_path / "log", columns=plain, policy="live", options=declared
    )
    assert open_log(report.log).randomised == ("live",)
    wrong = ImportOptions(randomised=("test",), overwrite=True)
    with pytest.raises(DataError, match="'test' cannot be randomised: the policies of the log are 'live'"):
        import_columns(tmp_path / "table.csv", tmp_path / "log", columns=plain, policy="live", options=wrong)


def test_a_column_of_amounts(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(
        "impression_id,query_id,position,doc_id,clicked,gain\ni,q,1,x,1,5\ni,q,2,y,0,\n"
    )
    columns = Columns.parse("amount=gain, timestamp=-")
    report = import_columns(tmp_path / "table.csv", tmp_path / "log", columns=columns, policy="a")
    assert [(row["clicked"], row["amount"]) for row in rows_of(report.log)] == [(True, 5.0), (False, 0.0)]
    assert counts(report) == {}


def test_two_policies_in_an_impression_are_counted(tmp_path: Path) -> None:
    """However many there are: the column is not set aside without a word."""
    lines = ["impression_id,query_id,policy_id,position,doc_id,clicked"]
    for number in range(6):
        lines += [f"i{number},q{number % 2},{'ab'[k * number % 2]},{k + 1},d{k},{k}" for k in range(2)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    report = import_columns(tmp_path / "t.csv", tmp_path / "log", options=ImportOptions(max_loss=1.0))
    assert (counts(report), report.impressions) == ({"mixed_impressions": 3}, 3)
