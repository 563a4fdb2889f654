"""Adding to a log: the same as importing everything at once, and never less than the log had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import ImportLossError, ImportOptions, ImportReport, import_columns
from tests.logs.importers.reading import counts, rows_of, shown

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked\n"
APPEND = ImportOptions(append=True)


def day(folder: Path, number: int, impressions: range, query: str = "cat") -> Path:
    path = folder / f"day{number}.csv"
    rows = [
        f"i{i},2024-05-{number:02}T12:00:00Z,{query},a,{position},d{position},{int(position == 2)}"
        for i in impressions
        for position in (1, 2)
    ]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def append(source: Path, log: Path, **options: Any) -> ImportReport:
    return import_columns(source, log, options=ImportOptions(append=True, **options))


def test_days_that_are_added_equal_one_import(tmp_path: Path) -> None:
    days = [day(tmp_path, 1, range(10)), day(tmp_path, 2, range(10, 20)), day(tmp_path, 3, range(20, 25))]
    for source in days:
        report = append(source, tmp_path / "log")
    once = import_columns(days, tmp_path / "once")
    assert shown(tmp_path / "log") == shown(tmp_path / "once")
    assert rows_of(tmp_path / "log") == rows_of(tmp_path / "once")
    assert (report.impressions, report.rows, report.clicks) == (once.impressions, once.rows, once.clicks)
    assert report.read == once.read
    assert report.sources == once.sources
    assert (report.imports, once.imports) == (3, 1)
    assert report.problems == ()
    stored = ImportReport.read_file(tmp_path / "log" / "import.json")
    assert stored is not None
    assert stored == report


def test_a_file_that_is_added_twice_changes_nothing(tmp_path: Path) -> None:
    source = day(tmp_path, 1, range(10))
    first = append(source, tmp_path / "log")
    before = rows_of(tmp_path / "log")
    again = append(source, tmp_path / "log")
    assert rows_of(tmp_path / "log") == before
    assert counts(again) == {"duplicate_rows": 20}
    assert again.rows == first.rows == 20


def test_problems_add_up(tmp_path: Path) -> None:
    first, second = day(tmp_path, 1, range(30)), day(tmp_path, 2, range(30, 60))
    for source in (first, second):
        source.write_text(source.read_text() + "broken\nx,,cat,a,2,d2,0\n")
    append(first, tmp_path / "log")
    # The impression with a gap is in the log already, and is counted once.
    assert counts(append(second, tmp_path / "log")) == {
        "broken_lines": 2,
        "duplicate_rows": 1,
        "missing_positions": 1,
        "missing_times": 1,
    }


def test_ids_that_are_used_again_do_not_harm_the_log(tmp_path: Path) -> None:
    """Files that count their impressions from 0 again contradict the log, which keeps what it has."""
    append(day(tmp_path, 1, range(10)), tmp_path / "log")
    before = rows_of(tmp_path / "log")
    other = day(tmp_path, 2, range(10), query="dog")
    with pytest.raises(ImportLossError, match="10 impression ids are in the log already with other content"):
        append(other, tmp_path / "log")
    assert rows_of(tmp_path / "log") == before
    report = append(other, tmp_path / "log", max_loss=1.0)
    assert rows_of(tmp_path / "log") == before
    assert counts(report) == {"conflicting_impressions": 10}
    assert report.problems[0].left_out == 20


def test_late_clicks_reach_their_impressions(tmp_path: Path) -> None:
    log, table = tmp_path / "log", day(tmp_path, 1, range(2))
    clicks = tmp_path / "clicks.csv"
    clicks.write_text("impression_id,doc_id,timestamp\ni0,d1,2024-05-01T12:00:05Z\n")
    import_columns(table, log, clicks=clicks, options=APPEND)
    more = day(tmp_path, 2, range(2, 3))
    clicks.write_text("impression_id,doc_id,timestamp\ni1,d1,2024-05-01T23:59:59Z\n")
    report = import_columns(more, log, clicks=clicks, options=APPEND)
    assert [(row[0], row[4]) for row in shown(log) if row[-1]] == [("i0", "d1"), ("i1", "d1")]
    assert report.problems == ()


def test_a_failed_import_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    append(day(tmp_path, 1, range(3)), tmp_path / "log")
    before = {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    bad = tmp_path / "bad.csv"
    bad.write_text(HEADER + "i9,noon,cat,a,1,x,0\n" * 5 + "i8,,cat,a,1,x,0\n")
    for options in (ImportOptions(append=True, strict=True), APPEND):
        with pytest.raises(DataError):
            import_columns(bad, tmp_path / "log", options=options)
        assert {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()} == before
    with pytest.raises(DataError, match="append adds to a log and overwrite replaces it"):
        ImportOptions(append=True, overwrite=True)


def test_candidates_features_and_randomised_policies_are_kept(tmp_path: Path) -> None:
    from rankloop.offline import open_log

    log = tmp_path / "log"
    scores = tmp_path / "scores.csv"
    scores.write_text("policy_id,query_id,doc_id,score\na,cat,d1,1\na,cat,d2,0.5\n")
    features = tmp_path / "features.csv"
    features.write_text("query_id,doc_id,f1,f2\ncat,d1,1,2\ncat,d2,3,4\n")
    options = ImportOptions(append=True, features=features, randomised=("a",))
    import_columns(day(tmp_path, 1, range(3)), log, candidates=scores, options=options)
    report = append(day(tmp_path, 2, range(3, 6)), log)
    assert (report.candidates, report.features) == (2, 2)
    opened = open_log(log)
    assert opened.tables == ("impressions", "candidates", "features")
    assert opened.randomised == ("a",)
    assert opened.split().features.tolist() == [[1, 2], [3, 4]]
    features.write_text("query_id,doc_id,f1,f2\ndog,d1,5,6\ndog,d2,7,8\n")
    more = ImportOptions(append=True, features=features)
    report = import_columns(day(tmp_path, 3, range(6, 9), query="dog"), log, options=more)
    assert report.features == 4
    assert open_log(log).split().features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert counts(report) == {}
