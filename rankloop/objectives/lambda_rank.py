"""LambdaRank with real-valued gains: the objective that trees are grown on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.ranking_pairs import lambdas_of_queries
from rankloop.objectives.expected_reward import check_doc_weights
from rankloop.policies.plackett_luce import check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64


class Derivatives(NamedTuple):
    """Derivatives of an objective by the scores.

    Attributes:
        gradient: float64, items.
        curvature: float64, items; not negative, a number to divide a Newton step by.
    """

    gradient: Float64
    curvature: Float64


def lambda_rank(scores: object, offsets: Int64, doc_weights: object, rank_weights: object) -> Derivatives:
    """Compute the derivatives of LambdaRank: a logistic loss per pair, weighted by what swapping it changes.

        ∂/∂s_d = Σ_i sign(r_d − r_i) · |r_d − r_i| · |θ_rank(d) − θ_rank(i)| · σ(−sign(r_d − r_i)(s_d − s_i))

    Ranks are those of the sorted scores. Unlike LightGBM's ``lambdarank``, weights are real numbers of either
    sign, as estimators of relevance give them, and queries are not normalised by their best ranking: a query
    counts as much as its weights say.

    Args:
        scores: s, items.
        offsets: queries + 1.
        doc_weights: r, items.
        rank_weights: θ, ranks; pairs of which both documents are below the last rank have no gradient.

    Example:
        >>> found = lambda_rank(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> found.gradient, found.curvature
        (array([ 0.5, -0.5]), array([0.25, 0.25]))

    Reference: Burges, "From RankNet to LambdaRank to LambdaMART: an overview" (2010).
    """
    flat = check_scores(scores, offsets)
    weights = check_doc_weights(doc_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1:
        raise DataError(f"an objective needs a single vector of rank weights, got shape {theta.shape}")
    gradient, curvature = np.empty(len(flat)), np.empty(len(flat))
    for_segments(lambdas_of_queries, offsets, flat, weights, theta, gradient, curvature)
    return Derivatives(gradient, curvature)
