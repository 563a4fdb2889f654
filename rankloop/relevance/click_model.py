"""The one model of clicks given scores: relevance is the logistic function of a score.

    P(click on d at rank k) = α_k σ(s_d + u_q) + β_k,      u_q ~ N(0, τ²)

Scores s come from anywhere: trees, networks, logistic curves, judgments. The effect u_q of a query is what
all its documents have in common: some queries are clicked more than others whatever is shown, which tells
nothing about the order of their documents. Each u_q is the most probable one given the scores.
`mean_relevance` is the model without scores, and `calibrate` says how well one predicts clicks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, softmax

from rankloop.errors import DataError
from rankloop.kernels.click_epoch import levels_of_queries
from rankloop.kernels.click_probabilities import click_derivatives
from rankloop.ragged import for_segments
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float64, Int64, Lines, as_numbers

# Displays at each rank, and clicks there, or what they were worth: what `totals_by_position` of `Counts`,
# `Statistics` and `CellTable` gives.
Totals = tuple[Int64 | Float64, Int64 | Float64]
# A relevance is never guessed to be surer than this before its features are known.
LEAST_RELEVANCE = 1e-3
# Scores beyond this are certain.
LARGEST_SCORE = 30.0
# τ², a wide prior: queries may differ in relevance by a standard deviation of 2 on the logistic scale, from
# 12 % to 88 %. 0.25, 1, 4 and 16 were tried on a log of 5,000 queries that came once; 4 was the best.
QUERY_VARIANCE = 4.0
# Newton's method for one number; it nearly always ends before.
NEWTON_STEPS = 30
# The rows of a reliability table, each with the same share of the displays.
ROWS = 10
# The effects that predictions consider; larger ones would make documents of any usual score alike.
GRID = np.linspace(-6.0, 6.0, 49)
# Rounds of expectation maximisation. The likelihood is flat long before the distribution of effects is final.
ROUNDS = 100
# No effect is impossible: its logarithm must be a number.
LEAST_CHANCE = 1e-300


def mean_relevance(totals: Totals, bias: Bias | Lines, *, otherwise: float = 0.0) -> float:
    """The relevance that would explain all clicks if it were the same for every document.

        m = (Σ c − Σ_k n_k β_k) / Σ_k n_k α_k

    It is not clipped: noise may take it below 0 or above 1.

    Args:
        totals: displays and clicks by rank, of at most as many ranks as the bias has.
        bias: how users click.
        otherwise: the result if nothing was examined.

    Example:
        Ten displays at each of two ranks, and eight clicks.

        >>> import numpy as np
        >>> bias = Bias(alpha=[0.8, 0.4], beta=[0.1, 0.1], examination=[1, 1])
        >>> round(mean_relevance((np.array([10, 10]), np.array([5, 3])), bias), 6)
        0.5
    """
    displays, amounts = totals
    examined = float(displays @ bias.alpha[: len(displays)])
    by_chance = displays @ bias.beta[: len(displays)]
    return float(amounts.sum() - by_chance) / examined if examined > 0.0 else otherwise


class ClickValue(NamedTuple):
    """The log-likelihood of clicks and its derivatives by the scores.

    Attributes:
        values: float64, documents; the likelihood is their sum.
        gradient: float64, documents.
        curvature: float64, documents; the expected information, not negative.
    """

    values: Float64
    gradient: Float64
    curvature: Float64

    @property
    def value(self) -> float:
        """The log-likelihood."""
        return float(self.values.sum())


@dataclass(frozen=True, eq=False)
class ClickModel:
    """Displays and clicks of documents, as something that scores explain.

    Attributes:
        cells: displays and clicks per document and rank, documents ordered by query.
        bias: how users click.
        variance: τ²; 0 for no effects of queries.
    """

    cells: CellTable
    bias: Bias
    variance: float = 0.0

    @property
    def displays(self) -> float:
        """The number of displays, at least 1."""
        return max(float(self.cells.displays.sum()), 1.0)

    def at(self, scores: object, effects: Float64 | None = None) -> ClickValue:
        """Compute the likelihood and its derivatives, given the effects of queries; None for none.

            Σ_d Σ_k c_dk log p_dk + (n_dk − c_dk) log(1 − p_dk),    p_dk = α_k σ(s_d + u_q) + β_k

        Example:
            Shown three times at a rank where α = 1 and β = 0, clicked twice: at σ(0) = 1/2 the gradient is
            2 − 3/2.

            >>> users = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
            >>> found = ClickModel(CellTable.of_cells([0, 1], [0], [3], [2]), users).at([0.0])
            >>> found.gradient, found.curvature
            (array([0.5]), array([0.75]))
        """
        flat, cells = self._checked(scores), self.cells
        if effects is not None:
            flat = flat + effects[cells.queries]
        out = np.empty((3, len(flat)))

        def kernel(first: int, last: int, *_: object) -> None:
            counts = cells.position, cells.displays, cells.clicks
            click_derivatives(first, last, cells.starts, flat, *counts, self.bias.alpha, self.bias.beta, out)

        for_segments(kernel, np.arange(len(flat) + 1))
        return ClickValue(*out)

    def effects(self, scores: object, start: Float64 | None = None, *, steps: int = NEWTON_STEPS) -> Float64:
        """Find the most probable effect of every query, given scores; 0 for a query without displays.

        Args:
            scores: s, documents.
            start: effects to start from, such as those of scores that were close to these; None for 0.
            steps: Newton steps at most.
        """
        return self.step(scores, np.zeros(self.cells.n_queries) if start is None else start, steps=steps)[1]

    def step(self, scores: object, effects: Float64, *, steps: int = 1) -> tuple[ClickValue, Float64]:
        """Take Newton steps from the effects of queries; return the derivatives before the last, and effects.

        Scores that change little from call to call need one step per call to keep up with them, and one pass
        over the clicks.
        """
        flat, cells, offsets = self._checked(scores), self.cells, self.cells.query_offsets
        if not self.variance:
            return self.at(flat), effects
        after, out = effects.copy(), np.empty((3, len(flat)))
        precision = 1.0 / self.variance

        def kernel(first: int, last: int, *_: object) -> None:
            counts = cells.starts, cells.position, cells.displays, cells.clicks
            users = self.bias.alpha, self.bias.beta
            levels_of_queries(first, last, offsets, flat, *counts, *users, precision, steps, after, out)

        for_segments(kernel, offsets)
        return ClickValue(*out), after

    def values(self, scores: object, effects: Float64 | None = None) -> Float64:
        """The log-likelihood of each query's clicks, its effect integrated out (Laplace's approximation).

        Args:
            scores: s, documents.
            effects: those of `effects`, if they are known.

        Returns:
            float64, queries.
        """
        if not self.variance:
            return self.cells.by_query(self.at(scores).values)
        known = self.effects(scores) if effects is None else effects
        found = self.at(scores, known)
        information = self.cells.by_query(found.curvature)
        penalty = known**2 / self.variance + np.log1p(self.variance * information)
        result: Float64 = self.cells.by_query(found.values) - 0.5 * penalty
        return result

    def relevance(self, scores: Float64) -> Float64:
        """Turn scores into relevance, with the most probable effect of every query: ``σ(s_d + u_q)``."""
        return logistic(scores + self.effects(scores)[self.cells.queries])

    @property
    def mean_score(self) -> float:
        """The score that explains all clicks best if it is the same for every document, by moments."""
        mean = mean_relevance(self.cells.totals_by_position(), self.bias, otherwise=0.5)
        return float(log_odds(np.clip(mean, LEAST_RELEVANCE, 1.0 - LEAST_RELEVANCE)))

    def select(self, documents: Int64) -> ClickModel:
        """The same for some of the documents, in ascending order."""
        return ClickModel(self.cells.select(documents), self.bias, self.variance)

    def _checked(self, scores: object) -> Float64:
        flat, cells = as_numbers(scores, "scores"), self.cells
        if flat.shape != (cells.n_documents,):
            raise DataError(f"{cells.n_documents} documents need as many scores, got shape {flat.shape}")
        if len(cells.position) and cells.position.max() >= self.bias.positions:
            raise DataError(
                f"the bias has {self.bias.positions} ranks, but documents were shown at rank "
                f"{cells.position.max() + 1}: count the log with the ranks of the bias"
            )
        return flat


def logistic(scores: Float64) -> Float64:
    """σ, which neither overflows nor returns 0 or 1."""
    result: Float64 = 1.0 / (1.0 + np.exp(-np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)))
    return result


def log_odds(relevance: Float64) -> Float64:
    """The scores whose logistic function is the relevance."""
    result: Float64 = np.log(relevance) - np.log1p(-relevance)
    return result


@dataclass(frozen=True)
class ReliabilityRow:
    """Documents of similar relevance: the clicks that were expected of them, and those that came.

    Attributes:
        relevance: their mean relevance, weighted by displays.
        displays: how often they were shown.
        expected: the clicks that their relevances and ranks predict.
        clicks: the clicks that came.
    """

    relevance: float
    displays: int
    expected: float
    clicks: int


@dataclass(frozen=True)
class Calibration:
    """How well relevances explain clicks that they were not fitted to.

    Attributes:
        gain: how much more likely the clicks are than with one relevance for all documents, in nats per
            display. That one relevance is the mean of these clicks, so that 0 or less says that features tell
            nothing.
        displays: the number of displays.
        rows: expected and observed clicks, by ascending relevance.
        query_effects: whether relevances include an effect of the query, which clicks on its other documents
            tell. The gain is then relative to one relevance for all documents of a query.
    """

    gain: float
    displays: int
    rows: tuple[ReliabilityRow, ...]
    query_effects: bool = False

    @property
    def error(self) -> float:
        """The mean absolute difference between expected and observed clicks, per display."""
        return sum(abs(row.expected - row.clicks) for row in self.rows) / max(self.displays, 1)


def calibrate(relevance: Float64, model: ClickModel, *, baseline: Float64 | None = None) -> Calibration:
    """Compare relevances with clicks.

    Args:
        relevance: documents; strictly between 0 and 1.
        model: the displays and clicks of the documents.
        baseline: documents; the relevances that the gain is relative to. None for the mean of these clicks.

    Example:
        Two documents, each shown ten times where α = 1 and β = 0; the first was clicked twice, the second
        eight times, as expected.

        >>> from rankloop.statistics import CellTable
        >>> from rankloop.types import Bias
        >>> counts = CellTable.of_cells([0, 1, 2], [0, 0], [10, 10], [2, 8])
        >>> found = calibrate(np.array([0.2, 0.8]), ClickModel(counts, Bias([1.0], [0.0], [1.0])))
        >>> [(row.relevance, row.expected, row.clicks) for row in found.rows]
        [(0.2, 2.0, 2), (0.8, 8.0, 8)]
        >>> found.gain > 0, found.error
        (True, 0.0)
    """
    counts, bias = model.cells, model.bias
    displays, clicks = counts.by_document(counts.displays), counts.by_document(counts.clicks)
    total = float(displays.sum())
    by_cell = bias.click_chance(relevance[counts.document_of], counts.position)
    expected = counts.by_document(counts.displays * by_cell)
    alike = np.full(counts.n_documents, model.mean_score) if baseline is None else log_odds(baseline)
    likelihoods = [model.at(scores).value for scores in (log_odds(relevance), alike)]
    order = np.argsort(relevance, kind="stable")
    before = np.cumsum(displays[order]) - displays[order]
    row_of = np.minimum((ROWS * before / max(total, 1.0)).astype(np.int64), ROWS - 1)
    rows = []
    for row in np.unique(row_of):
        inside = order[row_of == row]
        shown = float(displays[inside].sum())
        if shown:
            rows.append(
                ReliabilityRow(
                    float(relevance[inside] @ displays[inside]) / shown,
                    round(shown),
                    float(expected[inside].sum()),
                    round(float(clicks[inside].sum())),
                )
            )
    return Calibration((likelihoods[0] - likelihoods[1]) / max(total, 1.0), round(total), tuple(rows))


def calibrate_with_effects(scores: Float64, model: ClickModel) -> Calibration:
    """Compare scores that rank within queries with clicks: what a query adds to all its scores is not theirs.

    Trees that are trained with effects of queries say nothing about how often a query is clicked. Expected
    clicks therefore include the effect of the query, as far as clicks on its other documents tell it
    (`relevance_given_others`).

    Args:
        scores: documents; the logistic function of a score is a relevance, up to the effect of its query.
        model: the displays and clicks of the documents, which the scores do not depend on.
    """
    least = float(logistic(np.array(-LARGEST_SCORE)))
    alike = np.full(len(scores), model.mean_score)
    relevance, baseline = (
        np.clip(relevance_given_others(values, model), least, 1.0 - least) for values in (scores, alike)
    )
    return replace(calibrate(relevance, model, baseline=baseline), query_effects=True)


def relevance_given_others(scores: Float64, model: ClickModel) -> Float64:
    """Predict the relevance of documents if queries have effects, with what other documents tell about them.

        E[ σ(s_d + u_q) | clicks on the documents of q other than d ],      u_q ~ g

    The distribution g of effects is the one that makes the clicks on other queries most likely, on a grid. It
    is not the prior that trees are trained with: that one is wide, so that trees leave all that differs
    between queries to the effects, and predictions by it are too extreme where queries differ less.

    Args:
        scores: s, documents; they must not depend on these clicks.
        model: their displays and clicks.

    Returns:
        float64, documents; between 0 and 1.
    """
    cells = model.cells
    if not len(scores):
        return np.zeros(0)
    by_query = np.stack([cells.by_query(model.at(scores + u).values) for u in GRID], axis=1)
    seen = np.bincount(cells.queries, minlength=cells.n_queries) > 0
    chances = np.full((cells.n_queries, len(GRID)), 1.0 / len(GRID))
    for _ in range(ROUNDS):
        prior = np.maximum(chances[seen].mean(axis=0), LEAST_CHANCE)
        chances = softmax(by_query + np.log(prior), axis=1)
    others = (chances[seen].sum(axis=0) - chances) / max(int(seen.sum()) - 1, 1)
    log_prior = np.log(np.maximum(others, LEAST_CHANCE))
    # Sums over the grid, in logarithms: many clicks make all but one effect very unlikely.
    weighted, total = np.full((2, len(scores)), -np.inf)
    for node, u in enumerate(GRID):
        own = model.at(scores + u).values
        chance = by_query[cells.queries, node] + log_prior[cells.queries, node] - own
        weighted = np.logaddexp(weighted, chance + log_expit(scores + u))
        total = np.logaddexp(total, chance)
    result: Float64 = np.exp(weighted - total)
    return result
