"""The likelihood of clicks with an effect per query: what all documents of a query have in common."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, softmax

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
# The effects that predictions consider; larger ones would make documents of any usual score alike.
GRID = np.linspace(-6.0, 6.0, 49)
# Rounds of expectation maximisation. The likelihood is flat long before the distribution of effects is final.
ROUNDS = 100
# No effect is impossible: its logarithm must be a number.
LEAST_CHANCE = 1e-300


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


def relevance_given_others(scores: Float64, shown: ShownDocuments, bias: Bias) -> Float64:
    """Predict the relevance of documents if queries have effects, with what other documents tell about them.

        E[ σ(s_d + u_q) | clicks on the documents of q other than d ],      u_q ~ g

    The distribution g of effects is the one that makes the clicks on other queries most likely, on a grid. It
    is not the prior that trees are trained with: that one is wide, so that trees leave all that differs
    between queries to the effects, and predictions by it are too extreme where queries differ less.

    Args:
        scores: s, documents; they must not depend on these clicks.
        shown: the documents and their clicks.
        bias: how users click.

    Returns:
        float64, documents; between 0 and 1.
    """
    by_query = np.stack(
        [
            np.bincount(
                shown.queries, click_likelihood(scores + u, shown.counts, bias).values, shown.n_queries
            )
            for u in GRID
        ],
        axis=1,
    )
    seen = np.bincount(shown.queries, minlength=shown.n_queries) > 0
    chances = np.full((shown.n_queries, len(GRID)), 1.0 / len(GRID))
    for _ in range(ROUNDS):
        prior = np.maximum(chances[seen].mean(axis=0), LEAST_CHANCE)
        chances = softmax(by_query + np.log(prior), axis=1)
    others = (chances[seen].sum(axis=0) - chances) / max(int(seen.sum()) - 1, 1)
    log_prior = np.log(np.maximum(others, LEAST_CHANCE))
    # Sums over the grid, in logarithms: many clicks make all but one effect very unlikely.
    weighted, total = np.full((2, len(shown)), -np.inf)
    for node, u in enumerate(GRID):
        own = click_likelihood(scores + u, shown.counts, bias).values
        chance = by_query[shown.queries, node] + log_prior[shown.queries, node] - own
        weighted = np.logaddexp(weighted, chance + log_expit(scores + u))
        total = np.logaddexp(total, chance)
    result: Float64 = np.exp(weighted - total)
    return result
