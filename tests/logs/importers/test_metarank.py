"""Metarank: ranking and interaction events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.logs import MetarankFields, import_metarank
from tests.logs.importers.reading import counts, examples, rows_of, shown, write_lines

pytestmark = pytest.mark.usefixtures("any_loss")


def ranking(number: int, **changes: Any) -> dict[str, Any]:
    """A ranking as Metarank documents it."""
    good = {
        "event": "ranking",
        "id": f"i{number}",
        "timestamp": str(1_714_564_800_000 + number),
        "user": "user1",
        "session": "session1",
        "fields": [{"name": "query", "value": "cat"}, {"name": "policy", "value": "a"}],
        "items": [{"id": "x", "relevancy": 2.0}, {"id": "y", "fields": [{"name": "relevancy", "value": 1}]}],
    }
    return good | changes


def interaction(number: int, item: str = "x", **changes: Any) -> dict[str, Any]:
    """An interaction as Metarank documents it."""
    good = {
        "event": "interaction",
        "id": f"e{number}",
        "ranking": f"i{number}",
        "timestamp": 1_714_564_900_000,
        "type": "click",
        "item": item,
    }
    return good | changes


def imported(folder: Path, events: list[Any], **options: Any) -> Any:
    return import_metarank(write_lines(folder / "events.jsonl", events), folder / "log", **options)


def test_a_clean_log_in_any_order(tmp_path: Path) -> None:
    item = {"event": "item", "id": "7", "timestamp": "0", "item": "x", "fields": []}
    events = [interaction(1, "y"), item, ranking(1), interaction(1, type="purchase"), {"event": "user"}]
    report = imported(tmp_path, events)
    assert shown(report.log) == [("i1", "cat", "a", 1, "x", False), ("i1", "cat", "a", 2, "y", True)]
    assert rows_of(report.log)[0]["timestamp"].isoformat() == "2024-05-01T12:00:00.001000+00:00"
    assert report.problems == ()
    assert report.aside == {"interactions of type 'purchase'": 1, "user events": 1}
    assert report.features == 0
    assert report.candidates == 0


def test_scores_are_read_from_either_place_on_request(tmp_path: Path) -> None:
    report = imported(tmp_path, [ranking(1)], fields=MetarankFields(score="relevancy"))
    assert [(row["doc_id"], row["score"]) for row in rows_of(report.log, "candidates")] == [
        ("x", 2.0),
        ("y", 1.0),
    ]


def test_other_fields_and_types(tmp_path: Path) -> None:
    fields = [{"name": "q", "value": 7}, {"name": "variant", "value": "b"}]
    report = imported(
        tmp_path,
        [ranking(1, fields=fields), interaction(1, type="like"), interaction(1, "y", type="click")],
        fields=MetarankFields(query="q", policy="variant"),
        clicks=["like"],
    )
    assert shown(report.log) == [("i1", "7", "b", 1, "x", True), ("i1", "7", "b", 2, "y", False)]


def test_a_default_policy(tmp_path: Path) -> None:
    fields = [{"name": "query", "value": "cat"}]
    report = imported(tmp_path, [ranking(1, fields=fields), ranking(2)], policy="old")
    assert {row[0]: row[2] for row in shown(report.log)} == {"i1": "old", "i2": "a"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (ranking(2, event="rank"), "the event is 'rank'; expected ranking, interaction, item or user"),
        ({}, "the event is None"),
        (ranking(2, id=None), "no id"),
        (ranking(2, fields={"query": "cat"}), "fields is not a list of"),
        (ranking(2, items="x"), "items is not a list"),
        (ranking(2, items=[{"id": "x"}, "y"]), "no id of an item"),
        (ranking(2, timestamp="noon"), "timestamp is 'noon'"),
        (interaction(1, item=None), "no item"),  # type: ignore[arg-type]
        (interaction(1, type=None), "no type"),
        ("{}{}", "not JSON"),
    ],
)
def test_broken_lines(tmp_path: Path, broken: Any, reason: str) -> None:
    report = imported(tmp_path, [ranking(1), broken])
    assert counts(report) == {"broken_lines": 1}
    assert report.rows == 2
    assert f"events.jsonl, line 2: {reason}" in examples(report, "broken_lines")[0]


def test_scores_that_are_missing_are_broken_lines(tmp_path: Path) -> None:
    events = [ranking(1), ranking(2, items=[{"id": "x"}])]
    report = imported(tmp_path, events, fields=MetarankFields(score="relevancy"))
    assert examples(report, "broken_lines")[0].endswith(
        "line 2: an item's 'relevancy' is None; expected a finite number, or -inf"
    )


def test_defects_are_counted(tmp_path: Path) -> None:
    events = [
        ranking(1),
        ranking(2, items=[]),
        interaction(1),
        interaction(1),
        interaction(1, "z"),
        interaction(5),
        interaction(1, ranking=None),
    ]
    report = imported(tmp_path, events)
    assert counts(report) == {
        "empty_impressions": 1,
        "clicks_without_impression": 2,
        "clicks_not_shown": 1,
        "repeated_clicks": 1,
    }
    assert report.clicks + sum(problem.left_out for problem in report.problems) == 1 + 5


def test_a_log_without_rankings_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no impression could be read"):
        imported(tmp_path, [interaction(1)])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("auto", ["cat", "i2"]),
        ("ranking", ["i1", "i2"]),
        ("session", ["session1", "s2"]),
        ("user", ["user1", "user1"]),
        ("none", ["browse", "browse"]),
    ],
)
def test_rankings_without_a_query(tmp_path: Path, query: str, expected: list[str]) -> None:
    plain = [{"name": "policy", "value": "a"}]
    events = [ranking(1), ranking(2, fields=plain, session="s2", items=[{"id": "z"}])]
    report = imported(tmp_path, events, fields=MetarankFields(query=query))
    queries = {row[0]: row[1] for row in shown(report.log)}
    assert [queries["i1"], queries["i2"]] == expected
    assert report.problems == ()
    assert any("1 rankings have no query" in hint for hint in report.hints) == (query == "auto")


def test_a_field_for_the_query_that_is_missing_is_a_broken_line(tmp_path: Path) -> None:
    report = imported(tmp_path, [ranking(1), ranking(2, fields=[])], fields=MetarankFields(query="query"))
    assert examples(report, "broken_lines")[0].endswith("line 2: no field 'query'")


def item(name: str, time: int = 0, **fields: Any) -> dict[str, Any]:
    """An item as Metarank documents it."""
    listed = [{"name": field, "value": value} for field, value in fields.items()]
    return {"event": "item", "id": f"{name}{time}", "timestamp": time, "item": name, "fields": listed}


def test_documents_become_features(tmp_path: Path) -> None:
    day = 86_400_000
    latest = 1_714_564_900_000
    events = [
        ranking(1),
        interaction(1),
        item("x", 1000, price=2.5, genre="drama", tags=["b", "a"], sale=True),
        item("y", 1000, price=9, genre="comedy", tags=[], vector=[1, 2], day="2024-04-30T00:00:00Z"),
        item("x", 500, price=1.0),  # older
        item("y", 2000, price=4, note={"a": 1}),
        {"event": "ranking", "id": "l", "timestamp": latest, "items": [{"id": "x"}]},
    ]
    report = imported(tmp_path, events, policy="p", fields=MetarankFields(query="ranking"))
    rows = {(row.pop("query_id"), row.pop("doc_id")): row for row in rows_of(report.log, "features")}
    assert set(rows) == {("i1", "x"), ("i1", "y"), ("l", "x")}
    x, y = rows["i1", "x"], rows["i1", "y"]
    assert rows["l", "x"] == x
    assert (x["price"], y["price"]) == (2.5, 4.0)
    assert (x["genre=drama"], x["genre=comedy"], y["genre=comedy"]) == (1, 0, 1)
    assert (x["tags=a"], x["tags=b"], x["tags:count"], y["tags:count"]) == (1, 1, 2, 0)
    assert (x["sale"], x["sale:missing"], y["sale"], y["sale:missing"]) == (1, 0, 0, 1)
    assert (y["vector[0]"], y["vector[1]"], x["vector:missing"]) == (1, 2, 1)
    age = (latest - 1_714_435_200_000) / day
    assert y["day:age"] == pytest.approx(age)
    assert not any(name.startswith("note") for name in x)
    assert "price:missing" not in x


def test_numbers_of_any_size_become_features(tmp_path: Path) -> None:
    """Whole numbers of 400 digits ended the import with an OverflowError."""
    huge, largest = int("9" * 400), float(np.finfo(np.float32).max)
    events = [ranking(1), item("x", price=huge, sizes=[1, -huge]), item("y", price=-huge, sizes=[2])]
    rows = {row["doc_id"]: row for row in rows_of(imported(tmp_path, events).log, "features")}
    assert (rows["x"]["price"], rows["y"]["price"]) == (largest, -largest)
    assert rows["x"]["sizes:mean"] == pytest.approx(-largest / 2)


def test_documents_with_half_characters_are_broken_lines(tmp_path: Path) -> None:
    """They became names of features, which no file can hold."""
    events = [ranking(1), item("x", genre="\ud800"), item("x", tags=["\udfff"]), item("x", price=1.0)]
    report = imported(tmp_path, events)
    assert counts(report)["broken_lines"] == 2


def test_many_categories_are_hashed_and_text_is_measured(tmp_path: Path) -> None:
    events = [ranking(1, items=[{"id": f"d{i}"} for i in range(200)])]
    events += [
        item(f"d{i}", maker=f"maker {i % 60}", title=f"title number {i}", tags=[f"t{i}", f"t{i + 1}"])
        for i in range(200)
    ]
    report = imported(tmp_path, events)
    rows = rows_of(report.log, "features")
    names = [name for name in rows[0] if name not in ("query_id", "doc_id")]
    assert sum(name.startswith("maker#") for name in names) == 32
    assert sum(name.startswith("tags#") for name in names) == 32
    assert {"title:characters", "title:words", "tags:count"} <= set(names)
    assert all(sum(row[f"maker#{n:02}"] for n in range(32)) == 1 for row in rows)
    assert all(sum(row[f"tags#{n:02}"] for n in range(32)) == row["tags:count"] == 2 for row in rows)
    again = imported(tmp_path / "x", events) if (tmp_path / "x").mkdir() is None else None
    assert again is not None
    assert rows_of(again.log, "features") == rows


def test_documents_can_be_left_alone(tmp_path: Path) -> None:
    report = imported(tmp_path, [ranking(1), item("x", price=1)], fields=MetarankFields(items=False))
    assert report.features == 0
    assert report.aside == {"item events": 1}


def test_amounts(tmp_path: Path) -> None:
    events = [
        ranking(1),
        interaction(1, "x"),
        interaction(1, "x", type="purchase"),
        interaction(1, "y", type="like"),
    ]
    report = imported(tmp_path, events, amounts={"purchase": 5, "like": 0.5})
    rows = {row["doc_id"]: (row["clicked"], row["amount"]) for row in rows_of(report.log)}
    assert rows == {"x": (True, 5.0), "y": (False, 0.5)}
    assert report.problems == ()


@pytest.mark.parametrize(
    ("event", "command"),
    [
        ({"action_name": "click", "query_id": "i1"}, "ubi"),
        ({"index": {"_index": "ubi_queries"}}, "ubi"),
        ({"impression_id": "i", "position": 1, "doc_id": "x", "clicked": 1}, "columns"),
    ],
)
def test_files_of_other_programs_are_recognised(tmp_path: Path, event: Any, command: str) -> None:
    with pytest.raises(DataError, match=f"line 1: this looks like .*: use `rankloop import {command}`"):
        imported(tmp_path, [event])
