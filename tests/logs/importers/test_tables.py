"""Tables as people have them: guessed names, lists, events, nested values, features, odd times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, Events, ImportOptions, import_columns
from rankloop.offline import open_log
from tests.logs.importers.reading import counts, rows_of, shown, write_lines

# What every table below says: two searches of three documents, one click each.
SEARCHES = (("s1", "red shoes", ["x", "y", "z"], "y"), ("s2", "hat", ["v", "x", "w"], "v"))
EXPECTED = [
    (search, query, "production", position, document, document == clicked)
    for search, query, documents, clicked in SEARCHES
    for position, document in enumerate(documents, 1)
]
NOON = 1_714_564_800
TIMES = {search: NOON + 60 * number for number, (search, *_) in enumerate(SEARCHES)}


def flat(**names: str) -> list[dict[str, Any]]:
    """One row per document, with columns called as given."""
    return [
        {
            names["search"]: search,
            names["query"]: query,
            names["position"]: position,
            names["document"]: document,
            names["clicked"]: int(document == clicked),
            names["time"]: TIMES[search],
        }
        for search, query, documents, clicked in SEARCHES
        for position, document in enumerate(documents, 1)
    ]


def csv(path: Path, rows: list[dict[str, Any]], delimiter: str = ",") -> Path:
    lines = [delimiter.join(rows[0]), *(delimiter.join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "names",
    [
        ("srch_id", "search_term", "position", "prop_id", "click_bool", "date_time"),
        ("requestId", "searchTerm", "rankPosition", "productId", "isClicked", "eventTimestamp"),
        ("SERPID", "Query", "Rank", "URL", "Clicks", "Time"),
        ("impression_id", "query_id", "position", "doc_id", "clicked", "timestamp"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "tsv", "semicolons", "jsonl", "parquet"])
def test_names_of_columns_are_guessed(tmp_path: Path, names: tuple[str, ...], form: str) -> None:
    roles = dict(zip(("search", "query", "position", "document", "clicked", "time"), names, strict=True))
    rows, path = flat(**roles), tmp_path / f"table.{form}"
    if form == "jsonl":
        write_lines(path, rows)
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        csv(path, rows, {"csv": ",", "tsv": "\t", "semicolons": ";"}[form])
    report = import_columns(path, tmp_path / "log")
    assert sorted(shown(report.log)) == sorted(EXPECTED)
    assert {row["timestamp"] for row in rows_of(report.log)} == {
        datetime.fromtimestamp(time, UTC) for time in TIMES.values()
    }
    guessed = [hint for hint in report.hints if hint.startswith("Columns were guessed")]
    assert bool(guessed) == (names[0] != "impression_id")
    assert all(f"doc_id={names[3]}" in hint for hint in guessed)
    assert any("'production' is taken" in hint for hint in report.hints)


def test_a_name_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    roles = {"search": "srch_id", "query": "q", "position": "rank", "document": "sku", "clicked": "click"}
    path = csv(tmp_path / "t.csv", flat(**roles, time="ts"))
    with pytest.raises(DataError, match=r"the column 'product' is missing.*Name columns as in --columns"):
        import_columns(path, tmp_path / "log", columns=Columns(doc_id="product"))
    report = import_columns(path, tmp_path / "log", columns=Columns(query_id="srch_id", timestamp=None))
    assert {row["query_id"] for row in rows_of(report.log)} == {"s1", "s2"}
    assert {row["timestamp"] for row in rows_of(report.log)} == {None}


def test_a_session_is_not_taken_for_an_impression(tmp_path: Path) -> None:
    rows = [{"session_id": "me", **row} for row in flat(
        search="none", query="query", position="rank", document="url", clicked="clicked", time="time"
    )]  # fmt: skip
    for row in rows:
        del row["none"]
    report = import_columns(csv(tmp_path / "t.csv", rows), tmp_path / "log")
    assert (report.impressions, report.rows, report.clicks) == (2, 6, 2)
    assert any("impression_id=session_id+query+time" in hint for hint in report.hints)


def test_without_queries_each_impression_is_one(tmp_path: Path) -> None:
    rows = flat(search="srch_id", query="q", position="position", document="prop_id", clicked="c", time="ts")
    for row in rows:
        del row["q"]
        row["click_bool"] = row.pop("c")
    report = import_columns(csv(tmp_path / "t.csv", rows), tmp_path / "log")
    assert {(row["impression_id"], row["query_id"]) for row in rows_of(report.log)} == {
        ("s1", "s1"),
        ("s2", "s2"),
    }
    assert any("each impression is a query of its own" in hint for hint in report.hints)


def _inline(form: str) -> list[dict[str, Any]]:
    rows = []
    for search, query, documents, clicked in SEARCHES:
        texts = {
            "spaces": (" ".join(documents), clicked),
            "json": (json.dumps(documents), json.dumps([clicked])),
            "python": (str(documents), str([clicked])),
            "numpy": ("[" + " ".join(f"'{name}'" for name in documents) + "]", f"['{clicked}']"),
            "bars": ("|".join(documents), clicked),
            "flags": (" ".join(documents), " ".join(str(int(name == clicked)) for name in documents)),
            "ranks": (" ".join(documents), str(documents.index(clicked) + 1)),
        }
        urls, clicks = texts[form]
        rows.append(
            {"session": search, "query": query, "time": TIMES[search], "URLs": urls, "clicks": clicks}
        )
    return rows


@pytest.mark.parametrize("form", ["spaces", "json", "python", "numpy", "bars", "flags", "ranks"])
def test_lists_of_documents(tmp_path: Path, form: str) -> None:
    rows = _inline(form)
    report = import_columns(csv(tmp_path / "t.tsv", rows, "\t"), tmp_path / "log")
    assert [row[1:] for row in shown(report.log)] == [row[1:] for row in EXPECTED]


def test_a_click_on_a_document_that_a_list_does_not_show_is_counted(tmp_path: Path) -> None:
    rows = _inline("spaces")
    rows[0]["clicks"] += " elsewhere"
    options = ImportOptions(max_loss=1.0)
    report = import_columns(csv(tmp_path / "t.tsv", rows, "\t"), tmp_path / "log", options=options)
    assert counts(report) == {"clicks_not_shown": 1}
    assert [row[1:] for row in shown(report.log)] == [row[1:] for row in EXPECTED]


def test_lists_with_a_second_table_of_clicks(tmp_path: Path) -> None:
    """A TREC-style log: searches of sessions, lists of URLs, clicks with times of their own."""
    searches = [
        {"SessionID": "s", "QueryNum": n, "Query": query, "Time": TIMES[search], "URLs": " ".join(documents)}
        for n, (search, query, documents, _) in enumerate(SEARCHES)
    ]
    clicks = [
        {"SessionID": "s", "QueryNum": n, "ClickTime": TIMES[search] + 5, "URL": clicked}
        for n, (search, _, _, clicked) in enumerate(SEARCHES)
    ]
    paths = csv(tmp_path / "q.tsv", searches, "\t"), csv(tmp_path / "c.tsv", clicks, "\t")
    report = import_columns(paths[0], tmp_path / "log", clicks=paths[1])
    assert not report.problems
    assert [row[1:] for row in shown(report.log)] == [row[1:] for row in EXPECTED]
    assert {row[0] for row in shown(report.log)} == {"s|0", "s|1"}
    with pytest.raises(DataError, match=r"the rows have no clicks: name .*\(--clicks TABLE\)"):
        import_columns(paths[0], tmp_path / "other")


def _events() -> list[dict[str, Any]]:
    rows = []
    for search, query, documents, clicked in SEARCHES:
        products = [{"sku": name, "price": at + 0.5} for at, name in enumerate(documents)]
        for kind, payload in (
            ("search_results_viewed", {"search_id": search, "query": query, "products": products}),
            ("product_clicked", {"search_id": search, "sku": clicked}),
            ("order_completed", {"search_id": search, "sku": clicked}),
            ("page_viewed", {"url": "/"}),
        ):
            rows.append({"event_name": kind, "event_time": 1000 * TIMES[search], "properties": payload})
    return rows


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_events_with_json_in_a_column(tmp_path: Path, form: str) -> None:
    path, rows = tmp_path / f"t.{form}", _events()
    if form == "jsonl":
        write_lines(path, rows)
    else:
        texts = [row | {"properties": json.dumps(row["properties"])} for row in rows]
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(texts), path)
        else:
            for row in texts:
                row["properties"] = '"' + row["properties"].replace('"', '""') + '"'
            csv(path, texts)
    report = import_columns(
        path, tmp_path / "log", amounts={"order_completed": 5}, feature_columns=["properties.products.price"]
    )
    assert shown(report.log) == EXPECTED
    assert report.aside == {"events of kind 'page_viewed'": 2}
    amount = {(row["impression_id"], row["doc_id"]): row["amount"] for row in rows_of(report.log)}
    assert {key for key, value in amount.items() if value == 5} == {("s1", "y"), ("s2", "v")}
    assert open_log(report.log).feature_names == ("properties.products.price",)
    log = open_log(report.log)
    assert log.split().features[:, 0].tolist() == [
        0.5,
        2.5,
        1.5,
        0.5,
        1.5,
        2.5,
    ]  # hat: v w x; red shoes: x y z


def test_kinds_of_events_can_be_named(tmp_path: Path) -> None:
    write_lines(tmp_path / "t.jsonl", _events())
    events = Events(clicks=("order_completed",))
    report = import_columns(tmp_path / "t.jsonl", tmp_path / "log", events=events)
    assert report.clicks == 2
    assert set(report.aside) == {"events of kind 'product_clicked'", "events of kind 'page_viewed'"}


def test_features_of_the_table_without_what_is_known_after_a_click(tmp_path: Path) -> None:
    rows = []
    for search in range(40):
        for position in range(1, 5):
            clicked = (search + position) % 4 == 0
            rows.append({
                "srch_id": search, "site_id": 7, "prop_id": (search + position) % 9, "position": position,
                "price": "NULL" if position == 2 else 10 * position, "star": position % 2, "name": "inn",
                "click_bool": int(clicked), "gross": 99.5 if clicked else "NULL",
                "random_bool": int(search % 2),
            })  # fmt: skip
    path = csv(tmp_path / "t.csv", rows)
    report = import_columns(path, tmp_path / "log", feature_columns=["auto"])
    log = open_log(report.log)
    assert log.feature_names == ("price", "star")
    assert log.randomised == ("production-randomised",)
    assert any("known only after a click: gross" in hint for hint in report.hints)
    assert any("not features: site_id" in hint for hint in report.hints)
    chosen = import_columns(
        path, tmp_path / "other", feature_columns=["pri*"], options=ImportOptions(overwrite=True)
    )
    assert open_log(chosen.log).feature_names == ("price",)
    text = import_columns(path, tmp_path / "text", feature_columns=["name"])
    assert {row["name"] for row in rows_of(text.log, "features")} == {"inn"}
    with pytest.raises(DataError, match="no column is called 'nothing'"):
        import_columns(path, tmp_path / "third", feature_columns=["nothing"])


def test_a_file_without_names_of_columns(tmp_path: Path) -> None:
    lines = [
        f"{search}\t{query}\t{position}\t{document}\t{int(document == clicked)}"
        for search, query, documents, clicked in SEARCHES
        for position, document in enumerate(documents, 1)
    ]
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"clicked could be c5 \(its name does not say"):
        import_columns(tmp_path / "t.tsv", tmp_path / "log")
    columns = Columns.parse("impression_id=c1, query_id=c2, position=c3, doc_id=c4, clicked=c5")
    report = import_columns(tmp_path / "t.tsv", tmp_path / "log", columns=columns)
    assert shown(report.log) == EXPECTED


def test_times_of_many_kinds_in_one_column(tmp_path: Path) -> None:
    texts = [
        str(NOON), str(NOON * 1000), f"{NOON}.5", "2024-05-01 12:00:00 UTC", "2024-05-01 12:00:00+00",
        "2024-05-01T12:00:00.123456789Z", "01/May/2024:12:00:00 +0000", "NULL",
    ]  # fmt: skip
    rows = [
        {"search_id": number, "query": "q", "rank": rank, "item_id": rank, "clicks": rank - 1, "ts": text}
        for number, text in enumerate(texts)
        for rank in (1, 2)
    ]
    report = import_columns(csv(tmp_path / "t.csv", rows), tmp_path / "log")
    times = {row["impression_id"]: row["timestamp"] for row in rows_of(report.log)}
    assert counts(report) == {"missing_times": 1}
    assert {time.replace(microsecond=0) for time in times.values() if time} == {
        datetime(2024, 5, 1, 12, tzinfo=UTC)
    }


def test_dates_with_slashes_need_a_day_after_the_twelfth(tmp_path: Path) -> None:
    def rows(days: list[str]) -> list[dict[str, Any]]:
        return [
            {"search_id": n, "query": "q", "rank": rank, "item_id": rank, "clicks": rank - 1, "date": day}
            for n, day in enumerate(days)
            for rank in (1, 2)
        ]

    path = csv(tmp_path / "t.csv", rows(["5/1/2024 12:00", "5/13/2024 12:00"]))
    first = import_columns(path, tmp_path / "log")
    assert [row["timestamp"].day for row in rows_of(first.log)] == [1, 1, 13, 13]
    path = csv(tmp_path / "t.csv", rows(["2024-05-01", "2024-05-02", "5/1/2024"]))
    options = ImportOptions(max_loss=1.0)
    unclear = import_columns(path, tmp_path / "unclear", options=options)
    assert "whether the day or the month comes first is not known" in str(unclear.problems[0])


def test_relative_times_are_not_times(tmp_path: Path) -> None:
    roles = {"search": "srch_id", "query": "q", "position": "rank", "document": "sku", "clicked": "click"}
    rows = [row | {"time": 17} for row in flat(**roles, time="time")]
    report = import_columns(csv(tmp_path / "t.csv", rows), tmp_path / "log")
    assert any("time does not hold dates" in hint for hint in report.hints)
    assert {row["timestamp"] for row in rows_of(report.log)} == {None}
