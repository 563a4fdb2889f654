"""The one decision: a table of what follows from every interval, bound, margin and assumption."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from rankloop.evidence import Assumption, DecisionKind, Evidence, decide
from rankloop.evidence.decision import ROUNDING, SIZE, SUPPORT
from rankloop.statistics import AsymptoticSequence, Bets

HELD, BROKEN, UNTESTED = (
    Assumption(name, state, f"{name} is {state}")
    for name, state in (("one", "held"), ("two", "broken"), ("three", "untested"))
)
BETTER, WORSE, UNDECIDED, LEANS_BETTER, LEANS_WORSE, SAME = (
    DecisionKind(word) for word in ("better", "worse", "undecided", "leans better", "leans worse", "same")
)

# Difference, half width, what documents without clicks could add, kind, reasons, missing impressions of
# 1,000. Both values are about 1; each row is as true with all signs reversed.
TABLE = (
    (0.2, 0.1, 0.0, BETTER, (), 0),
    (0.2, 0.1, 0.05, BETTER, (), 0),
    (0.2, 0.1, 0.15, UNDECIDED, (SUPPORT,), None),
    (0.2, 0.3, 0.0, UNDECIDED, (), 1_300),
    (0.2, 0.3, 0.4, UNDECIDED, (), 1_300),
    (0.1, 0.1, 0.0, UNDECIDED, (), 0),
    (0.1, 0.3, 0.0, UNDECIDED, (), 8_000),
    (0.02, 0.05, 0.0, UNDECIDED, (), 5_300),
    (0.02, 0.3, 0.0, UNDECIDED, (SIZE,), None),
    (0.003, 0.3, 0.0, UNDECIDED, (SIZE,), None),
    (0.003, 0.0, 0.0, BETTER, (), 0),
    (2e-6, 0.0, 0.0, BETTER, (), 0),
    # Rounding decides nothing.
    (1e-7, 0.0, 0.0, UNDECIDED, (SIZE,), None),
    (0.0, 0.0, 0.0, UNDECIDED, (SIZE,), None),
    (0.0, 0.3, 0.0, UNDECIDED, (SIZE,), None),
)
REVERSED = {BETTER: WORSE, LEANS_BETTER: LEANS_WORSE, UNDECIDED: UNDECIDED}


def evidence(value: float, half: float, unseen: float = 0.0, *assumptions: Assumption) -> Evidence:
    low, high = value - half, value + half
    return Evidence(
        value,
        (low, high),
        bounds=(low - unseen, high + unseen),
        baseline=1.0,
        impressions=1_000,
        assumptions=assumptions,
    )


@pytest.mark.parametrize(("value", "half", "unseen", "kind", "reasons", "more"), TABLE)
def test_the_table(
    value: float, half: float, unseen: float, kind: DecisionKind, reasons: tuple[str, ...], more: int | None
) -> None:
    for sign, doubts in product((1.0, -1.0), ((), (HELD,), (BROKEN,), (UNTESTED,), (BROKEN, HELD, UNTESTED))):
        found = decide(evidence(sign * value, half, unseen, *doubts))
        names = tuple(one.name for one in doubts if one.state != "held")
        expected = LEANS_BETTER if kind is BETTER and names else kind
        assert found.kind is (expected if sign > 0.0 else REVERSED[expected])
        assert found.reasons == ((*names, *reasons) if expected is not BETTER else ())
        assert found.more == (None if expected is LEANS_BETTER else more)
        assert found.deploy == (found.kind is BETTER)
        assert (found.lower, found.upper) == (
            sign * value - half - unseen,
            sign * value + half + unseen,
        )


def test_what_ranks_alike_is_the_same_whatever_was_assumed() -> None:
    for assumptions in ((), (BROKEN,), (UNTESTED,)):
        found = decide(replace(evidence(0.2, 0.1, 0.0, *assumptions), alike=True))
        assert (found.kind, found.reasons, found.more, found.test) == (SAME, (), None, None)


@pytest.mark.parametrize(
    ("margin", "lower", "deploy"),
    [
        (0.0, 2.0 * ROUNDING, True),
        (0.0, 0.5 * ROUNDING, False),
        (0.01, -0.009, True),
        (0.01, -0.011, False),
        (np.inf, -1e9, True),
    ],
)
def test_a_margin_tolerates_a_loss(margin: float, lower: float, deploy: bool) -> None:
    found = decide(Evidence(lower, (lower, lower + 1.0), baseline=1.0), margin=margin)
    assert found.deploy == deploy
    assert (found.lower > found.required) == deploy
    broken = decide(Evidence(lower, (lower, lower + 1.0), baseline=1.0, assumptions=(BROKEN,)), margin=margin)
    assert not broken.deploy


def test_without_evidence_nothing_is_decided() -> None:
    """Intervals are infinite before the first look, and not numbers once no level is left."""
    for value, ends in ((np.nan, (-np.inf, np.inf)), (0.5, (-np.inf, np.inf)), (0.5, (np.nan, np.nan))):
        found = decide(Evidence(value, ends))
        assert (found.kind, found.more) == (UNDECIDED, None)


def test_a_sequence_is_evidence_at_any_look() -> None:
    values = np.random.default_rng(0).normal(0.3, 1.0, 5_000)
    kinds = [
        decide(Evidence.of_sequence(AsymptoticSequence().add(sign * values[:count]))).kind
        for sign, count in ((1.0, 50), (1.0, 5_000), (-1.0, 5_000))
    ]
    assert kinds == [UNDECIDED, BETTER, WORSE]


@pytest.mark.parametrize(
    ("better", "worse", "kind"),
    [
        (19.0, 1.0, UNDECIDED),
        (20.1, 1.0, BETTER),
        (0.5, 20.1, WORSE),
        (30.0, 21.0, WORSE),
        (1.0, 1.0, UNDECIDED),
    ],
)
def test_bets_decide_by_their_wealth(better: float, worse: float, kind: DecisionKind) -> None:
    """E of at least 1 / level decides, whatever the interval says; harm comes first."""
    bets = [Bets(count=100, highest=float(np.log(each)), total=1.0, squares=9.0) for each in (better, worse)]
    decision = decide(Evidence.of_bets(*bets), level=0.05)
    assert decision.kind is kind
    assert decision.estimate == -0.01
    if kind is not UNDECIDED:
        assert decision.more == 0
        leaning = decide(replace(Evidence.of_bets(*bets), assumptions=(BROKEN,)), level=0.05)
        assert str(leaning.kind) == f"leans {kind}"
    elif better > 1.0:
        assert decision.more == 2, "log E grows with the pages: log 19 after 100, so log 20 after 102"
    else:
        assert decision.reasons == (SIZE,)
