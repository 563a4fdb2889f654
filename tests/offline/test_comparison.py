"""One word on a comparison: better, worse, or how much more is needed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rankloop.errors import RankloopError
from rankloop.evidence import Assumption, DecisionKind, exit_code
from rankloop.offline import Comparison, Difference, PolicyEstimate
from rankloop.offline.comparison import assumptions_of
from rankloop.value.uncertainty import ValueInterval


def interval(value: float, half: float) -> ValueInterval:
    return ValueInterval(value, value - half, value + half, half / 2, value - half / 2, value + half / 2)


FIRM = assumptions_of(bias_estimated=True, explores=True)
ASSUMED = assumptions_of(bias_estimated=False, explores=True)
STATIC = assumptions_of(bias_estimated=True, explores=False)


def comparison(
    value: float,
    half: float,
    *,
    unseen: float = 0.0,
    impressions: int = 1_000,
    assumptions: tuple[Assumption, ...] = FIRM,
    alike: bool = False,
) -> Comparison:
    gain = interval(value, half)
    new = PolicyEstimate("new", "sorted", interval(1.0, 0.1), 500.0, 0.03, 0.9, 1.2)
    return Comparison(
        metric="dcg@5",
        new=new,
        against=replace(new, name="old", ranking="drawn", outside=0.01),
        difference=Difference(gain, gain.low - unseen, gain.high + unseen),
        impressions=impressions,
        queries=100,
        guess=0.3,
        support=0.01,
        estimator="intervention-aware",
        notes=("a note",),
        assumptions=assumptions,
        alike=alike,
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
        # The clicks say better, but what was not seen could make it worse.
        (0.2, 0.1, 0.15, "undecided", None, "Undecided: new is better than old if the documents about"),
        (-0.2, 0.1, 0.15, "undecided", None, "Undecided: new is worse than old if the documents about"),
    ],
)
def test_decision(value: float, half: float, unseen: float, kind: str, more: int | None, text: str) -> None:
    found = comparison(value, half, unseen=unseen)
    assert (found.decision.kind, found.decision.more) == (kind, more)
    assert found.conclusion.startswith(text)


@pytest.mark.parametrize("value", [1e-18, -1e-18, 1e-8, 0.0])
def test_rounding_never_decides(value: float) -> None:
    """It printed "difference 0.0000 … better" for a rounding error of 1e-18; now it is undecided."""
    assert comparison(value, abs(value) / 2).decision.kind == "undecided"


def test_policies_that_rank_alike_are_the_same_whatever_was_assumed() -> None:
    """Was "undecided"; a rounding error was even "better". Now there is a word for it."""
    for assumptions in (FIRM, ASSUMED, STATIC):
        found = comparison(0.0, 0.0, assumptions=assumptions, alike=True)
        assert found.decision.kind is DecisionKind.SAME
        assert (
            found.conclusion == "Same: new and old rank in the same way, so there is no difference to find."
        )
        assert (found.decision.more, found.decision.test) == (None, None)


@pytest.mark.parametrize(("value", "word"), [(0.2, "better"), (-0.2, "worse")])
def test_without_an_estimated_bias_or_exploration_a_decision_only_leans(value: float, word: str) -> None:
    """Both printed a firm "better", with the reason for doubt in a note at best; now the decision has it."""
    assumed = comparison(value, 0.1, assumptions=ASSUMED)
    assert assumed.decision.kind == f"leans {word}"
    assert assumed.conclusion.startswith(
        f"new leans {word} than old, but not firmly: the bias was assumed, not estimated from clicks. Est"
    )
    static = comparison(value, 0.1, assumptions=STATIC)
    assert static.decision.kind == f"leans {word}"
    assert (
        "the log never explores (hardly a query that came again had another ranking). Vary the"
        in static.conclusion
    )
    neither = comparison(value, 0.1, assumptions=assumptions_of(bias_estimated=False, explores=False))
    assert "estimated from clicks and the log never explores" in neither.conclusion
    assert "Also, the bias was assumed" in comparison(value, 0.3, assumptions=ASSUMED).conclusion
    assert "Also, the bias was assumed" in comparison(value, 0.1, unseen=0.2, assumptions=ASSUMED).conclusion


def test_what_an_ab_test_would_need() -> None:
    """Errors of 0.05 from 500 impressions of each policy itself: a variance of 1.25 per impression."""
    found = comparison(0.2, 0.3)
    test = found.decision.test
    expected = (1.6449 + 0.8416) ** 2 * 2 * 0.05**2 * 500 / 0.2**2
    assert test is not None
    assert expected <= test <= 1.1 * expected
    assert f"An A/B test of about {test:,} impressions per arm would settle it." in found.conclusion
    assert comparison(1e-7, 0.3).decision.test is None
    assert comparison(0.2, 0.1).decision.test is None


def test_exit_codes() -> None:
    """One code per kind, 0 only for what was required; 1 to 3 are other errors."""
    codes = [exit_code(kind) for kind in DecisionKind]
    assert codes[-1] == 0
    assert len({*codes}) == len(codes)
    assert not {1, 2, 3}.intersection(codes)
    for required in DecisionKind:
        order = list(DecisionKind)
        passed = [kind for kind in DecisionKind if exit_code(kind, required) == 0]
        assert passed == order[order.index(required) :]
    with pytest.raises(RankloopError, match=r"a decision is one of worse, leans-worse, .*, not 'good'"):
        DecisionKind.read("good")


def test_the_share_outside_the_support_is_said_where_it_decides() -> None:
    assert (
        "3.0% of what it shows (and 1.0% of what the other shows)"
        in comparison(0.2, 0.1, unseen=0.15).conclusion
    )


def test_as_json() -> None:
    found = json.loads(json.dumps(comparison(0.2, 0.1).to_dict()))
    assert found["difference"]["estimate"]["value"] == 0.2
    assert list(found["new"]["estimate"]) == ["value", "low", "high", "error", "same_low", "same_high"]
    assert (found["decision"]["kind"], found["decision"]["text"]) == ("better", "new is better than old.")
    assert [one["name"] for one in found["assumptions"]] == ["bias", "exploration", "queries", "complete"]
    assert {one["state"] for one in found["assumptions"]} == {"held"}
    assert found["notes"] == ["a note"]
