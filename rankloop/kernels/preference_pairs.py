"""Preferences between the documents of one ranking, and their weights, as PDGD infers them from clicks."""

from __future__ import annotations

import math

from rankloop.kernels.jit import kernel
from rankloop.kernels.ranking_samples import add_exponentials


@kernel
def ranks_considered(clicked, length):
    """Number of ranks that users have seen: down to one past the last click; 0 without a click."""
    for k in range(length - 1, -1, -1):
        if clicked[k]:
            return min(k + 2, length)
    return 0


@kernel
def swap_log_odds(i, j, scores, ranking, remaining):
    """``log π(y*) − log π(y)``, where y* is the ranking y with the documents at ranks i < j swapped.

    Documents have the same weights in both; the sets that they are drawn from differ only at ranks i + 1 … j,
    where the document of rank i is left instead of that of rank j.
    """
    log_odds = 0.0
    # The weight left before rank k without the document of rank j: summed from below, never by subtraction.
    largest, total = remaining[j + 1], 1.0
    for k in range(j, i, -1):
        top, sum_ = add_exponentials(largest, total, scores[ranking[i]])
        log_odds += remaining[k] - (top + math.log(sum_))
        largest, total = add_exponentials(largest, total, scores[ranking[k - 1]])
    return log_odds


@kernel
def logistic(x):
    """``1 / (1 + e⁻ˣ)``, for any x."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


@kernel
def logistic_slope(x):
    """``σ(x) (1 − σ(x))``, for any x."""
    small = math.exp(-abs(x))
    return small / ((1.0 + small) * (1.0 + small))


@kernel
def prefer(scores, logging, ranking, clicked, considered, remaining, debiased, slope):
    """Fill ``slope``: by rank, the gradient of all preferences on the score of each considered document.

    Args:
        scores: of the learned policy, by rank.
        logging: scores of the policy that drew the ranking, of all documents.
        ranking: documents by rank.
        clicked: by rank.
        considered: number of ranks to consider.
        remaining: of the logging policy, from `log_remaining`; not read unless ``debiased``.
        debiased: whether preferences are weighted by ρ.
        slope: out, by rank.
    """
    slope[:considered] = 0.0
    for j in range(1, considered):
        for i in range(j):
            if clicked[i] == clicked[j]:
                continue
            gain = logistic_slope(scores[i] - scores[j])
            if debiased:
                gain *= logistic(swap_log_odds(i, j, logging, ranking, remaining))
            if not clicked[i]:
                gain = -gain
            slope[i] += gain
            slope[j] -= gain
