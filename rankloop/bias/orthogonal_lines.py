"""α and β from predicted relevance, insensitive to first order to the errors of the prediction.

    E[C | x, k] = α_k m(x) + β_k,    m(x) = E[R | x]

A regression of clicks on predicted relevance m̂ would mistake its errors for a weak effect of relevance: every
α would be too small, and more so at some ranks than at others. The lines are therefore solved from moments
in which the errors cancel, for every rank k and h(x) = 1 and h(x) = m̂(x):

    Σ ω_r (C − α_r m̂ − β_r) h(x) [1(r = k) − α_r ω_k e_k(x) α_k / Σ_j ω_j e_j(x) α_j²] = 0

r is the rank of the display, ω_r the inverse variance of clicks there, and e_k(x) the probability that an
item with these features, if shown, is shown at rank k. If m̂ is off by δ(x), the expected sum changes by

    −Σ δ h (ω_k e_k α_k − ω_k e_k α_k) = 0

for the true e, whatever δ is; and for the true m it is 0, whatever e is (double robustness).

Reference: Chernozhukov et al., Double/debiased machine learning for treatment and structural parameters,
2018.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.bias.anchor import Lines
from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64


class Solution(NamedTuple):
    """Lines, and how each item moves them.

    Attributes:
        lines: α and β on the scale of the predicted relevance.
        influence: float64, items × 2 ranks; how far one more copy of the item would move α and β.
    """

    lines: Lines
    influence: Float64


def solve_lines(
    shown: RankCounts, relevance: Float64, placement: Float64, start: Lines, *, position: bool = False
) -> Solution:
    """Take one step from a start towards the lines that solve the moments.

    Args:
        shown: displays and clicks.
        relevance: m̂, items.
        placement: e, items × ranks.
        start: the lines that the relevance was predicted with. The two directions of change that only change
            the scale of relevance are left out.
        position: whether β stays as it is (0): the position-based model.
    """
    ranks = shown.ranks
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    precision = 1.0 / np.maximum(rates * (1.0 - rates), 1e-3)
    item, rank = shown.item_of, shown.rank
    alpha = start.alpha
    towards = precision * placement * alpha
    towards /= (towards @ alpha)[:, None]
    # Instruments: cells × ranks, the same for both h up to the factor h.
    instruments = -alpha[rank, None] * towards[item]
    instruments[np.arange(len(rank)), rank] += 1.0
    instruments *= precision[rank, None]
    m = relevance[item]
    both = np.concatenate([instruments * m[:, None], instruments], axis=1)
    left = shown.clicks - shown.displays * (alpha[rank] * m + start.beta[rank])
    # The derivative of the moments by α and β.
    system = np.zeros((2 * ranks, 2 * ranks))
    for k in range(ranks):
        cells = rank == k
        system[:, k] = both[cells].T @ (shown.displays * m)[cells]
        system[:, ranks + k] = both[cells].T @ shown.displays[cells]
    scale = np.zeros((2 * ranks, 2))
    scale[:ranks, 0], scale[ranks:, 1] = alpha, alpha
    fixed = np.concatenate([scale[:, :1], np.eye(2 * ranks)[:, ranks:]], axis=1) if position else scale
    free = np.linalg.svd(fixed.T)[2][fixed.shape[1] :].T
    inverse = free @ np.linalg.inv(free.T @ system @ free) @ free.T
    step = inverse @ (both.T @ left)
    after = Lines(alpha + step[:ranks], start.beta + step[ranks:])
    left = shown.clicks - shown.displays * (after.alpha[rank] * m + after.beta[rank])
    per_cell = (both * left[:, None]) @ inverse.T
    influence = np.stack([shown.by_item(column) for column in per_cell.T], axis=1)
    return Solution(after, influence)
