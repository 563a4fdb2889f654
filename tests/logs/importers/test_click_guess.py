"""Clicks in events and in tables of their own, which name a document, a row or a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, import_columns
from tests.logs.importers.reading import rows_of, write_lines
from tests.logs.importers.searches import EXPECTED, QUERIES, SEARCHES, content, table

SHOWN = ["search_id", "time", "query", "position", "sku"]


def shown(*more: str) -> list[list[Any]]:
    """One row per document: its number, and what it shows; with other columns of the search."""
    rows = [
        [
            *(getattr(search, name) for name in more),
            f"r{search.number}",
            search.time,
            search.query,
            at,
            document,
        ]
        for search in SEARCHES
        for at, document, _ in search.rows()
    ]
    return [[f"i{number}", *row] for number, row in enumerate(rows)]


def clicked(*names: str) -> list[list[Any]]:
    """One row per click, some seconds after the search."""
    rows = []
    number = 0
    for search in SEARCHES:
        for at, document, mark in search.rows():
            known = {
                "row": f"i{number}", "search": f"r{search.number}", "session": search.session, "position": at,
                "query": search.query, "document": document, "time": search.time + 5 + at,
            }  # fmt: skip
            number += 1
            rows += [[known[name] for name in names]] * mark
    return rows


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (["impression_row_id", "click_time"], ("row", "time")),
        (["search_id", "position", "click_time"], ("search", "position", "time")),
        (["search_id", "clicked_position"], ("search", "position")),
        (["search_id", "what"], ("search", "document")),
    ],
)
def test_what_a_click_names(tmp_path: Path, header: list[str], names: tuple[str, ...]) -> None:
    rows = table(tmp_path / "shown.csv", ["id", *SHOWN], shown())
    clicks = table(tmp_path / "clicks.csv", header, clicked(*names))
    report = import_columns(rows, tmp_path / "log", clicks=clicks)
    assert (content(report), report.impressions, report.problems) == (EXPECTED, len(SEARCHES), ())


def test_ids_of_rows_can_be_named(tmp_path: Path) -> None:
    rows = table(tmp_path / "shown.csv", ["number", *SHOWN], shown())
    clicks = table(tmp_path / "clicks.csv", ["target"], clicked("row"))
    columns = Columns.parse("row_id=number|target")
    report = import_columns(rows, tmp_path / "log", clicks=clicks, columns=columns)
    assert (content(report), report.problems) == (EXPECTED, ())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_id_of_rows_is_not_one_of_impressions(tmp_path: Path, elsewhere: bool) -> None:
    if elsewhere:
        rows = table(tmp_path / "shown.csv", ["impression_id", *SHOWN], shown())
        clicks = table(tmp_path / "clicks.csv", ["click_id", "impression_id"], clicked("time", "row"))
    else:
        marks = [mark for search in SEARCHES for mark in search.clicks]
        marked = [[*row, mark] for row, mark in zip(shown(), marks, strict=True)]
        rows = table(tmp_path / "shown.csv", ["impression_id", *SHOWN, "clicked"], marked)
        clicks = None
    report = import_columns(rows, tmp_path / "log", clicks=clicks)
    assert (content(report), report.impressions) == (EXPECTED, len(SEARCHES))
    assert any("Every row has its own impression_id" in hint for hint in report.hints)


@pytest.mark.parametrize("columns", [Columns(), Columns(impression_id=("session", "query", "time"))])
def test_clicks_find_the_last_impression_of_their_session(tmp_path: Path, columns: Columns) -> None:
    rows = [[row[1], *row[3:]] for row in shown("session")]
    names = ["session", *SHOWN[1:]]
    clicks = table(
        tmp_path / "clicks.csv", ["session", "query", "sku", "time"],
        clicked("session", "query", "document", "time"),
    )  # fmt: skip
    report = import_columns(
        table(tmp_path / "shown.csv", names, rows), tmp_path / "log", clicks=clicks, columns=columns
    )
    assert (content(report), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())
    assert any("the last impression of its session, query" in hint for hint in report.hints)


def test_events_of_documents_in_sessions(tmp_path: Path) -> None:
    """The same with rows that are events, in one file; some events are of no kind."""
    events = [["impression", row[1], *row[3:]] for row in shown("session")]
    clicks = clicked("session", "time", "query", "position", "document")
    rows = [*events, *(["click", *row] for row in clicks), ["", "s1", 7, "", "", ""]]
    path = table(tmp_path / "t.csv", ["event", "session_id", *SHOWN[1:]], rows)
    report = import_columns(path, tmp_path / "log")
    assert (content(report), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())
    assert report.aside == {"events without a kind": 1}


def test_a_row_is_either_shown_or_clicked(tmp_path: Path) -> None:
    rows = [
        ["click" if mark else "impression", f"r{search.number}", search.query, at, document]
        for search in SEARCHES
        for at, document, mark in search.rows()
    ]
    path = table(tmp_path / "t.csv", ["action", "search_id", "query", "position", "sku"], rows)
    report = import_columns(path, tmp_path / "log")
    assert (content(report), report.problems) == (EXPECTED, ())
    assert any("of these, clicked: click" in hint for hint in report.hints)


@pytest.mark.parametrize("nothing", ["", "NULL", "0"])
def test_a_row_with_the_id_of_its_click_was_clicked(tmp_path: Path, nothing: str) -> None:
    marks = [mark for search in SEARCHES for mark in search.clicks]
    rows = [
        [*row[1:], number + 7 if mark else nothing]
        for number, (row, mark) in enumerate(zip(shown(), marks, strict=True))
    ]
    report = import_columns(table(tmp_path / "t.csv", [*SHOWN, "click_id"], rows), tmp_path / "log")
    assert content(report) == EXPECTED


def test_events_of_lists_by_anonymous_users(tmp_path: Path) -> None:
    """Segment's events: clicks say neither for what was searched nor in which session."""
    records: list[dict[str, Any]] = []
    for search in SEARCHES:
        common = {"type": "track", "anonymousId": search.session}
        listed = {"query": search.query, "results": [{"product_id": one} for one in search.documents]}
        records.append(
            {"event": "Products Searched", "timestamp": search.time, "properties": listed, **common}
        )
        records += [
            {
                "event": "Product Clicked",
                "timestamp": search.time + 9,
                "properties": {"product_id": one},
                **common,
            }
            for one in search.clicked
        ]
    report = import_columns(write_lines(tmp_path / "t.json", records), tmp_path / "log")
    assert (content(report), report.losses) == (EXPECTED, ())
    assert {row["doc_id"]: row["query_id"] for row in rows_of(report.log)} == QUERIES


def test_kinds_of_events_are_named_if_none_is_a_click(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ["event", *SHOWN], [["impression", *row[1:]] for row in shown()])
    with pytest.raises(DataError, match="--columns event=event --shown-event KIND --click-event KIND"):
        import_columns(path, tmp_path / "log")
