"""Metrics of weighted documents and their derivatives by the scores: exact, on pairs, in a trust region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_WEIGHT, metrics_of_queries
from rankloop.kernels.proximal_metrics import proximal_metrics_of_queries
from rankloop.kernels.ranking_pairs import lambdas_of_queries
from rankloop.policies.plackett_luce import Divided, check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64, as_numbers


@dataclass(frozen=True, eq=False)
class MetricGradient:
    """The value of an objective and its derivatives.

    Attributes:
        values: queries; the objective is their sum.
        gradient: documents; the first derivative of the objective by the document's score.
        second: documents; the second derivative of the objective by the document's score, of either sign.
        curvature: documents; a positive number to divide a Newton step by. It is at least the absolute value
            of the gradient if rank weights decrease with the rank.
    """

    values: Float64
    gradient: Float64
    second: Float64
    curvature: Float64

    @property
    def value(self) -> float:
        """The value of the objective."""
        return float(self.values.sum())


def check_document_weights(document_weights: object, n_documents: int) -> Float64:
    """Convert weights to a flat float64 array, one number within ±`LARGEST_WEIGHT` per document."""
    array = as_numbers(document_weights, "weights")
    if array.shape != (n_documents,):
        raise DataError(f"{n_documents} documents need {n_documents} weights, got shape {array.shape}")
    bad = np.flatnonzero(~(np.abs(array) <= LARGEST_WEIGHT))
    if len(bad):
        raise DataError(
            f"the weight of document {bad[0]} is {array[bad[0]]}, but weights must be finite and within "
            f"±{LARGEST_WEIGHT:g} ({len(bad)} such weights in total)"
        )
    return array


def expected_metric(
    scores: object, offsets: Int64, document_weights: object, rank_weights: object
) -> MetricGradient:
    """Compute the expected metric of the policy and its derivatives by the scores.

        V(s) = Σ_d r_d · E[θ_rank(d)]
        ∂V/∂s_d = Σ_i (r_d − r_i) ω_di,   curvature = Σ_i (r_d + r_i − 2 min r) |ω_di|

    ω_di ≥ 0 is the rate at which value moves between d and i when they swap ranks. The curvature replaces
    each difference by a bound on its size, as LambdaMART does for pairs: the objective is not concave, and
    its second derivative is often positive where a Newton step needs it to be negative.

    Args:
        scores: s, documents; -inf for a document that is never shown.
        offsets: queries + 1.
        document_weights: r, documents; of either sign.
        rank_weights: θ, ranks.

    Example:
        Two documents with equal scores; the first is worth 1 at the top rank. It is there with
        probability p = 0.5, and p(1 − p) is the derivative of p.

        >>> metric = expected_metric(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> round(metric.value, 6), metric.gradient.round(6)
        (0.5, array([ 0.25, -0.25]))

    Reference: docs/plackett-luce.md.
    """
    flat = check_scores(scores, offsets)
    weights = check_document_weights(document_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1:
        raise DataError(f"an objective needs a single vector of rank weights, got shape {theta.shape}")
    values, derivatives = np.zeros(len(offsets) - 1), np.zeros((3, len(flat)))
    divided = Divided(offsets, len(theta))
    if len(divided.deep):
        divided.add_derivatives(flat, weights, theta, values, derivatives)
        documents = divided.shallow_documents
        some_values, some = np.empty(len(divided.shallow)), np.empty((3, len(documents)))
        for_segments(
            metrics_of_queries,
            divided.shallow_offsets,
            flat[documents],
            weights[documents],
            theta,
            some_values,
            some,
        )
        values[divided.shallow], derivatives[:, documents] = some_values, some
    else:
        for_segments(metrics_of_queries, offsets, flat, weights, theta, values, derivatives)
    gradient, second, curvature = derivatives
    return MetricGradient(values, gradient, second, np.abs(curvature))


class Derivatives(NamedTuple):
    """Derivatives of an objective by the scores.

    Attributes:
        gradient: float64, documents.
        curvature: float64, documents; not negative, a number to divide a Newton step by.
    """

    gradient: Float64
    curvature: Float64


def lambda_rank(
    scores: object, offsets: Int64, document_weights: object, rank_weights: object
) -> Derivatives:
    """Compute the derivatives of LambdaRank: a logistic loss per pair, weighted by what swapping it changes.

        ∂/∂s_d = Σ_i sign(r_d − r_i) · |r_d − r_i| · |θ_rank(d) − θ_rank(i)| · σ(−sign(r_d − r_i)(s_d − s_i))

    Ranks are those of the sorted scores. Unlike LightGBM's ``lambdarank``, weights are real numbers of either
    sign, as estimators of relevance give them, and queries are not normalised by their best ranking: a query
    counts as much as its weights say.

    Args:
        scores: s, documents.
        offsets: queries + 1.
        document_weights: r, documents.
        rank_weights: θ, ranks; pairs of which both documents are below the last rank have no gradient.

    Example:
        >>> found = lambda_rank(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> found.gradient, found.curvature
        (array([ 0.5, -0.5]), array([0.25, 0.25]))

    Reference: Burges, "From RankNet to LambdaRank to LambdaMART: an overview" (2010).
    """
    flat = check_scores(scores, offsets)
    weights = check_document_weights(document_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1:
        raise DataError(f"an objective needs a single vector of rank weights, got shape {theta.shape}")
    gradient, curvature = np.empty(len(flat)), np.empty(len(flat))
    for_segments(lambdas_of_queries, offsets, flat, weights, theta, gradient, curvature)
    return Derivatives(gradient, curvature)


def proximal_metric(
    scores: object,
    offsets: Int64,
    document_weights: object,
    rank_weights: object,
    *,
    anchor: object,
    width: float,
) -> MetricGradient:
    """Compute the expected metric that gives nothing for moving exposure further than the width.

        V(s) = Σ_d min(ρ_d r_d, clip(ρ_d, 1 − ε, 1 + ε) r_d) · λ_0(d)
        ρ_d = λ(d) / λ_0(d),   λ(d) = E[θ_rank(d)]

    A document of positive weight earns nothing beyond ``(1 + ε) λ_0``, and one of negative weight saves
    nothing below ``(1 − ε) λ_0``: a document that has left the trust region in the direction of its weight
    has no gradient any more. The ratios are exact, where the original uses sampled rankings. Derivatives are
    those of the expected metric with the weights of these documents set to 0; at the edge itself, where V has
    no derivative, they are one-sided.

    Args:
        scores: s, documents; -inf for a document that is never shown.
        offsets: queries + 1.
        document_weights: r, documents; of either sign.
        rank_weights: θ, ranks; not negative.
        anchor: λ_0, documents; the expected rank weights of the policy to stay near, as
            `rankloop.policies.expected_rank_weights` computes them.
        width: ε, at least 0; infinite for the plain expected metric.

    Example:
        At the anchor both documents have a gradient. Once the first has left the trust region, it has none.

        >>> offsets, weights = np.array([0, 2]), [1.0, 0.0]
        >>> near = proximal_metric([0.0, 0.0], offsets, weights, [1.0], anchor=[0.5, 0.5], width=0.1)
        >>> near.gradient.round(6)
        array([ 0.25, -0.25])
        >>> far = proximal_metric([1.0, 0.0], offsets, weights, [1.0], anchor=[0.5, 0.5], width=0.1)
        >>> round(far.value, 6), bool(np.abs(far.gradient).max() < 1e-9)  # (1 + 0.1) · 0.5
        (0.55, True)

    Reference: Gupta, Oosterhuis and de Rijke, "Practical and robust safety guarantees for advanced
    counterfactual learning to rank" (2024), section 5.
    """
    flat = check_scores(scores, offsets)
    weights = check_document_weights(document_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1 or (theta < 0.0).any():
        raise DataError("a proximal metric needs a single vector of rank weights, none negative")
    near = np.ascontiguousarray(anchor, dtype=np.float64)
    if near.shape != flat.shape or not (near >= 0.0).all():
        raise DataError(
            f"{len(flat)} documents need as many expected rank weights of the anchor, none negative, got "
            f"shape {near.shape}"
        )
    if not width >= 0.0:
        raise DataError(f"the width of a trust region is at least 0, got {width}")
    values, derivatives = np.empty(len(offsets) - 1), np.empty((3, len(flat)))
    # An infinite bound times an anchor of 0 is not a number, and no bound is needed then.
    bounded = min(float(width), np.finfo(np.float64).max)
    for_segments(
        proximal_metrics_of_queries, offsets, flat, weights, theta, near, bounded, values, derivatives
    )
    gradient, second, curvature = derivatives
    return MetricGradient(values, gradient, second, np.abs(curvature))
