"""Claims that need no runs: arithmetic, and theorems checked by enumerating all logs of a small case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from rankloop import clicks
from rankloop.estimators import (
    Affine,
    Estimator,
    InterventionAware,
    InterventionOblivious,
    PolicyAware,
)
from rankloop.experiments.reproduce.claims.base import EXACT, FAILS, HOLDS, Claim, Finding, exact
from rankloop.experiments.reproduce.enumeration import EnumeratedScenario
from rankloop.experiments.reproduce.evidence import AllRuns
from rankloop.experiments.reproduce.figures.example import FIGURE as EXAMPLE
from rankloop.types import Float64

# The least bias that counts as one, on a scale of relevance from 0 to 1.
MEASURABLE = 0.05
AWARE, OBLIVIOUS = InterventionAware(clip="off"), InterventionOblivious(clip="off")


@cache
def _scenario(*, changing: bool = True) -> EnumeratedScenario:
    """Three documents, two of them shown, and the paper's users: position, trust and item-selection bias."""
    first, second = (0.0, 0.4, -1.0), (2.0, -1.0, 0.3)
    users = clicks.bias_of(clicks.users("paper@2"))
    return EnumeratedScenario(users, (0.25, 1.0, 0.5), (first, second if changing else first))


@cache
def _bias(estimator: Estimator) -> Float64:
    scenario = _scenario()
    size: Float64 = np.abs(scenario.expected_weights(estimator) - np.array(scenario.relevance))
    return size


def _check_example(_evidence: AllRuns) -> Sequence[Finding]:
    wanted = [
        ("oblivious, click at t ≤ 100", OBLIVIOUS, 100, 400, 4.0),
        ("oblivious, click at t > 100", OBLIVIOUS, 101, 400, 20.0),
        ("aware, click at t = 101, T = 400", AWARE, 101, 400, 10.0),
        ("aware, click at t = 1, T = 400", AWARE, 1, 400, 10.0),
    ]
    return [
        exact(
            f"|weight − {value:g}|: {what}",
            abs(EXAMPLE.weight(estimator, click=click, impressions=impressions) - value),
        )
        for what, estimator, click, impressions, value in wanted
    ]


def _unbiased(estimator: Estimator) -> Sequence[Finding]:
    what = (
        "largest |E[weight] − relevance| over three documents, two of them shown, over all logs of two "
        "policies"
    )
    return [exact(what, float(_bias(estimator).max()))]


def _check_equal(_evidence: AllRuns) -> Sequence[Finding]:
    scenario = _scenario(changing=False)
    both = scenario.expected_weights(AWARE), scenario.expected_weights(OBLIVIOUS)
    return [
        exact(
            "largest difference between their weights under one policy",
            float(np.abs(both[0] - both[1]).max()),
        )
    ]


def _biased(what: str, estimator: Estimator) -> Finding:
    size = float(_bias(estimator).max())
    outcome = HOLDS if size > MEASURABLE else FAILS
    return Finding(
        what=f"{what}: largest |E[weight] − relevance|",
        value=size,
        wanted=f"> {MEASURABLE:g}",
        outcome=outcome,
    )


def _check_others(_evidence: AllRuns) -> Sequence[Finding]:
    return [
        _biased("affine, where not all documents are shown", Affine(clip="off")),
        _biased("policy-aware, where users trust ranks", PolicyAware(clip="off")),
    ]


WRONG_CODE = "This is arithmetic: if it does not hold, the code is wrong."


def _unbiased_claim(name: str, theorem: str, estimator: Estimator) -> Claim:
    return Claim(
        name=f"{name}-unbiased",
        where=theorem,
        statement=f"The intervention-{name} estimator is unbiased under position, trust and item-selection "
        "bias, also when the policy changes.",
        criterion=f"expected weights over all logs equal the relevance to {EXACT:g}",
        cause=WRONG_CODE,
        check=lambda _evidence: _unbiased(estimator),
    )


CLAIMS = (
    Claim(
        name="example-weights",
        where="Figure 1",
        statement="An intervention lowers a document's expected α from 0.25 to 0.05 at t = 100. The "
        "oblivious estimator gives a click the weight 4 before and 20 after it; the aware one gives every "
        "click the weight 10 at T = 400.",
        criterion=f"each weight is exact to {EXACT:g}",
        cause=WRONG_CODE,
        check=_check_example,
    ),
    _unbiased_claim("oblivious", "Theorem 1", OBLIVIOUS),
    _unbiased_claim("aware", "Theorem 2", AWARE),
    Claim(
        name="equal-if-static",
        where="Section 5",
        statement="Without interventions the intervention-oblivious and the intervention-aware estimator are "
        "the same.",
        criterion=f"their expected weights are equal to {EXACT:g}",
        cause=WRONG_CODE,
        check=_check_equal,
    ),
    Claim(
        name="others-biased",
        where="Section 3.2",
        statement="The affine estimator is biased by item selection, the policy-aware one by trust bias.",
        criterion=f"each has a bias above {MEASURABLE:g} on a scale of relevance from 0 to 1",
        cause=WRONG_CODE,
        check=_check_others,
    ),
)
