"""The likelihood of clicks with an effect per query: what all documents of a query have in common."""

from __future__ import annotations

import numpy as np

from rankloop.objectives import click_likelihood
from rankloop.objectives.click_likelihood import LikelihoodValue
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float64

# The largest change of an effect per Newton step: the likelihood of few clicks is far from quadratic.
LONGEST_STEP = 1.0
# Newton steps per value on held-out queries. Effects start from those of the round before.
STEPS = 2
# Newton steps before the first value, from effects of 0.
FIRST_STEPS = 10


class ClicksWithQueryEffects:
    """The log-likelihood of clicks if documents have scores s, and queries effects u on top of them.

        click at rank k:  α_k σ(s_d + u_q) + β_k,      u_q ~ N(0, τ²)

    Some queries are clicked more than others whatever is shown. Such differences tell nothing about the order
    of documents within a query. An effect per query absorbs them, so that scores have to explain only what
    differs between the documents of a query. Each u_q is the most probable one given the scores.

    Args:
        shown: the documents and their clicks.
        bias: how users click.
        variance: τ²; 0 for no effects.
    """

    def __init__(self, shown: ShownDocuments, bias: Bias, variance: float) -> None:
        self._shown, self._bias, self._variance = shown, bias, variance
        self._displays = max(float(shown.counts.displays.sum()), 1.0)
        self._steps = FIRST_STEPS
        self.effects: Float64 = np.zeros(shown.n_queries)

    def derivatives(self, scores: Float64) -> tuple[Float64, Float64]:
        """The gradient and the curvature by the scores, with the effects of the call before.

        Scores change little from tree to tree, so one step of the effects per call keeps up with them, and
        the likelihood is computed only once.
        """
        found = self._likelihood(scores)
        self._step(found)
        return found.gradient, found.curvature

    def value(self, scores: Float64) -> float:
        """The log-likelihood per display, with the effects integrated out (Laplace's approximation)."""
        if not self._variance:
            return self._likelihood(scores).value / self._displays
        for _ in range(self._steps):
            self._step(self._likelihood(scores))
        self._steps = STEPS
        found = self._likelihood(scores)
        information = np.bincount(self._shown.queries, found.curvature, self._shown.n_queries)
        penalty = (self.effects @ self.effects) / self._variance + np.log1p(
            self._variance * information
        ).sum()
        return (found.value - 0.5 * float(penalty)) / self._displays

    def _likelihood(self, scores: Float64) -> LikelihoodValue:
        shifted = scores + self.effects[self._shown.queries] if self._variance else scores
        return click_likelihood(shifted, self._shown.counts, self._bias)

    def _step(self, found: LikelihoodValue) -> None:
        """One Newton step of all effects."""
        if not self._variance:
            return
        queries, count = self._shown.queries, self._shown.n_queries
        gradient = np.bincount(queries, found.gradient, count) - self.effects / self._variance
        information = np.bincount(queries, found.curvature, count) + 1.0 / self._variance
        self.effects = self.effects + np.clip(gradient / information, -LONGEST_STEP, LONGEST_STEP)
