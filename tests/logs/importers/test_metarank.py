"""Metarank: ranking and interaction events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    assert report.aside == {"item events": 1, "interactions of type 'purchase'": 1, "user events": 1}
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
        (ranking(2, fields=[]), "no field 'query'"),
        (
            ranking(2, fields=[{"name": "query", "value": "cat"}]),
            "no field 'policy', and no policy was given",
        ),
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
