"""Claims that need no runs: arithmetic, and theorems checked by enumerating all logs of a small case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np

from rankloop.clicks import bias_of, users
from rankloop.estimators import (
    Affine,
    Estimator,
    InterventionAware,
    InterventionOblivious,
    PolicyAware,
)
from rankloop.experiments.reproduce.claims.base import EXACT, FAILS, HOLDS, Claim, Finding, exact
from rankloop.experiments.reproduce.figures import EXAMPLE
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Float64

# The least bias that counts as one, on a scale of relevance from 0 to 1.
MEASURABLE = 0.05
AWARE, OBLIVIOUS = InterventionAware(clip="off"), InterventionOblivious(clip="off")


Impression = tuple[float, tuple[int, ...], tuple[bool, ...]]


@dataclass(frozen=True, eq=False)
class EnumeratedScenario:
    """One query, whose documents are shown by one policy after the other, for one impression each.

    Attributes:
        bias: the bias of the users, who see as many ranks as it has.
        relevance: the relevance of the documents.
        policies: the scores of the documents by policy.
    """

    bias: Bias
    relevance: tuple[float, ...]
    policies: tuple[tuple[float, ...], ...]

    def expected_weights(self, estimator: Estimator) -> Float64:
        """The mean of an estimator's weights over every possible log, one per document.

        Two documents, one of which is shown, and users who click on relevant documents:

        >>> from rankloop.estimators import IPS, PolicyAware
        >>> users = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
        >>> scenario = EnumeratedScenario(users, (0.5, 1.0), ((0.0, 0.0),))
        >>> scenario.expected_weights(PolicyAware(clip="off")).round(6)
        array([0.5, 1. ])
        >>> scenario.expected_weights(IPS(clip="off")).round(6)  # each is shown half the time
        array([0.25, 0.5 ])
        """
        total = np.zeros(len(self.relevance))
        for probability, log in _every_log(self):
            total += probability * estimator.weights(log, self.bias)
        return total

    def logs(self) -> Iterator[tuple[float, Statistics]]:
        """Every possible log, with its probability."""
        offsets = np.array([0, len(self.relevance)])
        exposures = [Exposure.of_scores(np.array(scores), offsets, self.bias) for scores in self.policies]
        for steps in product(*(list(self._impressions(scores)) for scores in self.policies)):
            log = Statistics.empty(offsets, self.bias.positions)
            for i, (_, ranking, clicks) in enumerate(steps):
                log += of_impressions(
                    f"policy {i}", offsets, exposures[i], queries=[0], rankings=[ranking], clicks=[clicks]
                )
            yield float(np.prod([probability for probability, _, _ in steps])), log

    def _impressions(self, scores: tuple[float, ...]) -> Iterator[Impression]:
        """Every possible outcome of one impression, with its probability."""
        weights, ranks = np.exp(scores), self.bias.positions
        for ranking in permutations(range(len(scores)), ranks):
            left, shown = weights.sum(), 1.0
            for document in ranking:
                shown *= weights[document] / left
                left -= weights[document]
            click = self.bias.click_chance(np.array(self.relevance)[list(ranking)])
            for clicks in product([False, True], repeat=ranks):
                yield float(shown * np.prod(np.where(clicks, click, 1.0 - click))), ranking, clicks


@cache
def _every_log(scenario: EnumeratedScenario) -> list[tuple[float, Statistics]]:
    return list(scenario.logs())


@cache
def _scenario(*, changing: bool = True) -> EnumeratedScenario:
    """Three documents, two of them shown, and the paper's users: position, trust and item-selection bias."""
    first, second = (0.0, 0.4, -1.0), (2.0, -1.0, 0.3)
    seen_by = bias_of(users("paper@2"))
    return EnumeratedScenario(seen_by, (0.25, 1.0, 0.5), (first, second if changing else first))


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
