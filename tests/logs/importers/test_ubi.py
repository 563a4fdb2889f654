"""UBI: queries and events as OpenSearch exports them, with all kinds of defects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs import ImportOptions, import_ubi
from rankloop.progress import Update
from tests.logs.importers.reading import counts, examples, rows_of, shown
from tests.logs.importers.ubi_records import at, click, imported, query

pytestmark = pytest.mark.usefixtures("any_loss")


def test_a_clean_log(tmp_path: Path) -> None:
    queries = [query(1), query(2, user_query="dog", query_response_hit_ids=["z"])]
    report = imported(tmp_path, queries, [click(1, "y"), click(2, "z", action_name="click_through")])
    assert shown(report.log) == [
        ("i1", "cat", "a", 1, "x", False),
        ("i1", "cat", "a", 2, "y", True),
        ("i2", "dog", "a", 1, "z", True),
    ]
    assert rows_of(report.log)[0]["timestamp"].isoformat() == "2024-05-01T12:00:01+00:00"
    assert (report.impressions, report.rows, report.clicks) == (2, 3, 2)
    assert report.problems == ()
    assert report.position_base is None
    assert "exposures will be estimated" in report.notes[0]
    assert json.loads((report.log / "import.json").read_text()) == report.to_dict()


def test_scores_of_all_candidates_and_of_hits(tmp_path: Path) -> None:
    queries = [
        query(1, query_attributes={"policy_id": "a", "scores": {"x": 1.5, "y": 0.5, "z": -1}}),
        query(2, user_query="dog", query_attributes={"policy_id": "b", "scores": [2, 1]}),
    ]
    report = imported(tmp_path, queries, [])
    rows = [tuple(row.values()) for row in rows_of(report.log, "candidates")]
    assert rows == [
        ("a", "cat", "x", 1.5),
        ("a", "cat", "y", 0.5),
        ("a", "cat", "z", -1.0),
        ("b", "dog", "x", 2.0),
        ("b", "dog", "y", 1.0),
    ]
    assert report.candidates == 5
    assert report.notes == ()


def test_a_policy_whose_scores_change_is_counted_and_the_first_are_kept(tmp_path: Path) -> None:
    def scored(number: int, x: float) -> dict[str, Any]:
        return query(number, query_attributes={"policy_id": "a", "scores": {"x": x, "y": 0.0}})

    report = imported(tmp_path, [scored(1, 1.0), scored(2, 2.0), scored(3, 0.5)], [])
    assert counts(report) == {"score_conflicts": 1}
    assert [row["score"] for row in rows_of(report.log, "candidates")] == [1.0, 0.0]
    (example,) = examples(report, "score_conflicts")
    assert example.endswith("queries.jsonl, line 3: policy 'a', query 'cat', doc 'x'")


def test_wrapped_documents(tmp_path: Path) -> None:
    wrapped = [{"_index": "ubi_queries", "_id": "1", "_source": query(1)}]
    bulk = [{"index": {"_index": "ubi_queries"}}, query(2)]
    report = imported(tmp_path, [*wrapped, *bulk], [{"create": {}}, click(2)])
    assert [row[0] for row in shown(report.log) if row[-1]] == ["i2"]
    assert report.impressions == 2
    assert report.aside == {"lines of the bulk format": 2}


@pytest.mark.parametrize("attributes", ["struct", "map", "text"])
def test_parquet(tmp_path: Path, attributes: str) -> None:
    table: dict[str, Any] = {
        "query_id": ["i1", "i2"],
        "user_query": ["cat", "dog"],
        "timestamp": pa.array([5, 6], pa.timestamp("ms")),
        "query_response_hit_ids": [["x", "y"], ["z"]],
    }
    if attributes == "struct":
        table["query_attributes"] = [
            {"policy_id": "a", "scores": {"x": 1.0, "y": 0.0}},
            {"policy_id": "a", "scores": {"z": 3.0}},
        ]
    elif attributes == "text":
        table["query_attributes"] = [
            json.dumps({"policy_id": "a", "scores": scores}) for scores in ({"x": 1.0, "y": 0.0}, [3.0])
        ]
    else:
        table["query_attributes"] = pa.array(
            [
                [("policy_id", "a"), ("scores", '{"x": 1, "y": 0}')],
                [("policy_id", "a"), ("scores", '{"z": 3}')],
            ],
            pa.map_(pa.string(), pa.string()),
        )
    pq.write_table(pa.table(table), tmp_path / "queries.parquet")
    event = {"query_id": ["i1"], "action_name": ["click"], "timestamp": pa.array([7], pa.timestamp("ms"))}
    event["event_attributes"] = [{"object": {"object_id": "y"}, "position": {"ordinal": 2}}]
    pq.write_table(pa.table(event), tmp_path / "events.parquet")
    report = import_ubi([tmp_path / "queries.parquet", tmp_path / "events.parquet"], tmp_path / "log")
    assert report.problems == ()
    assert [row[4] for row in shown(report.log) if row[-1]] == ["y"]
    assert [(row["doc_id"], row["score"]) for row in rows_of(report.log, "candidates")] == [
        ("x", 1.0),
        ("y", 0.0),
        ("z", 3.0),
    ]


def test_every_defect_of_clicks_is_counted_with_its_place(tmp_path: Path) -> None:
    events = [
        click(1, "x"),
        click(1, "x"),
        click(1, "x"),
        click(2, "not shown"),
        click(42, "x"),
        click(3, "y", query_id=None),
        click(2, "y", timestamp="2024-05-01T11:00:00Z"),
        click(1, "x", action_name="purchase"),
        {"action_name": "login", "timestamp": "2024-05-01T11:00:00Z"},
    ]
    report = imported(tmp_path, [query(1), query(2)], events)
    assert counts(report) == {
        "clicks_without_impression": 2,
        "clicks_not_shown": 1,
        "repeated_clicks": 2,
        "early_clicks": 1,
    }
    assert [row[0::4] for row in shown(report.log) if row[-1]] == [("i1", "x"), ("i2", "y")]
    assert report.aside == {"events of action 'purchase'": 1, "events of action 'login'": 1}
    path = tmp_path / "events.ndjson"
    assert examples(report, "clicks_without_impression") == (
        f"{path}, line 6: document 'y', no query_id",
        f"{path}, line 5: impression 'i42', doc 'x'",
    )
    assert examples(report, "clicks_not_shown") == (f"{path}, line 4: impression 'i2', doc 'not shown'",)
    # Every click is in the log or counted as left out.
    left_out = sum(problem.left_out for problem in report.problems)
    assert report.clicks + left_out + sum(report.aside.values()) == len(events)


@pytest.mark.parametrize("base", [0, 1])
def test_positions_of_clicks_are_detected_and_compared(tmp_path: Path, base: int) -> None:
    queries = [query(n, query_response_hit_ids=["x", "y", "z"]) for n in range(4)]
    events = [at(base, 0, "x"), at(base + 1, 1, "y"), at(base + 2, 2, "z"), at(base + 1, 3, "x")]
    report = imported(tmp_path, queries, events)
    assert counts(report) == {"disagreeing_positions": 1}
    assert examples(report, "disagreeing_positions")[0].endswith("line 4: impression 'i3', doc 'x'")
    # The document decides.
    assert [row[4] for row in shown(report.log) if row[-1]] == ["x", "y", "z", "x"]


@pytest.mark.parametrize(("base", "disagreeing"), [(None, 1), (0, 1), (1, 3)])
def test_the_base_of_click_positions_can_be_given(tmp_path: Path, base: int | None, disagreeing: int) -> None:
    """Three of four count from 0: if they are said to count from 1, it is these that disagree."""
    queries = [query(n, query_response_hit_ids=["x", "y", "z"]) for n in range(4)]
    events = [at(0, 0, "x"), at(1, 1, "y"), at(2, 2, "z"), at(1, 3, "x")]
    report = imported(tmp_path, queries, events, options=ImportOptions(position_base=base))
    assert counts(report) == {"disagreeing_positions": disagreeing}
    assert [row[3] for row in shown(report.log)] == [1, 2, 3] * 4


def test_half_a_character_is_a_broken_line(tmp_path: Path) -> None:
    report = imported(tmp_path, [query(1), query(2, user_query="cat \ud83d")], [])
    assert counts(report) == {"broken_lines": 1}
    assert "ends within a character" in examples(report, "broken_lines")[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query_id": None}, "no query_id"),
        ({"user_query": ""}, "no user_query"),
        ({"query_attributes": "{"}, "query_attributes is not JSON"),
        ({"query_attributes": 7}, "query_attributes is not an object"),
        ({"timestamp": "noon"}, "timestamp is 'noon'; expected ISO 8601"),
        ({"query_response_hit_ids": {"x": 1}}, "query_response_hit_ids is not a list"),
        ({"query_response_hit_ids": ["x", None]}, "no a hit's id"),
        (
            {"query_attributes": {"policy_id": "a", "scores": [1.0]}},
            "query_attributes.scores has 1 numbers for 2",
        ),
        (
            {"query_attributes": {"policy_id": "a", "scores": {"x": "high"}}},
            "query_attributes.scores is 'high'",
        ),
    ],
)
def test_queries_that_cannot_be_read_are_broken_lines(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    report = imported(tmp_path, [query(1), query(2, **changes), query(3)], [click(2, "x")])
    assert report.impressions == 2
    assert counts(report) == {"broken_lines": 1, "clicks_without_impression": 1}
    assert f"queries.jsonl, line 2: {reason}" in examples(report, "broken_lines")[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"action_name": None}, "neither a query nor an event: an event has action_name"),
        ({"event_attributes": {}}, "no event_attributes.object.object_id"),
        ({"event_attributes": {"object": {"object_id": ["x"]}}}, "event_attributes.object.object_id is"),
        (
            {"event_attributes": {"object": {"object_id": "x"}, "position": {"ordinal": "top"}}},
            "event_attributes.position.ordinal is 'top'; expected a whole number",
        ),
    ],
)
def test_events_that_cannot_be_read_are_broken_lines(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    report = imported(tmp_path, [query(1)], [click(1, **changes), "{", click(1, "y")])
    assert counts(report) == {"broken_lines": 2}
    assert report.clicks == 1
    assert f"events.ndjson, line 1: {reason}" in examples(report, "broken_lines")[0]


def test_impressions_that_cannot_be_used(tmp_path: Path) -> None:
    queries = [
        query(1),
        query(1),  # twice the same
        query(2, query_response_hit_ids=[]),
        query(3),
        query(3, query_response_hit_ids=["z", "w"]),  # the next page, under the same id
        query(4, query_response_hit_ids=["x", "y", "x"]),
        query(5),
        query(5, user_query="dog"),
        query(6, query_response_hit_ids="x"),  # a list of one
    ]
    events = [click(3, "x"), click(4, "x"), click(5, "x")]
    report = imported(tmp_path, queries, events)
    assert counts(report) == {
        "empty_impressions": 1,
        "duplicate_rows": 2 + 2,  # of i1, and of i5 under two queries
        "mixed_impressions": 1,
        "repeated_positions": 1,
        "repeated_documents": 1,
        "clicks_on_left_out": 2,
    }
    assert shown(report.log) == [
        ("i1", "cat", "a", 1, "x", False),
        ("i1", "cat", "a", 2, "y", False),
        ("i4", "cat", "a", 1, "x", True),
        ("i4", "cat", "a", 2, "y", False),
        ("i6", "cat", "a", 1, "x", False),
    ]
    left_out = {problem.name: problem.left_out for problem in report.problems}
    assert report.read["impressions"] == report.rows + sum(
        left_out[name]
        for name in ("duplicate_rows", "mixed_impressions", "repeated_positions", "repeated_documents")
    )


def test_only_what_was_shown(tmp_path: Path) -> None:
    report = imported(tmp_path, [query(1)], [click(1, "x"), click(1, "y")], ranks=1)
    assert shown(report.log) == [("i1", "cat", "a", 1, "x", True)]
    assert counts(report) == {"clicks_not_shown": 1}


def test_a_default_policy(tmp_path: Path) -> None:
    queries = [query(1, query_attributes=None), query(2)]
    report = imported(tmp_path, queries, [], policy="old")
    assert {row[0]: row[2] for row in shown(report.log)} == {"i1": "old", "i2": "a"}


def test_clocks(tmp_path: Path) -> None:
    times = ["2024-05-01T12:00:00Z", "2024-05-01T11:30:00Z", "2024-05-01T10:00:00Z", None]
    report = imported(tmp_path, [query(n, timestamp=time) for n, time in enumerate(times)], [])
    assert counts(report) == {"missing_times": 1, "clock_jumps": 1}
    assert examples(report, "clock_jumps")[0].endswith("queries.jsonl, line 3: impression 'i2'")
    assert report.impressions == 4


def test_a_strict_import_fails_and_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"strict import failed: 1 clicks on documents .*events.ndjson, line 1",
    ):
        imported(tmp_path, [query(1)], [click(1, "z")], options=ImportOptions(strict=True))
    assert sorted(child.name for child in tmp_path.iterdir()) == ["events.ndjson", "queries.jsonl"]
    report = imported(tmp_path, [query(1)], [click(1, "x")], options=ImportOptions(strict=True))
    assert report.clicks == 1


def test_nothing_to_import_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no impression could be read: the files are empty"):
        imported(tmp_path, [], [])
    with pytest.raises(DataError, match=r"no impression could be read: 1 lines .*line 1: no query_id"):
        imported(tmp_path, [query(1, query_id=None)], [])
    with pytest.raises(DataError, match=r"no impression is left: .*two documents at one position"):
        imported(tmp_path, [query(1), query(1, query_response_hit_ids=["v", "w"])], [])
    assert not (tmp_path / "log").exists()


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rankloop.logs.importers import pipeline

    monkeypatch.setattr(pipeline, "RECORDS_PER_UPDATE", 2)
    updates: list[Update] = []
    imported(tmp_path, [query(n) for n in range(5)], [], options=ImportOptions(progress=updates.append))
    notes = ("reading, 2 records", "reading, 4 records", "checking, 10 records", "written, 10 records")
    assert updates == [Update("import", note=note) for note in notes]


@pytest.mark.usefixtures("any_loss")
@pytest.mark.parametrize("depth", [300, 990, 100_000])
def test_an_event_with_deeply_nested_brackets_is_one_broken_line(tmp_path: Path, depth: int) -> None:
    nested = json.dumps(click(1)).replace('"click"', "[" * depth + "]" * depth)
    report = imported(tmp_path, [query(1), query(2)], [click(1), nested, click(2, "y")])
    assert report.clicks == 2
    assert report.impressions == 2
