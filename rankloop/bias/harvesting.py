"""Intervention harvesting: what an item's clicks lose when it is shown at another rank."""

from __future__ import annotations

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.kernels.click_likelihood import compare_ranks
from rankloop.types import Float64

# Rounds are cheap, their number matters little; with ranks that hang together by a thread there are many.
MOST_ROUNDS, CONVERGED = 10_000, 1e-10


def harvest(shown: RankCounts, weights: Float64 | None = None) -> Float64:
    """The examination of every rank relative to rank 1, from items that were shown at two ranks.

        max_θ  Σ_{j ≠ k} C_jk · log(θ_j / (θ_j + θ_k))

    C_jk are the clicks at rank j on items that were also shown at rank k, each counted as often as it would
    be if the item had been shown as often at both: ``c_dj / n_dj · n_dj n_dk / (n_dj + n_dk)``. Their
    expectation is θ_j times what j and k share, so that of all clicks on these items a share
    ``θ_j / (θ_j + θ_k)`` is at rank j, whatever the items are and wherever they were shown more often.

    Args:
        shown: displays and clicks.
        weights: items; how often each of them counts. None: once.

    Returns:
        float64, ranks; the first is 1.

    Reference:
        Agarwal, Zaitsev, Wang, Li, Najork and Joachims, Estimating position bias without intrusive
        interventions, WSDM 2019; the relevance of a pair of ranks, which their likelihood fits too, is
        conditioned out. Rounds as Hunter, MM algorithms for generalized Bradley-Terry models, 2004.
    """
    ranks = shown.ranks
    common, effective, clicked = np.zeros((3, ranks, ranks))
    once = np.ones(shown.n_items) if weights is None else weights
    counts = shown.starts, shown.rank, shown.displays, shown.clicks
    compare_ranks(*counts, once, common, effective, clicked)
    np.fill_diagonal(clicked, 0.0)
    both, own = clicked + clicked.T, clicked.sum(axis=1)
    theta = np.ones(ranks)
    for _ in range(MOST_ROUNDS):
        total = theta[:, None] + theta
        against = np.divide(both, total, out=np.zeros_like(both), where=total > 0.0).sum(axis=1)
        new = np.divide(own, against, out=theta.copy(), where=against > 0.0)
        new /= new[0] if new[0] > 0.0 else new.max()
        moved = np.abs(new - theta).max()
        theta = new
        if moved < CONVERGED:
            break
    return theta
