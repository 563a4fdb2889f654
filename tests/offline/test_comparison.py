"""One word on a comparison: better, worse, or how much more is needed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rankloop.offline import Comparison, Difference, PolicyEstimate, ValueInterval


def interval(value: float, half: float) -> ValueInterval:
    return ValueInterval(value, value - half, value + half, half / 2, value - half / 2, value + half / 2)


def comparison(value: float, half: float, *, unseen: float = 0.0, impressions: int = 1_000) -> Comparison:
    gain = interval(value, half)
    new = PolicyEstimate("new", "sorted", interval(1.0, 0.1), 500.0, 0.03, 0.9, 1.2)
    return Comparison(
        measure="dcg@5",
        new=new,
        against=replace(new, name="old", ranking="drawn", outside=0.01),
        difference=Difference(gain, gain.low - unseen, gain.high + unseen),
        impressions=impressions,
        queries=100,
        guess=0.3,
        support=0.01,
        estimator="intervention-aware",
        notes=("a note",),
    )


@pytest.mark.parametrize(
    ("value", "half", "unseen", "kind", "more", "text"),
    [
        (0.2, 0.1, 0.05, "better", 0, "new is better than old."),
        (-0.2, 0.1, 0.05, "worse", 0, "new is worse than old."),
        # Intervals shrink with √T: (0.3 / 0.2)² − 1 = 1.25 logs more, told with two digits.
        (0.2, 0.3, 0.0, "undecided", 1_300, "Undecided: about 1,300 more impressions are needed."),
        (-0.2, 0.3, 0.0, "undecided", 1_300, "Undecided: about 1,300 more impressions are needed."),
        (0.02, 0.3, 0.0, "undecided", None, "Undecided: the difference is too small to tell; more than 100"),
        (0.0, 0.3, 0.0, "undecided", None, "Undecided: the difference is too small to tell"),
        (0.0, 0.0, 0.0, "undecided", None, "Both policies rank alike"),
        # The clicks say better, but what was not seen could make it worse.
        (0.2, 0.1, 0.15, "undecided", None, "Undecided: new is better than old if the documents about"),
        (-0.2, 0.1, 0.15, "undecided", None, "Undecided: new is worse than old if the documents about"),
    ],
)
def test_verdict(value: float, half: float, unseen: float, kind: str, more: int | None, text: str) -> None:
    verdict = comparison(value, half, unseen=unseen).verdict
    assert (verdict.kind, verdict.more) == (kind, more)
    assert verdict.text.startswith(text)


def test_the_share_outside_the_support_is_said_where_it_decides() -> None:
    assert (
        "3.0% of what it shows (and 1.0% of what the other shows)"
        in comparison(0.2, 0.1, unseen=0.15).verdict.text
    )


def test_as_json() -> None:
    found = json.loads(json.dumps(comparison(0.2, 0.1).to_dict()))
    assert found["difference"]["estimate"]["value"] == 0.2
    assert list(found["new"]["estimate"]) == ["value", "low", "high", "error", "same_low", "same_high"]
    assert found["verdict"]["kind"] == "better"
    assert found["notes"] == ["a note"]
