"""Lists of documents in objects and under names that nobody foresaw: each was refused before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.logs import import_columns
from tests.logs.importers.reading import rows_of, write_lines
from tests.logs.importers.searches import EXPECTED, ONLY_ROWS, SEARCHES, Search, content, flat, table

Record = Callable[[Search], dict[str, Any]]


def results(search: Search) -> dict[str, Any]:
    """Objects with positions from 0; the search has an id that is called as that of a document."""
    found = [{"id": one, "pos": at - 1, "clicked": bool(mark)} for at, one, mark in search.rows()]
    return {"id": search.number, "query": {"text": search.query}, "results": found}


def only_clicks_are_marked(search: Search) -> dict[str, Any]:
    found = [{"id": one, **({"clicked": True} if mark else {})} for _, one, mark in search.rows()]
    return {"search_id": search.number, "query": search.query, "results": found}


def objects_of_clicks(search: Search) -> dict[str, Any]:
    clicks = [{"document": one, "rank": at, "dwell": 7} for at, one, mark in search.rows() if mark]
    return {"search_id": search.number, "query": search.query, "results": search.documents, "clicks": clicks}


def counts_of_clicks(search: Search) -> dict[str, Any]:
    return {"query": search.query, "results": search.documents, "clicks": [3 * one for one in search.clicks]}


def in_view(search: Search) -> dict[str, Any]:
    """EB-NeRD: the article that is read beside the articles that were shown."""
    return {
        "article_id": search.number, "article_ids_inview": search.documents,
        "article_ids_clicked": search.clicked, "session_id": search.session,
    }  # fmt: skip


def unknown_names(search: Search) -> dict[str, Any]:
    """JDsearch: nothing but the values tells which list has documents, and which their labels."""
    return {
        "query": search.query, "candidate_wid_list": search.documents, "candidate_label_list": search.clicks,
        "history_wid_list": ["h1", "h2", "h3"],
    }  # fmt: skip


def one_position_for_a_list(search: Search) -> dict[str, Any]:
    """The row of a page on which the list stands."""
    return {
        "query": search.query, "row_position": search.number % 3, "series_list": search.documents,
        "clicked": search.clicks,
    }  # fmt: skip


RECORDS: list[Record] = [
    results, only_clicks_are_marked, objects_of_clicks, counts_of_clicks, in_view, unknown_names,
    one_position_for_a_list,
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.__name__))
def test_lists_keep_their_content(tmp_path: Path, record: Record) -> None:
    path = write_lines(tmp_path / "t.json", [record(search) for search in SEARCHES])
    report = import_columns(path, tmp_path / "log")
    assert (content(report), report.impressions, report.problems) == (EXPECTED, len(SEARCHES), ())


def test_structures_in_parquet(tmp_path: Path) -> None:
    """Qilin: documents have an index instead of an id."""
    records = [
        {"query": search.query, "details": [
            {"note_idx": one, "position": at, "click": float(mark)} for at, one, mark in search.rows()
        ]}
        for search in SEARCHES
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "t.parquet")
    assert content(import_columns(tmp_path / "t.parquet", tmp_path / "log")) == EXPECTED


def test_objects_as_pandas_writes_them(tmp_path: Path) -> None:
    """Objects in Python's notation, in a column of a CSV file."""
    rows = [
        [
            search.number,
            search.query,
            repr([{"id": one, "clicked": bool(mark)} for _, one, mark in search.rows()]),
        ]
        for search in SEARCHES
    ]
    path = table(tmp_path / "t.csv", ["search_id", "query", "results"], rows)
    assert content(import_columns(path, tmp_path / "log")) == EXPECTED


def test_the_id_of_a_search_is_not_its_query(tmp_path: Path) -> None:
    rows = [[row[0], row[2], row[3], row[4], row[5]] for row in flat()]
    path = table(tmp_path / "t.csv", ["query_id", "query", "doc_id", "position", "clicked"], rows)
    report = import_columns(path, tmp_path / "log")
    assert (content(report), report.impressions) == (EXPECTED, len(SEARCHES))
    assert {row["query_id"] for row in rows_of(report.log)} == {search.query for search in SEARCHES}


def test_some_lists_have_one_element(tmp_path: Path) -> None:
    records = [
        {"query": search.query, "results": search.documents[: 1 + search.number % 2], "clicked": []}
        for search in SEARCHES
    ]
    records[1]["clicked"] = records[1]["results"]
    report = import_columns(write_lines(tmp_path / "t.json", records), tmp_path / "log")
    assert (report.impressions, report.clicks) == (len(SEARCHES), 2)


def test_a_column_that_names_the_first_document_is_not_its_click(tmp_path: Path) -> None:
    records = [
        {"query": search.query, "results": search.documents, "best": search.documents[0],
         "chosen": search.clicked[0] if search.clicked else None}
        for search in SEARCHES
    ]  # fmt: skip
    report = import_columns(write_lines(tmp_path / "t.json", records), tmp_path / "log")
    assert report.clicks == sum(bool(search.clicked) for search in SEARCHES)


def test_events_of_search_analytics(tmp_path: Path) -> None:
    """Elastic's behavioural analytics: documents are objects in objects in lists."""
    records: list[dict[str, Any]] = []
    for search in SEARCHES:
        common = {"session": {"id": search.session}, "@timestamp": search.time}
        items = [{"document": {"id": one}, "page": {"url": f"/{one}"}} for one in search.documents]
        asked = {"query": search.query, "results": {"items": items}}
        records.append({"event": {"action": "search"}, "search": asked, **common})
        records += [
            {"event": {"action": "search_click"}, "document": {"id": one}, **common,
             "search": {"query": search.query}, "@timestamp": search.time + 9}
            for one in search.clicked
        ]  # fmt: skip
    report = import_columns(write_lines(tmp_path / "t.json", records), tmp_path / "log")
    assert (content(report), report.losses) == (EXPECTED, ())


@pytest.mark.parametrize(
    ("names", "marks"),
    [
        (("Suche-ID", "Zeitpunkt", "Suchbegriff", "Artikelnummer", "Rang", "Geklickt"), ("nein", "ja")),
        (("id_recherche", "date", "requête", "id_produit", "position", "cliqué"), ("non", "oui")),
        (("id_busqueda", "fecha", "consulta", "id_producto", "posición", "clic"), ("no", "sí")),
    ],
)
def test_columns_in_other_languages(tmp_path: Path, names: tuple[str, ...], marks: tuple[str, str]) -> None:
    rows = [[*row[:5], marks[row[5]]] for row in flat()]
    report = import_columns(table(tmp_path / "t.csv", list(names), rows, ";"), tmp_path / "log")
    assert (content(report), report.impressions) == (EXPECTED, len(SEARCHES))
    assert {row["query_id"] for row in rows_of(report.log)} == {search.query for search in SEARCHES}


def test_what_a_click_caused_is_not_a_feature_of_a_list(tmp_path: Path) -> None:
    records = [
        {"query": search.query, "results": [
            {"id": one, "price": at * 1.5, "clicked": mark, "page_time": 12.5 * mark, "s": 40 * mark - 1}
            for at, one, mark in search.rows()
        ]}
        for search in SEARCHES
    ]  # fmt: skip
    path = write_lines(tmp_path / "t.json", records)
    report = import_columns(path, tmp_path / "log", feature_columns=("auto",))
    hint = next(hint for hint in report.hints if "known only after a click" in hint)
    assert hint.count("results.") == 2
    assert set(rows_of(report.log, "features")[0]) == {"query_id", "doc_id", "results.price"}


def test_a_column_that_tells_all_clicks_is_not_a_feature(tmp_path: Path) -> None:
    rows = [[*row, 30 * row[5] - 1, 7 * place % 11 + 0.5] for place, row in enumerate(flat())]
    path = table(tmp_path / "t.csv", [*ONLY_ROWS, "seconds", "price"], rows)
    report = import_columns(path, tmp_path / "log", feature_columns=("auto",))
    assert set(rows_of(report.log, "features")[0]) == {"query_id", "doc_id", "price"}
