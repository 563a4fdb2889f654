"""The relevance of single documents by their own clicks, drawn to what is shown where they were shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.relevance.click_model import mean_relevance
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float64
from rankloop.value.contribution import unexplained

# The mean of a rank counts the overall mean as so many examined displays.
EXAMINED_PER_RANK = 10.0


@dataclass(frozen=True, eq=False)
class ShrunkRelevance:
    """The relevance of documents.

    Attributes:
        relevance: float64, documents; corrected for bias. Documents that were never examined have the mean.
        errors: float64, documents; standard errors.
        mean: the mean relevance of what was shown.
        spread: the estimated standard deviation of relevance between documents that are shown at one rank.
    """

    relevance: Float64
    errors: Float64
    mean: float
    spread: float


def shrink_relevance(counts: CellTable, bias: Bias, *, shrink: bool = True) -> ShrunkRelevance:
    """Estimate the relevance of documents from their own clicks.

        R̂ = m + s (C − e) / a,      a = Σ_k n_k α_k,   e = Σ_k n_k (α_k m + β_k)
        s = a²τ² / (a²τ² + v),      v = Σ_k n_k p_k (1 − p_k),   p_k = α_k m + β_k

    m is the mean relevance of what is shown at the ranks where the document was shown, and τ how much
    relevance varies around it, by the same clicks: the best linear prediction.

    Args:
        counts: displays and clicks of the documents.
        bias: how users click.
        shrink: whether documents with few displays are drawn to the mean; if not, s is 1.

    Example:
        Each of two documents was clicked once in four displays; rank 2 is examined half as often.

        >>> counts = CellTable.of_cells([0, 1, 2], [0, 1], [4, 4], [1, 1])
        >>> users = Bias(alpha=[1.0, 0.5], beta=[0.0, 0.0], examination=[1.0, 0.5])
        >>> shrink_relevance(counts, users, shrink=False).relevance.tolist()
        [0.25, 0.5]

    Reference: Robbins, An empirical Bayes approach to statistics, 1956.
    """
    rank, shown = counts.position, counts.displays
    clicks = counts.by_document(counts.clicks)
    examined, by_chance = (
        counts.by_document(shown * bias.alpha[rank]),
        counts.by_document(shown * bias.beta[rank]),
    )
    mean = mean_relevance(counts.totals_by_position(), bias)
    known = examined > 0
    safe = np.where(known, examined, 1.0)
    expected = counts.by_document(shown * (bias.alpha * _means(counts, bias, mean))[rank])
    guess = np.where(known, expected / safe, mean)
    chance = np.clip(bias.click_chance(guess[counts.document_of], rank), 0.0, 1.0)
    surprise = unexplained(clicks, by_chance, examined, guess)
    noise = counts.by_document(shown * chance * (1.0 - chance))
    squares = float((examined**2).sum())
    variance = max(float((surprise**2 - noise).sum()) / squares, 0.0) if squares > 0 else 0.0
    weight = np.ones(counts.n_documents)
    if shrink:
        spread = examined**2 * variance
        weight = np.divide(spread, spread + noise, out=np.zeros(len(spread)), where=spread + noise > 0)
    # Written so that documents of equal counts have equal values, to the last bit.
    result = np.where(known, (1.0 - weight) * guess + weight * ((clicks - by_chance) / safe), mean)
    # Without shrinking, the error of sampling; with it, that of the prediction.
    errors = np.where(known, np.sqrt(weight * noise) / safe, np.sqrt(variance))
    return ShrunkRelevance(result, errors, mean, float(np.sqrt(variance)))


def _means(counts: CellTable, bias: Bias, mean: float) -> Float64:
    """The mean relevance of what is shown at each rank, with a little of the overall mean."""
    displays, clicks = counts.totals_by_position()
    alpha, beta = bias.alpha[: counts.positions], bias.beta[: counts.positions]
    more = clicks - beta * displays + EXAMINED_PER_RANK * mean
    means = np.full(bias.positions, mean)
    means[: counts.positions] = more / (alpha * displays + EXAMINED_PER_RANK)
    return means
