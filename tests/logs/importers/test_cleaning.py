"""Cleaning against an implementation of its rules in plain Python."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.errors import DataError
from rankloop.logs import ImportOptions, import_columns
from tests.logs.importers.reading import counts, shown, write_lines

pytestmark = pytest.mark.usefixtures("any_loss")

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "impression_id": st.sampled_from("fghijk"),
            "query_id": st.sampled_from("qqqr"),
            "policy_id": st.just("a"),
            "position": st.integers(0, 3),
            "doc_id": st.sampled_from("xyz"),
            "clicked": st.booleans(),
            "timestamp": st.none() | st.sampled_from([0, 1800, 7200, 20_000]),
        }
    ),
    min_size=1,
    max_size=30,
)
CLICKS = st.lists(
    st.fixed_dictionaries(
        {
            "impression_id": st.sampled_from("fghijkm"),
            "doc_id": st.sampled_from("xyzw"),
            "timestamp": st.none() | st.sampled_from([0, 1800, 7200]),
        }
    ),
    max_size=15,
)
# Nothing is left of a log whose only row has no position.
NOTHING = {
    "impression_id": "i",
    "query_id": "q",
    "policy_id": "a",
    "position": 0,
    "doc_id": "x",
    "clicked": True,
    "timestamp": None,
}


def by_the_rules(
    rows: list[dict[str, Any]], clicks: list[dict[str, Any]]
) -> tuple[set[tuple[str, str, int, str, bool]], Counter[str]]:
    """What a log of these rows must be, and what must be counted."""
    found: Counter[str] = Counter()
    by_impression: dict[str, dict[tuple[int, str], list[Any]]] = {}
    for row in rows:
        if row["position"] < 1:
            found["bad_positions"] += 1
            continue
        own = by_impression.setdefault(row["impression_id"], {})
        same = own.setdefault((row["position"], row["doc_id"]), [])
        found["duplicate_rows"] += bool(same)
        same.append(row)
    kept: dict[str, dict[str, list[Any]]] = {}
    times: dict[str, int | None] = {}
    timed = []
    for impression, own in by_impression.items():
        everything = [row for same in own.values() for row in same]
        positions = [position for position, _ in own]
        if len({row["query_id"] for row in everything}) > 1:
            found["mixed_impressions"] += 1
            continue
        if len(set(positions)) < len(positions):
            found["repeated_positions"] += 1
            continue
        found["missing_positions"] += sorted(positions) != list(range(1, len(positions) + 1))
        known = [row["timestamp"] for row in everything if row["timestamp"] is not None]
        times[impression] = min(known, default=None)
        timed.append(times[impression])
        documents = kept.setdefault(impression, {})
        for (position, document), same in sorted(own.items()):
            any_click = any(row["clicked"] for row in same)
            if document in documents:
                found["repeated_documents"] += 1
                documents[document][1] |= any_click
            else:
                documents[document] = [position, any_click, same[0]["query_id"]]
    if any(time is not None for time in timed):
        found["missing_times"] = sum(time is None for time in timed)
    told = [time for time in timed if time is not None]
    found["clock_jumps"] = sum(later < earlier - 3600 for earlier, later in pairwise(told))
    clicked = set()
    for click in clicks:
        impression, document = click["impression_id"], click["doc_id"]
        if impression not in by_impression:
            found["clicks_without_impression"] += 1
        elif impression not in kept:
            found["clicks_on_left_out"] += 1
        elif document not in kept[impression]:
            found["clicks_not_shown"] += 1
        else:
            shown_at, clicked_at = times[impression], click["timestamp"]
            early = shown_at is not None and clicked_at is not None and clicked_at < shown_at
            found["early_clicks"] += early
            found["repeated_clicks"] += (impression, document) in clicked
            clicked.add((impression, document))
    log = {
        (impression, query, position, document, was or (impression, document) in clicked)
        for impression, documents in kept.items()
        for document, (position, was, query) in documents.items()
    }
    return log, +found


@settings(max_examples=25)
@given(rows=ROWS, clicks=CLICKS)
def test_a_log_follows_the_rules(rows: list[dict[str, Any]], clicks: list[dict[str, Any]]) -> None:
    """With clicks in a table of their own, the rows' own do not count."""
    expected, found = by_the_rules([row | {"clicked": row["clicked"] and not clicks} for row in rows], clicks)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = write_lines(folder / "rows.jsonl", rows)
        events = write_lines(folder / "clicks.jsonl", clicks) if clicks else None
        options = ImportOptions(position_base=1)
        if not expected:
            with pytest.raises(DataError, match="no impression is left"):
                import_columns(source, folder / "log", clicks=events, options=options)
            return
        report = import_columns(source, folder / "log", clicks=events, options=options)
        assert {(i, q, k, d, c) for i, q, _, k, d, c in shown(report.log)} == expected
    assert counts(report) == dict(found)
    assert report.impressions == len({row[0] for row in expected})
    assert report.clicks == sum(row[-1] for row in expected)
    # Every row is in the log, or counted as left out.
    of_rows = (
        "bad_positions",
        "duplicate_rows",
        "mixed_impressions",
        "repeated_positions",
        "repeated_documents",
    )
    left_out = {problem.name: problem.left_out for problem in report.problems}
    assert len(rows) == report.rows + sum(left_out.get(name, 0) for name in of_rows)
    gone = sum(left_out.get(name, 0) for name in left_out if name.startswith(("clicks_", "repeated_clicks")))
    assert not clicks or len(clicks) == report.clicks + gone
