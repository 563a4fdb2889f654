"""Logs in the formats in which people publish and export them, small and with known content.

What still cannot be a log is refused with the reason.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, ImportOptions, import_columns
from tests.logs.importers.reading import counts, rows_of, write_lines
from tests.logs.importers.searches import (
    CLICKED,
    EXPECTED,
    NOON,
    ONLY_ROWS,
    QUERIES,
    SEARCHES,
    SHOWN,
    content,
    flat,
    table,
)


def mind(folder: Path) -> dict[str, Any]:
    """No names of columns, times with AM and PM, marks at the ends of documents."""
    rows = [
        [search.number, f"U{search.session}", "11/15/2019 9:05:58 AM", "N1 N2",
         " ".join(f"{document}-{mark}" for _, document, mark in search.rows())]
        for search in SEARCHES
    ]  # fmt: skip
    return {"impressions": table(folder / "behaviors.tsv", None, rows, "\t")}


def diginetica(folder: Path) -> dict[str, Any]:
    """Two tables with semicolons; the id of queries is that of searches, and most have no text."""
    names = ["queryId", "sessionId", "timeframe", "eventdate", "searchstring.tokens", "categoryId", "items"]
    rows = [
        [search.number, search.session, 9, "2016-05-09", "", 7, ",".join(search.documents)]
        for search in SEARCHES
    ]
    clicks = [[search.number, 12, document] for search in SEARCHES for document in search.clicked]
    return {
        "impressions": table(folder / "queries.csv", names, rows, ";"),
        "clicks": table(folder / "clicks.csv", ["queryId", "timeframe", "itemId"], clicks, ";"),
    }


def coveo(folder: Path) -> dict[str, Any]:
    names = ["session_id_hash", "query_vector", "clicked_skus_hash", "product_skus_hash",
             "server_timestamp_epoch_ms"]  # fmt: skip
    rows = [
        [s.session, "[0.1, 0.2]", str(s.clicked) if s.clicked else "", str(s.documents), s.time * 1000]
        for s in SEARCHES
    ]
    return {"impressions": table(folder / "search_train.csv", names, rows)}


def analytics(folder: Path) -> dict[str, Any]:
    """Events with parameters as keys and values, positions from 0, and no id of what was shown."""
    events = []
    for search in SEARCHES:
        params = [
            {"key": "ga_session_id", "value": {"int_value": search.session}},
            {"key": "search_term", "value": {"string_value": search.query}},
        ]
        items = [
            {"item_id": document, "item_list_index": str(position - 1)}
            for position, document, _ in search.rows()
        ]
        marked = [item for item, mark in zip(items, search.clicks, strict=True) if mark]
        shown = [("view_item_list", 0, items), *(("select_item", 9, [item]) for item in marked)]
        events += [
            {"event_name": name, "event_timestamp": str((search.time + after) * 10**6),
             "event_params": params, "items": some}
            for name, after, some in shown
        ]  # fmt: skip
    return {"impressions": write_lines(folder / "events.json", events)}


def sessions(folder: Path) -> dict[str, Any]:
    """Searches and clicks as events of sessions; clicks do not say for what was searched."""
    rows = []
    for search in SEARCHES:
        rows.append([search.session, search.time, "search", search.query, ";".join(search.documents), ""])
        rows += [[search.session, search.time + 5, "click", "", "", one] for one in search.clicked]
    names = ["session_id", "timestamp", "event_type", "query", "results", "product_id"]
    return {"impressions": table(folder / "events.csv", names, rows)}


def yandex(folder: Path) -> dict[str, Any]:
    """Lines of different widths without names: searches, and clicks that say only the session."""
    lines = []
    for search in SEARCHES:
        lines.append([search.session[1:], "10", "Q", search.query, "7", *search.documents])
        lines += [[search.session[1:], "15", "C", document] for document in search.clicked]
    path = folder / "Clicklog.txt"
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    text = "impression_id=c1, event=c3, query_id=c4, doc_id=c6..c9|c4, position=-, timestamp=-"
    return {"impressions": path, "columns": Columns.parse(text)}


def wide(folder: Path) -> dict[str, Any]:
    names = ["search_id", "query", *(f"doc_{k}" for k in range(1, 5)), *(f"click_{k}" for k in range(1, 5))]
    rows = [[search.number, search.query, *search.documents, *search.clicks] for search in SEARCHES]
    return {"impressions": table(folder / "wide.csv", names, rows)}


def arrays(folder: Path) -> dict[str, Any]:
    """As Baidu's click log is published: queries come again, and rows have no id."""
    columns = {
        "query_md5": [search.query for search in SEARCHES],
        "url_md5": [search.documents for search in SEARCHES],
        "click": [search.clicks for search in SEARCHES],
        "position": [list(range(1, SHOWN + 1))] * len(SEARCHES),
    }
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    return {"impressions": folder / "part-0.parquet"}


def pages(folder: Path) -> dict[str, Any]:
    """Positions begin again on every page of two."""
    rows = [
        [f"r{search.number}", search.query, document, 1 + (position - 1) // 2, 1 + (position - 1) % 2, mark]
        for search in SEARCHES
        for position, document, mark in search.rows()
    ]
    names = ["request_id", "query", "product_id", "page", "position_on_page", "clicked"]
    return {"impressions": table(folder / "pages.csv", names, rows)}


def white_space(folder: Path) -> dict[str, Any]:
    lines = ["qid docid  rank clicked"]
    lines += [f"{search.number}  {d}  {k}   {mark}" for search in SEARCHES for k, d, mark in search.rows()]
    (folder / "clicks.txt").write_text("\n".join(lines) + "\n")
    return {"impressions": folder / "clicks.txt"}


def in_order(folder: Path) -> dict[str, Any]:
    """Queries come again, and nothing but the order of rows tells impressions apart."""
    rows = [[search.query, d, k, mark] for search in SEARCHES for k, d, mark in search.rows()]
    return {"impressions": table(folder / "run.tsv", ["query", "doc_id", "rank", "clicked"], rows, "\t")}


def from_zero(folder: Path) -> dict[str, Any]:
    """Clicked positions count from 0."""
    rows = [
        [s.number, s.query, "|".join(s.documents), " ".join(str(k) for k in range(SHOWN) if s.clicks[k])]
        for s in SEARCHES
    ]
    return {"impressions": table(folder / "z.csv", ["id", "query", "results", "clicked_positions"], rows)}


def left_join(folder: Path) -> dict[str, Any]:
    """Rows without a click have no value."""
    return {"impressions": table(folder / "t.csv", list(ONLY_ROWS), [[*r[:5], r[5] or ""] for r in flat()])}


def spreadsheet(folder: Path) -> dict[str, Any]:
    """UTF-16 with tabs, a first line that names the delimiter, days with dots."""
    rows = [[r[0], "29.04.2024 8:03", *r[2:]] for r in flat()]
    path = table(folder / "t.csv", list(ONLY_ROWS), rows, ";")
    path.write_bytes(f"sep=;\r\n{path.read_text()}".encode("utf-16"))
    return {"impressions": path}


def wrapped(folder: Path) -> dict[str, Any]:
    records = [dict(zip(ONLY_ROWS, row, strict=True)) for row in flat()]
    (folder / "t.json").write_text(json.dumps({"total": len(records), "data": records}))
    return {"impressions": folder / "t.json"}


def packed(ending: str) -> Callable[[Path], dict[str, Any]]:
    def pack(folder: Path) -> dict[str, Any]:
        data = table(folder / "t.csv", list(ONLY_ROWS), flat()).read_bytes()
        path = folder / f"packed.csv{ending}"
        if ending == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("t.csv", data)
        elif ending == ".zst":
            with pa.CompressedOutputStream(str(path), "zstd") as out:
                out.write(data)
        else:
            path.write_bytes((bz2 if ending == ".bz2" else lzma).compress(data))
        return {"impressions": path}

    pack.__name__ = ending
    return pack


def sqlite(folder: Path) -> dict[str, Any]:
    connection = sqlite3.connect(folder / "t.db")
    connection.execute(f"CREATE TABLE clicks ({', '.join(ONLY_ROWS)})")
    connection.executemany("INSERT INTO clicks VALUES (?, ?, ?, ?, ?, ?)", flat())
    connection.commit()
    connection.close()
    return {"impressions": folder / "t.db"}


def duck(folder: Path) -> dict[str, Any]:
    path = table(folder / "t.csv", list(ONLY_ROWS), flat())
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE clicks AS SELECT * FROM read_csv(?)", [str(path)])
    return {"impressions": folder / "t.duckdb"}


FORMATS = [
    mind, diginetica, coveo, analytics, sessions, yandex, wide, arrays, pages, white_space, in_order,
    from_zero, left_join, spreadsheet, wrapped, packed(".zip"), packed(".bz2"), packed(".xz"), packed(".zst"),
    sqlite, duck,
]  # fmt: skip


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__.strip("."))
def test_a_known_format_keeps_its_content(tmp_path: Path, write: Callable[[Path], dict[str, Any]]) -> None:
    given = write(tmp_path)
    report = import_columns(given.pop("impressions"), tmp_path / "log", **given)
    assert (report.impressions, report.losses) == (len(SEARCHES), ())
    assert content(report) == EXPECTED
    queries = {row["query_id"] for row in rows_of(report.log)}
    if write in (mind, diginetica, coveo, white_space):
        assert len(queries) == len(SEARCHES)
    else:
        assert queries == set(QUERIES.values())


def test_a_list_that_comes_with_each_of_its_clicks_is_one_impression(tmp_path: Path) -> None:
    """TripClick: one record per click."""
    records = [
        {"DateCreated": f"/Date({search.time}000)/", "SearchSessionId": search.session,
         "Keywords": search.query, "Documents": search.documents, "DocumentId": document}
        for search in SEARCHES for document in search.clicked
    ]  # fmt: skip
    report = import_columns(write_lines(tmp_path / "log.json", records), tmp_path / "log")
    assert report.impressions == len(CLICKED)
    assert report.clicks == sum(len(search.clicked) for search in CLICKED)


def test_clicks_with_their_lists_are_found_among_other_actions(tmp_path: Path) -> None:
    """Trivago: a click has the list in which it was made, and other actions have none."""
    rows = []
    for search in SEARCHES:
        rows.append([search.session, search.time, "search for item", "Rome", ""])
        rows += [[search.session, search.time + 1, "clickout item", one, "|".join(search.documents)]
                 for one in search.clicked]  # fmt: skip
    names = ["session_id", "timestamp", "action_type", "reference", "impressions"]
    report = import_columns(table(tmp_path / "train.csv", names, rows), tmp_path / "log")
    clicks = sum(len(search.clicked) for search in SEARCHES)
    assert (report.impressions, report.clicks) == (clicks, clicks)
    assert report.aside == {"events of kind 'search for item'": len(SEARCHES)}


def test_a_click_belongs_to_the_last_list_before_it(tmp_path: Path) -> None:
    """Two lists of one session show the same document; clicks come in another order than their times."""
    lists = [["s", 100, "q", "a|b"], ["s", 200, "q", "b|a"], ["s", 200, "q", "b|a"]]
    clicks = [["s", 250, "b"], ["s", 150, "a"], ["s", 50, "b"], ["s", 300, "z"]]
    path = table(tmp_path / "l.csv", ["session_id", "time_of_search", "query", "results"],
                 [[r[0], NOON + r[1], *r[2:]] for r in lists])  # fmt: skip
    other = table(tmp_path / "c.csv", ["session_id", "time_of_search", "doc_id"],
                  [[r[0], NOON + r[1], r[2]] for r in clicks])  # fmt: skip
    report = import_columns(path, tmp_path / "log", clicks=other, options=ImportOptions(max_loss=0.3))
    rows = [(row["impression_id"], row["doc_id"], row["clicked"]) for row in rows_of(report.log)]
    # The click before both lists is taken for one on the first that shows its document.
    assert rows == [("s", "a", True), ("s", "b", True), ("s#2", "b", True), ("s#2", "a", False)]
    assert counts(report) == {"duplicate_rows": 2, "clicks_not_shown": 1, "early_clicks": 1}


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("AnonID,Query,QueryTime,ItemRank,ClickURL", "7,cat,2006-03-01 07:17:12,{k},http://{k}.com",
         r"the rows are clicks \(ClickURL\), and do not say what else was shown"),
        ("query,doc_id,position,impressions,clicks", "cat,d{k},{k},1{k},3", "rows are sums: the column imp"),
        ("Query,Page,Clicks,Impressions,CTR,Position", "cat,p{k},3,1{k},5%,1.{k}", "the rows are sums"),
        ("display_id,ad_id,clicked", "{k},a{k},0", "no column is known to hold positions"),
        ("request_id,q,item,pos,clicked", "{k},cat,a{k},#{k},0", "pos does not hold whole numbers, such as"),
        ("request_id,q,item,pos", "{k},cat,a{k},{k}", "the rows have no clicks.*If each row is a click"),
        ("x,position,doc_id,clicked", "1,{k},a,0", "no column is known to hold ids of impressions"),
    ],
    ids=["aol", "sums", "search console", "no positions", "text as positions", "no clicks", "no ids"],
)  # fmt: skip
def test_what_cannot_be_a_log_is_refused_with_the_reason(
    tmp_path: Path, header: str, row: str, message: str
) -> None:
    numbers = [1, 3, 2, 5, 4, 1, 2, 7, 6, 9]
    (tmp_path / "t.csv").write_text("\n".join([header, *(row.format(k=k) for k in numbers)]) + "\n")
    with pytest.raises(DataError, match=message):
        import_columns(tmp_path / "t.csv", tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_only_clicked_rows_are_said_to_be_that(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", list(ONLY_ROWS), [row for row in flat() if row[5]])
    report = import_columns(path, tmp_path / "log")
    assert any("only clicks seem to have been logged" in hint for hint in report.hints)


def test_a_database_with_several_tables_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.executescript("CREATE TABLE a (x); CREATE TABLE b (x)")
    connection.close()
    with pytest.raises(DataError, match="its tables are a, b: name the one"):
        import_columns(tmp_path / "t.db", tmp_path / "log")


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    for names, message in ((("a", "b"), "with 2 files"), (("[Content_Types].xml",), "a spreadsheet")):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name in names:
                archive.writestr(name, "x")
        (tmp_path / "t.zip").write_bytes(data.getvalue())
        with pytest.raises(DataError, match=message):
            import_columns(tmp_path / "t.zip", tmp_path / "log")


def test_decimal_commas_of_features(tmp_path: Path) -> None:
    rows = [[*row, f"{at % 7},5"] for at, row in enumerate(flat())]
    path = table(tmp_path / "t.csv", [*ONLY_ROWS, "price"], rows, ";")
    report = import_columns(path, tmp_path / "log", feature_columns=("auto",))
    assert {row["price"] for row in rows_of(report.log, "features")} <= {k + 0.5 for k in range(7)}
