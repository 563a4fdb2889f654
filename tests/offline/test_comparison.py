"""One word on a comparison: better, worse, or how much more is needed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rankloop.errors import RankloopError
from rankloop.offline import (
    Comparison,
    Difference,
    PolicyEstimate,
    ValueInterval,
    VerdictEvidence,
    VerdictKind,
    exit_code,
)


def interval(value: float, half: float) -> ValueInterval:
    return ValueInterval(value, value - half, value + half, half / 2, value - half / 2, value + half / 2)


FIRM = VerdictEvidence(bias_estimated=True, explores=True)
ASSUMED = VerdictEvidence(bias_estimated=False, explores=True)
STATIC = VerdictEvidence(bias_estimated=True, explores=False)


def comparison(
    value: float,
    half: float,
    *,
    unseen: float = 0.0,
    impressions: int = 1_000,
    evidence: VerdictEvidence = FIRM,
    alike: bool = False,
) -> Comparison:
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
        evidence=evidence,
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
def test_verdict(value: float, half: float, unseen: float, kind: str, more: int | None, text: str) -> None:
    verdict = comparison(value, half, unseen=unseen).verdict
    assert (verdict.kind, verdict.more) == (kind, more)
    assert verdict.text.startswith(text)


@pytest.mark.parametrize("value", [1e-18, -1e-18, 1e-8, 0.0])
def test_rounding_never_decides(value: float) -> None:
    """It printed "difference 0.0000 … better" for a rounding error of 1e-18; now it is undecided."""
    assert comparison(value, abs(value) / 2).verdict.kind == "undecided"


def test_policies_that_rank_alike_are_the_same_whatever_was_assumed() -> None:
    """Was "undecided"; a rounding error was even "better". Now there is a word for it."""
    for evidence in (FIRM, ASSUMED, STATIC):
        verdict = comparison(0.0, 0.0, evidence=evidence, alike=True).verdict
        assert verdict.kind is VerdictKind.SAME
        assert verdict.text == "Same: new and old rank in the same way, so there is no difference to find."
        assert (verdict.more, verdict.test) == (None, None)


@pytest.mark.parametrize(("value", "word"), [(0.2, "better"), (-0.2, "worse")])
def test_without_an_estimated_bias_or_exploration_a_verdict_only_leans(value: float, word: str) -> None:
    """Both printed a firm "better", with the reason for doubt in a note at best; now the verdict has it."""
    assumed = comparison(value, 0.1, evidence=ASSUMED).verdict
    assert assumed.kind == f"leans {word}"
    assert assumed.text.startswith(
        f"new leans {word} than old, but not firmly: the bias was assumed, not estimated from clicks. Est"
    )
    static = comparison(value, 0.1, evidence=STATIC).verdict
    assert static.kind == f"leans {word}"
    assert "the log never explores (no query ever had two different rankings). Vary the" in static.text
    neither = comparison(value, 0.1, evidence=VerdictEvidence(bias_estimated=False, explores=False)).verdict
    assert "estimated from clicks and the log never explores" in neither.text
    assert "Also, the bias was assumed" in comparison(value, 0.3, evidence=ASSUMED).verdict.text
    assert "Also, the bias was assumed" in comparison(value, 0.1, unseen=0.2, evidence=ASSUMED).verdict.text


def test_what_an_ab_test_would_need() -> None:
    """Errors of 0.05 from 500 impressions of each policy itself: a variance of 1.25 per impression."""
    verdict = comparison(0.2, 0.3).verdict
    expected = (1.6449 + 0.8416) ** 2 * 2 * 0.05**2 * 500 / 0.2**2
    assert verdict.test is not None
    assert expected <= verdict.test <= 1.1 * expected
    assert f"An A/B test of about {verdict.test:,} impressions per arm would settle it." in verdict.text
    assert comparison(1e-7, 0.3).verdict.test is None
    assert comparison(0.2, 0.1).verdict.test is None


def test_exit_codes() -> None:
    """One code per kind, 0 only for what was required; 1 to 3 are other errors."""
    codes = [exit_code(kind) for kind in VerdictKind]
    assert codes[-1] == 0
    assert len({*codes}) == len(codes)
    assert not {1, 2, 3}.intersection(codes)
    for required in VerdictKind:
        order = list(VerdictKind)
        passed = [kind for kind in VerdictKind if exit_code(kind, required) == 0]
        assert passed == order[order.index(required) :]
    with pytest.raises(RankloopError, match=r"a verdict is one of worse, leans-worse, .*, not 'good'"):
        VerdictKind.read("good")


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
    assert set(found["evidence"]) == {"bias_estimated", "explores", "several_queries", "complete"}
    assert all(found["evidence"].values())
    assert found["notes"] == ["a note"]
