"""A case so small that every log can be enumerated: expectations are finite sums, theorems equalities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np

from rankloop.estimators import Estimator
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Float64

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
