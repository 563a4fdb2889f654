"""More formats in which logs are published: each was refused, or imported with another content, before."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, import_columns
from tests.logs.importers.reading import rows_of, write_lines
from tests.logs.importers.searches import EXPECTED, ONLY_ROWS, QUERIES, SEARCHES, content, flat, table


def test_names_with_separators_are_not_lists_if_each_has_a_position(tmp_path: Path) -> None:
    rows = [[*row[:3], f"The {row[3]}, part 2", *row[4:]] for row in flat()]
    report = import_columns(table(tmp_path / "t.csv", list(ONLY_ROWS), rows), tmp_path / "log")
    assert (report.impressions, report.problems) == (len(SEARCHES), ())
    named = sorted((place, f"The {document}, part 2", mark) for place, document, mark in EXPECTED)
    assert content(report) == named
    assert {row["query_id"] for row in rows_of(report.log)} == {row[2] for row in flat()}


def test_names_with_separators_are_not_lists_if_each_has_a_mark(tmp_path: Path) -> None:
    rows = [[row[0], f"The {row[3]}", row[5]] for row in flat()]
    path = table(tmp_path / "t.csv", ["request_id", "doc_id", "clicked"], rows)
    with pytest.raises(DataError, match="no column is known to hold positions"):
        import_columns(path, tmp_path / "log")
    report = import_columns(path, tmp_path / "log", columns=Columns(position=None))
    assert content(report) == sorted((place, f"The {document}", mark) for place, document, mark in EXPECTED)


@pytest.mark.parametrize(("name", "numbers"), [("page", (1, 2)), ("page", (0, 1)), ("start", (0, 2))])
def test_lists_of_later_pages_are_below_those_of_the_first(
    tmp_path: Path, name: str, numbers: tuple[int, int]
) -> None:
    records = [
        {"search_id": f"{search.number}", "query": search.query, name: number,
         "results": search.documents[2 * part : 2 * part + 2],
         "clicked_ids": [one for one in search.clicked if one in search.documents[2 * part : 2 * part + 2]]}
        for search in SEARCHES for part, number in enumerate(numbers)
    ]  # fmt: skip
    report = import_columns(write_lines(tmp_path / "t.json", records), tmp_path / "log")
    assert (content(report), report.losses) == (EXPECTED, ())
    assert any("counted on from page to page" in hint for hint in report.hints)


def test_counts_of_earlier_clicks_are_not_clicks(tmp_path: Path) -> None:
    rows = [[*row[:5], 3 * at % 50, row[5]] for at, row in enumerate(flat())]
    names = [*ONLY_ROWS[:5], "clicks", "label_click"]
    report = import_columns(table(tmp_path / "t.csv", names, rows), tmp_path / "log")
    assert content(report) == EXPECTED


def test_ranks_of_sales_are_not_positions(tmp_path: Path) -> None:
    rows = [[*row[:4], 1 + 7 * at**2 % 997, row[4], row[5]] for at, row in enumerate(flat())]
    names = [*ONLY_ROWS[:4], "category_rank", "shelf", "clicked"]
    path = table(tmp_path / "t.csv", names, rows)
    with pytest.raises(
        DataError, match=r"could be shelf \(not category_rank, which is not a position in each"
    ):
        import_columns(path, tmp_path / "log")
    report = import_columns(path, tmp_path / "log", columns=Columns(position="shelf"))
    assert content(report) == EXPECTED


def test_slates_with_the_index_of_their_click(tmp_path: Path) -> None:
    first = [search.clicks.index(1) if search.clicked else -1 for search in SEARCHES]
    rows = [
        [search.session, search.time, json.dumps([100 + int(one[-1]) for one in search.documents]), at]
        for search, at in zip(SEARCHES, first, strict=True)
    ]
    path = table(tmp_path / "t.csv", ["userId", "timestamp", "slate", "click_idx"], rows)
    report = import_columns(path, tmp_path / "log")
    clicked = Counter(row["position"] - 1 for row in rows_of(report.log) if row["clicked"])
    assert (report.impressions, report.losses) == (len(SEARCHES), ())
    assert clicked == Counter(at for at in first if at >= 0)


def yandex_of_kaggle(folder: Path) -> Path:
    """Lines of sessions, searches and clicks without names; a document is followed by its domain."""
    lines, numbers = [], {one: 7_000 + at for at, one in enumerate(QUERIES)}
    for session in dict.fromkeys(search.session for search in SEARCHES):
        lines.append([session[1:], "M", 5, 77])
        for serp, search in enumerate(one for one in SEARCHES if one.session == session):
            listed = [f"{numbers[one]},{numbers[one] % 9}" for one in search.documents]
            lines.append([session[1:], 10 * serp, "Q", serp, search.query[6:], "3,4", *listed])
            lines += [[session[1:], 10 * serp + 5, "C", serp, numbers[one]] for one in search.clicked]
    return table(folder / "train", None, lines, "\t")


def test_the_log_of_yandex_on_kaggle(tmp_path: Path) -> None:
    """Documents are written as 'url,domain', and columns have no names."""
    columns = Columns.parse("event=c3, query_id=c5, doc_id=c7..c10|c5, position=-, timestamp=-")
    columns = columns.identified_by("c1,c4")
    report = import_columns(yandex_of_kaggle(tmp_path), tmp_path / "log", columns=columns)
    numbers = {7_000 + at: one for at, one in enumerate(QUERIES)}
    found = [(place, numbers[int(document)], mark) for place, document, mark in content(report)]
    assert (sorted(found), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())
    assert {f"query {row['query_id']}" for row in rows_of(report.log)} == {*QUERIES.values()}


def test_views_and_clicks_of_lists(tmp_path: Path) -> None:
    """Algolia's events."""
    events: list[dict[str, Any]] = []
    for search in SEARCHES:
        common: dict[str, Any] = {
            "index": "shop",
            "userToken": search.session,
            "queryID": f"q{search.number}",
        }
        events.append({"eventType": "view", **common, "objectIDs": search.documents})
        if search.clicked:
            places = [place for place, _, mark in search.rows() if mark]
            events.append({"eventType": "click", **common, "objectIDs": search.clicked, "positions": places})
    report = import_columns(write_lines(tmp_path / "t.json", events), tmp_path / "log")
    assert (content(report), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())


def test_each_kind_of_event_has_an_object_of_its_own(tmp_path: Path) -> None:
    """Snowplow's events."""
    events: list[dict[str, Any]] = []
    for search in SEARCHES:
        results = [{"product_id": one, "position": place} for place, one, _ in search.rows()]
        view = {"search_id": f"S{search.number}", "query": search.query, "results": results}
        events.append({"event_id": f"e{len(events)}", "event_name": "results_view", "view_1": view})
        for one in search.clicked:
            click = {"search_id": f"S{search.number}", "product_id": one}
            events.append({"event_id": f"e{len(events)}", "event_name": "result_click", "tap_1": click})
    report = import_columns(write_lines(tmp_path / "t.json", events), tmp_path / "log")
    assert (content(report), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())


@pytest.mark.parametrize("none", ["", 0, -1])
@pytest.mark.parametrize("time", ["2024-05-01 10:00:05", 1_714_564_805])
def test_a_row_with_the_time_of_its_click_was_clicked(
    tmp_path: Path, time: str | int, none: str | int
) -> None:
    rows = [[*row[:5], time if row[5] else none] for row in flat()]
    path = table(tmp_path / "t.csv", [*ONLY_ROWS[:5], "clicked_at"], rows)
    assert content(import_columns(path, tmp_path / "log")) == EXPECTED


def test_a_database_with_several_tables(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE impressions (search_id, shown_at, query, product_id, position)")
        connection.execute("CREATE TABLE clicks (search_id, product_id)")
        connection.executemany("INSERT INTO impressions VALUES (?, ?, ?, ?, ?)", [row[:5] for row in flat()])
        marked = [(row[0], row[3]) for row in flat() if row[5]]
        connection.executemany("INSERT INTO clicks VALUES (?, ?)", marked)
        connection.commit()
    with pytest.raises(DataError, match=r"columns .*shop.db:impressions --clicks .*shop.db:clicks`"):
        import_columns(path, tmp_path / "log")
    with pytest.raises(DataError, match="there is no table 'shown'; its tables are clicks, impressions"):
        import_columns(f"{path}:shown", tmp_path / "log")
    report = import_columns(f"{path}:impressions", tmp_path / "log", clicks=f"{path}:clicks")
    assert content(report) == EXPECTED


def test_kinds_of_rows_without_clicks_are_named(tmp_path: Path) -> None:
    """Avito: only some kinds of advertisements have clicks."""
    rows = [[row[0], row[3], row[4], 3 if row[4] < 3 else 1, row[5] if row[4] < 3 else ""] for row in flat()]
    path = table(tmp_path / "t.tsv", ["SearchID", "AdID", "Position", "ObjectType", "IsClick"], rows, "\t")
    with pytest.raises(DataError, match=r"is empty in 50% of the rows.*with --only ObjectType=3"):
        import_columns(path, tmp_path / "log")
    report = import_columns(path, tmp_path / "log", only={"ObjectType": "3"})
    assert content(report) == [one for one in EXPECTED if one[0] < 3]
