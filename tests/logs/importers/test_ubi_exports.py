"""UBI: impression events, bulk files, exports of search engines, and amounts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import import_ubi
from tests.logs.importers.reading import counts, examples, rows_of, shown, write_lines
from tests.logs.importers.ubi_records import at, click, imported, query

pytestmark = pytest.mark.usefixtures("any_loss")


def view(position: int, number: int, document: str, **changes: Any) -> dict[str, Any]:
    """An impression event."""
    return at(position, number, document) | {"action_name": "impression"} | changes


def bare(number: int, **changes: Any) -> dict[str, Any]:
    """A query without hits, as client-side tracking logs it."""
    record = query(number, **changes)
    del record["query_response_hit_ids"]
    return record


@pytest.mark.parametrize("base", [0, 1])
def test_impression_events_are_what_was_shown(tmp_path: Path, base: int) -> None:
    events = [view(base + i, 1, document) for i, document in enumerate("yxz")] + [at(base + 1, 1, "x")]
    report = imported(tmp_path, [bare(1)], events)
    assert [row[3:] for row in shown(report.log)] == [(1, "y", False), (2, "x", True), (3, "z", False)]
    assert report.problems == ()
    assert report.hints == ("What 1 impressions showed is taken from impression events, not hits.",)


def test_positions_count_from_0_or_1_by_application(tmp_path: Path) -> None:
    events = [view(n, n + 1, "x", application="a") for n in range(2)]
    events += [view(n, n + 4, "x", application="b") for n in range(1, 3)]
    report = imported(tmp_path, [bare(n) for n in (1, 2, 5, 6)], events)
    assert {row[0]: row[3] for row in shown(report.log)} == {"i1": 1, "i2": 2, "i5": 1, "i6": 2}


def test_a_reused_query_id_is_several_impressions(tmp_path: Path) -> None:
    """The client shows one list, and then another under the same id: neither is lost."""

    def then(second: int, position: int, document: str, text: str | None = None) -> dict[str, Any]:
        time = f"2024-05-01T12:00:{second:02}Z"
        return view(position, 1, document, timestamp=time, user_query=text)

    events = [then(1, 1, "x"), then(2, 2, "y"), then(9, 1, "z"), then(9, 2, "y"), then(20, 3, "x", "dog")]
    clicks = [
        click(1, "y", timestamp="2024-05-01T12:00:05Z"),
        click(1, "y", timestamp="2024-05-01T12:00:15Z"),
        click(1, "z", timestamp="2024-05-01T12:00:25Z"),
    ]
    report = imported(
        tmp_path, [bare(1, user_query="cat", timestamp="2024-05-01T12:00:00Z")], events + clicks
    )
    assert shown(report.log) == [
        ("i1", "cat", "a", 1, "x", False),
        ("i1", "cat", "a", 2, "y", True),
        ("i1#2", "cat", "a", 1, "z", True),
        ("i1#2", "cat", "a", 2, "y", True),
        ("i1#3", "dog", "a", 3, "x", False),
    ]
    assert counts(report).get("clicks_not_shown", 0) == 0
    assert "1 query ids have several lists of results" in report.hints[1]


def test_impression_events_without_a_query_are_counted(tmp_path: Path) -> None:
    events = [view(1, 1, "x"), view(1, 7, "x"), view(2, 7, "y"), view(1, 8, "x", user_query="dog")]
    report = imported(tmp_path, [bare(1)], events, policy="p")
    assert {row[0]: row[1] for row in shown(report.log)} == {"i1": "cat", "i8": "dog"}
    assert counts(report) == {"unknown_queries": 2}


@pytest.mark.parametrize(("source", "documents"), [("auto", "z"), ("impressions", "z"), ("hits", "xy")])
def test_hits_or_impression_events(tmp_path: Path, source: str, documents: str) -> None:
    report = imported(tmp_path, [query(1)], [view(1, 1, "z")], shown=source)
    assert "".join(row[4] for row in shown(report.log)) == documents
    with pytest.raises(DataError, match="what was shown is taken from auto, hits, impressions, not from 'x'"):
        imported(tmp_path, [query(1)], [], shown="x")


def test_one_bulk_file(tmp_path: Path) -> None:
    lines: list[Any] = []
    for record in (query(1), click(1, "y"), query(2), click(2, "x")):
        index = "ubi_events" if "action_name" in record else "ubi_queries"
        lines += [{"index": {"_index": index}}, record]
    report = import_ubi(write_lines(tmp_path / "bulk.ndjson", lines), tmp_path / "log")
    assert (report.impressions, report.clicks, report.problems) == (2, 2, ())


@pytest.mark.parametrize("form", ["response", "pretty", "array", "elasticdump", "scroll"])
def test_exports_of_search_engines(tmp_path: Path, form: str) -> None:
    hits = [
        {"_index": "ubi_queries", "_id": "1", "_source": query(1)},
        {"_index": "ubi_queries", "_id": "2", "_source": query(2)},
        {"_index": "ubi_events", "_id": "3", "_source": click(2, "y")},
    ]
    whole = {"took": 3, "hits": {"total": {"value": 3}, "hits": hits}}
    text = {
        "response": json.dumps(whole),
        "pretty": json.dumps(whole, indent=2),
        "array": json.dumps(hits),
        "elasticdump": "\n".join(map(json.dumps, hits)),
        "scroll": "\n".join(json.dumps({"_scroll_id": "s", "hits": {"hits": [hit]}}) for hit in hits),
    }[form]
    (tmp_path / "export.json").write_text(text)
    report = import_ubi(tmp_path / "export.json", tmp_path / "log")
    assert (report.impressions, report.rows, report.clicks, report.problems) == (2, 4, 1, ())


@pytest.mark.parametrize("hits", ['"[""x"", ""y""]"', '"x,y"', '"x, y"', "\"['x', 'y']\"", '"[x, y]"'])
def test_csv_exports(tmp_path: Path, hits: str) -> None:
    (tmp_path / "queries.csv").write_text(
        "_id,_index,query_id,user_query,timestamp,query_response_hit_ids\n"
        f'1,ubi_queries,i1,cat,"Dec 10, 2024 @ 00:01:29.378",{hits}\n'
    )
    (tmp_path / "events.csv").write_text(
        "query_id,action_name,timestamp,event_attributes.object.object_id,event_attributes.position.ordinal\n"
        "i1,click,2024-12-10T00:01:30Z,y,2\n"
    )
    report = import_ubi([tmp_path / "events.csv", tmp_path / "queries.csv"], tmp_path / "log", policy="a")
    assert shown(report.log) == [("i1", "cat", "a", 1, "x", False), ("i1", "cat", "a", 2, "y", True)]
    assert report.problems == ()


def test_a_list_of_hits_as_text_is_never_one_document(tmp_path: Path) -> None:
    report = imported(tmp_path, [query(1), query(2, query_response_hit_ids="x,y")], [])
    assert examples(report, "broken_lines")[0].endswith(
        "query_response_hit_ids is the text 'x,y'; expected a list of ids: as one id, all hits would be one "
        "document"
    )
    assert {row[4] for row in shown(report.log)} == {"x", "y"}


def test_amounts_and_dwell_times(tmp_path: Path) -> None:
    long = click(1, "y")
    long["event_attributes"]["dwell_time"] = 30.5
    events = [click(1, "x"), click(1, "x", action_name="purchase"), long, click(1, "x", action_name="view")]
    amounts = {"purchase": 5, "dwell": 0.1}
    report = imported(tmp_path, [query(1)], events, amounts=amounts)
    rows = {row["doc_id"]: (row["clicked"], row["amount"]) for row in rows_of(report.log)}
    assert rows == {"x": (True, 5.0), "y": (True, pytest.approx(3.05))}
    assert report.problems == ()
    assert report.aside == {"events of action 'view'": 1}
    with pytest.raises(DataError, match="the weight of 'purchase' is -1"):
        imported(tmp_path, [query(1)], [], amounts={"purchase": -1})


def test_files_of_other_programs_are_recognised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Metarank's events, not .*: use `rankloop import metarank`"):
        imported(tmp_path, [{"event": "ranking", "id": "i", "items": []}], [])
