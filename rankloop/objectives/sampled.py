"""The sampled gradients that the exact one is compared with: REINFORCE and PL-Rank-3.

Both estimate the gradient of ``Σ_d r_d · E[θ_rank(d)]`` on the scores from rankings, given or drawn with
``rankloop.policies.sample_rankings``; both share one signature.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.sampled_gradients import PL_RANK, REINFORCE, sampled_gradients
from rankloop.objectives.expected_reward import check_doc_weights
from rankloop.policies.plackett_luce import check_rank_weights, check_rankings, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64


def reinforce_gradient(
    scores: object, offsets: Int64, doc_weights: object, rank_weights: object, rankings: object
) -> Float64:
    """The score-function gradient that the paper trains with, on rankings cut at the last rank that counts.

        1/N Σ_y Σ_k R_k · ∇ log π(y_k | y_1 … y_{k−1}),   R_k = Σ_{i ≥ k} θ_i r_{y_i}

    A rank is credited with the reward from it on: what was placed before does not depend on it.

    Args:
        scores: s, items.
        offsets: queries + 1.
        doc_weights: r, items.
        rank_weights: θ, ranks.
        rankings: samples × queries × ranks, positions of items within their query,
            -1 at the end of short ones.

    Returns:
        One number an item.

    Example:
        One ranking, drawn with chance 1/2: the reward 1 times ∇ log π = (1 − 1/2, −1/2).

        >>> reinforce_gradient(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0], [[[0]]])
        array([ 0.5, -0.5])

    Reference: Williams 1992; Oosterhuis & de Rijke 2021, section 6.
    """
    return _estimate(REINFORCE, scores, offsets, doc_weights, rank_weights, rankings)


def pl_rank_gradient(
    scores: object, offsets: Int64, doc_weights: object, rank_weights: object, rankings: object
) -> Float64:
    """PL-Rank-3: uses what the policy knows of every placement, not only the one that was drawn.

        1/N Σ_y [ R_{i+1} + e^{s_d} (r_d Σ_{k ≤ i} θ_k / Z_k − Σ_{k ≤ i} R_k / Z_k) ],   i = rank of d in y

    with ``Z_k`` the total weight left before rank k and ``R_k`` the reward from rank k on.

    Args and returns are those of ``reinforce_gradient``; rankings may be cut at K or full.

    Example:
        >>> pl_rank_gradient(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0], [[[0]], [[1]]])
        array([ 0.25, -0.25])

    Reference: Oosterhuis, Learning-to-Rank at the Speed of Sampling, SIGIR 2022.
    """
    return _estimate(PL_RANK, scores, offsets, doc_weights, rank_weights, rankings)


def _estimate(
    method: int,
    scores: object,
    offsets: Int64,
    doc_weights: object,
    rank_weights: object,
    rankings: object,
) -> Float64:
    flat = check_scores(scores, offsets)
    weights = check_doc_weights(doc_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    drawn = check_rankings(rankings, offsets)
    if theta.ndim != 1 or drawn.ndim != 3:
        raise DataError(
            "expected one vector of rank weights and rankings of samples × queries × ranks, "
            f"got {theta.shape} and {drawn.shape}"
        )
    gradient = np.empty(len(flat))
    for_segments(sampled_gradients, offsets, flat, weights, theta, drawn, method, gradient)
    return gradient
