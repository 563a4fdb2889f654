"""How well relevances explain clicks that they were not fitted to: likelihood and reliability."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.objectives.click_likelihood import mean_score
from rankloop.training.query_effects import relevance_given_others
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float64

# The rows of a reliability table, each with the same share of the displays.
ROWS = 10
# Scores beyond this are certain.
LARGEST_SCORE = 30.0


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


def calibrate(
    relevance: Float64, counts: ClickCounts, bias: Bias, *, baseline: Float64 | None = None
) -> Calibration:
    """Compare relevances with clicks.

    Args:
        relevance: documents; strictly between 0 and 1.
        counts: how often the documents were shown and clicked, by rank.
        bias: how users click.
        baseline: documents; the relevances that the gain is relative to. None for the mean of these clicks.

    Example:
        Two documents, each shown ten times where α = 1 and β = 0; the first was clicked twice, the second
        eight times, as expected.

        >>> counts = ClickCounts(
        ...     np.array([0, 1, 2]), np.zeros(2, np.int64), np.array([10.0, 10.0]), np.array([2.0, 8.0])
        ... )
        >>> found = calibrate(np.array([0.2, 0.8]), counts, Bias([1.0], [0.0], [1.0]))
        >>> [(row.relevance, row.expected, row.clicks) for row in found.rows]
        [(0.2, 2.0, 2), (0.8, 8.0, 8)]
        >>> found.gain > 0, found.error
        (True, 0.0)
    """
    sizes = np.diff(counts.cells)
    items = np.repeat(np.arange(counts.n_items), sizes)
    displays = np.bincount(items, counts.displays, counts.n_items)
    total = float(displays.sum())
    by_cell = bias.alpha[counts.ranks] * relevance[items] + bias.beta[counts.ranks]
    expected = np.bincount(items, counts.displays * by_cell, counts.n_items)
    clicks = np.bincount(items, counts.clicks, counts.n_items)
    alike = np.full(counts.n_items, mean_score(counts, bias)) if baseline is None else log_odds(baseline)
    likelihoods = [click_likelihood(scores, counts, bias).value for scores in (log_odds(relevance), alike)]
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


def calibrate_with_effects(scores: Float64, shown: ShownDocuments, bias: Bias) -> Calibration:
    """Compare scores that rank within queries with clicks: what a query adds to all its scores is not theirs.

    Trees that are trained with effects of queries (`ClicksWithQueryEffects`) say nothing about how often a
    query is clicked. Expected clicks therefore include the effect of the query, as far as clicks on its other
    documents tell it (`relevance_given_others`).

    Args:
        scores: documents; the logistic function of a score is a relevance, up to the effect of its query.
        shown: the documents and their clicks, which the scores do not depend on.
        bias: how users click.
    """
    least = float(relevance_of(np.array(-LARGEST_SCORE)))
    alike = np.full(len(shown), mean_score(shown.counts, bias))
    relevance, baseline = (
        np.clip(relevance_given_others(values, shown, bias), least, 1.0 - least) for values in (scores, alike)
    )
    return replace(calibrate(relevance, shown.counts, bias, baseline=baseline), query_effects=True)


def relevance_of(scores: Float64) -> Float64:
    """The logistic function of scores, never exactly 0 or 1."""
    result: Float64 = 1.0 / (1.0 + np.exp(-np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)))
    return result


def log_odds(relevance: Float64) -> Float64:
    """The scores whose logistic function is the relevance."""
    result: Float64 = np.log(relevance) - np.log1p(-relevance)
    return result
