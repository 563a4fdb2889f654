"""Sampled gradients for comparison with the exact one: REINFORCE and PL-Rank-3.

Both estimate the gradient of ``Σ_d r_d · E[θ_rank(d)]`` by the scores from sampled rankings, such as those of
`rankloop.policies.sample_rankings`. Both have the same signature.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.sampled_gradients import PL_RANK, REINFORCE, sampled_gradients
from rankloop.objectives.metrics import check_document_weights
from rankloop.policies.plackett_luce import check_rank_weights, check_rankings, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64


def reinforce_gradient(
    scores: object, offsets: Int64, document_weights: object, rank_weights: object, rankings: object
) -> Float64:
    """Estimate the gradient as the paper does: by the score function, on rankings truncated at the cut-off.

        1/N Σ_y Σ_k R_k · ∇ log π(y_k | y_1 … y_{k−1}),   R_k = Σ_{i ≥ k} θ_i r_{y_i}

    A rank is credited with the metric at that rank and below; the ranks above do not depend on it.

    Args:
        scores: s, documents.
        offsets: queries + 1.
        document_weights: r, documents.
        rank_weights: θ, ranks.
        rankings: samples × queries × ranks; numbers of documents within their query. Short rankings are
            padded with -1.

    Returns:
        documents; the gradient.

    Example:
        One ranking with probability 1/2: a metric of 1 times ∇ log π = (1 − 1/2, −1/2).

        >>> reinforce_gradient(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0], [[[0]]])
        array([ 0.5, -0.5])

    Reference: Williams 1992; Oosterhuis & de Rijke 2021, section 6.
    """
    return _estimate(REINFORCE, scores, offsets, document_weights, rank_weights, rankings)


def pl_rank_gradient(
    scores: object, offsets: Int64, document_weights: object, rank_weights: object, rankings: object
) -> Float64:
    """Estimate the gradient by PL-Rank-3, which uses the policy's probability of every placement.

        1/N Σ_y [ R_{i+1} + e^{s_d} (r_d Σ_{k ≤ i} θ_k / Z_k − Σ_{k ≤ i} R_k / Z_k) ],   i = rank of d in y

    ``Z_k`` is the total weight of the documents left before rank k, and ``R_k`` the metric at rank k and
    below.

    Arguments and result are those of `reinforce_gradient`. Rankings may be truncated at K or complete.

    Example:
        >>> pl_rank_gradient(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0], [[[0]], [[1]]])
        array([ 0.25, -0.25])

    Reference: Oosterhuis, Learning-to-Rank at the Speed of Sampling, SIGIR 2022.
    """
    return _estimate(PL_RANK, scores, offsets, document_weights, rank_weights, rankings)


def _estimate(
    method: int,
    scores: object,
    offsets: Int64,
    document_weights: object,
    rank_weights: object,
    rankings: object,
) -> Float64:
    flat = check_scores(scores, offsets)
    weights = check_document_weights(document_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    drawn = check_rankings(rankings, offsets)
    if theta.ndim != 1 or drawn.ndim != 3:
        raise DataError(
            "expected one vector of rank weights and rankings of samples × queries × ranks, "
            f"got {theta.shape} and {drawn.shape}"
        )
    document = np.where(drawn >= 0, offsets[:-1, None] + drawn, len(flat))
    excluded = np.append(flat, 0.0)[document] == -np.inf
    if excluded.any():
        raise DataError(
            f"query number {int(np.argwhere(excluded)[0][1])}: a ranking contains a document whose score is "
            "-inf, which the policy never shows: draw the rankings from these scores"
        )
    gradient = np.empty(len(flat))
    for_segments(sampled_gradients, offsets, flat, weights, theta, drawn, method, gradient)
    return gradient
