"""Intervention harvesting: estimate examination from the same items shown at different ranks."""

from __future__ import annotations

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.kernels.click_likelihood import compare_ranks
from rankloop.types import Float64

# Iterations are cheap. Weakly connected ranks need many of them.
MAX_ITERATIONS, TOLERANCE = 10_000, 1e-10


def harvest(shown: RankCounts, weights: Float64 | None = None) -> Float64:
    """Estimate the examination of every rank relative to rank 1 from items that were shown at two ranks.

        max_θ  Σ_{j ≠ k} C_jk · log(θ_j / (θ_j + θ_k))

    C_jk counts the clicks at rank j on items that were also shown at rank k, weighted as if each item had
    been shown equally often at both ranks: ``c_dj / n_dj · n_dj n_dk / (n_dj + n_dk)``. Its expectation is
    θ_j times a factor that j and k share. The expected share of clicks at rank j is therefore ``θ_j / (θ_j +
    θ_k)``, regardless of which items were shown and at which rank they were shown more often.

    Args:
        shown: displays and clicks per item and rank.
        weights: items; the weight of each item. All weights are 1 if None.

    Returns:
        float64, ranks; the first is 1.

    Reference:
        Agarwal, Zaitsev, Wang, Li, Najork and Joachims, Estimating position bias without intrusive
        interventions, WSDM 2019. Their likelihood also fits the relevance of each pair of ranks; here it is
        conditioned out. The iteration follows Hunter, MM algorithms for generalized Bradley-Terry models,
        2004.
    """
    ranks = shown.ranks
    common, effective, clicked = np.zeros((3, ranks, ranks))
    item_weights = np.ones(shown.n_items) if weights is None else weights
    counts = shown.starts, shown.rank, shown.displays, shown.clicks
    compare_ranks(*counts, item_weights, common, effective, clicked)
    np.fill_diagonal(clicked, 0.0)
    both, own = clicked + clicked.T, clicked.sum(axis=1)
    theta = np.ones(ranks)
    for _ in range(MAX_ITERATIONS):
        total = theta[:, None] + theta
        against = np.divide(both, total, out=np.zeros_like(both), where=total > 0.0).sum(axis=1)
        new = np.divide(own, against, out=theta.copy(), where=against > 0.0)
        new /= new[0] if new[0] > 0.0 else new.max()
        change = np.abs(new - theta).max()
        theta = new
        if change < TOLERANCE:
            break
    return theta
