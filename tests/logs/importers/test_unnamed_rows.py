"""Tables without names of columns, with one row per document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, import_columns
from tests.logs.importers.reading import rows_of
from tests.logs.importers.searches import EXPECTED, SEARCHES, content, flat, table


def test_values_tell_what_columns_hold(tmp_path: Path) -> None:
    """Names say nothing: what values cannot tell is asked, and the message says how to answer."""
    path = table(tmp_path / "t.csv", None, flat())
    with pytest.raises(DataError, match=r"query_id could be c3 .* clicked could be c6 ") as caught:
        import_columns(path, tmp_path / "log")
    named = re.search("--columns '([^']*)'", str(caught.value))
    assert named is not None
    report = import_columns(path, tmp_path / "log", columns=Columns.parse(named[1]))
    assert (content(report), report.impressions) == (EXPECTED, len(SEARCHES))
    assert {row["query_id"] for row in rows_of(report.log)} == {search.query for search in SEARCHES}


def test_a_first_line_of_text_is_a_row_if_its_values_come_again(tmp_path: Path) -> None:
    rows = [[f"r{row[0]}", "web", "en", row[2], row[3], f"p{row[4]}", row[4], row[5]] for row in flat()]
    columns = Columns.parse("impression_id=c1, query_id=c4, doc_id=c5, position=c7, clicked=c8, timestamp=-")
    report = import_columns(table(tmp_path / "t.csv", None, rows), tmp_path / "log", columns=columns)
    assert content(report) == EXPECTED


def test_names_of_columns_may_come_again(tmp_path: Path) -> None:
    """Files that were joined: the names are there twice, and are not a row."""
    rows = [[f"r{row[0]}", *row[1:]] for row in flat()]
    names = ["search_id", "time", "query", "item", "position", "clicked"]
    path = table(tmp_path / "t.csv", names, [*rows[:80], names, *rows[80:]])
    report = import_columns(path, tmp_path / "log")
    assert (content(report), [problem.name for problem in report.problems]) == (EXPECTED, ["broken_lines"])


def test_lines_of_searches_above_lines_of_documents(tmp_path: Path) -> None:
    """Baidu's ULTR data."""
    lines = []
    for search in SEARCHES:
        lines.append(["77", search.query, ""])
        lines += [[at, document, "title", "0.5", mark] for at, document, mark in search.rows()]
    path = table(tmp_path / "t.tsv", None, lines, "\t")
    columns = Columns.parse("impression_id=-, query_id=h2, position=c1, doc_id=c2, clicked=c5, timestamp=-")
    report = import_columns(path, tmp_path / "log", columns=columns)
    assert (content(report), report.impressions, report.problems) == (EXPECTED, len(SEARCHES), ())
    assert {row["query_id"] for row in rows_of(report.log)} == {search.query for search in SEARCHES}


def test_days_are_not_impressions(tmp_path: Path) -> None:
    rows = [[f"u{search.number % 5}", "20240501", document, mark] for search in SEARCHES
            for _, document, mark in search.rows()]  # fmt: skip
    path = table(tmp_path / "t.csv", ["user_id", "date", "video_id", "is_click"], rows)
    with pytest.raises(DataError, match="ids of impressions"):
        import_columns(path, tmp_path / "log", columns=Columns(position=None))


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"ARROW1\0\0", "Feather"),
        (b"\x80\x04\x95", "pickle"),
        (b"1 qid:3 1:0.5 2:7\n0 qid:3 1:1 2:0\n", "SVMlight"),
    ],
)
def test_what_other_files_are(tmp_path: Path, begin: bytes, reason: str) -> None:
    (tmp_path / "t").write_bytes(begin * 30)
    with pytest.raises(DataError, match=reason):
        import_columns(tmp_path / "t", tmp_path / "log")
