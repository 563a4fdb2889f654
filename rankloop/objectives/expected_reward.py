"""The exact expected reward of a Plackett–Luce policy and its exact derivatives by the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.expectations import rewards_of_queries
from rankloop.policies.deep_queries import Divided
from rankloop.policies.plackett_luce import check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64, as_numbers


@dataclass(frozen=True, eq=False)
class Reward:
    """The value of an objective and its derivatives.

    Attributes:
        values: queries; the objective is their sum.
        gradient: items; the first derivative of the objective by the item's score.
        second: items; the second derivative of the objective by the item's score, of either sign.
        curvature: items; a positive number to divide a Newton step by. It is at least the absolute value of
            the gradient if rank weights decrease with the rank.
    """

    values: Float64
    gradient: Float64
    second: Float64
    curvature: Float64

    @property
    def value(self) -> float:
        """The value of the objective."""
        return float(self.values.sum())


def check_doc_weights(doc_weights: object, n_docs: int) -> Float64:
    """Convert weights to a flat float64 array with one finite number per item."""
    array = as_numbers(doc_weights, "weights")
    if array.shape != (n_docs,):
        raise DataError(f"{n_docs} items need {n_docs} weights, got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(
            f"the weight of item {bad[0]} is {array[bad[0]]}, but weights must be finite ({len(bad)} such "
            f"weights in total)"
        )
    return array


def expected_reward(scores: object, offsets: Int64, doc_weights: object, rank_weights: object) -> Reward:
    """Compute the expected reward of the policy and its derivatives by the scores.

        V(s) = Σ_d r_d · E[θ_rank(d)]
        ∂V/∂s_d = Σ_i (r_d − r_i) ω_di,   curvature = Σ_i (r_d + r_i − 2 min r) |ω_di|

    ω_di ≥ 0 is the rate at which reward moves between d and i when they swap ranks. The curvature replaces
    each difference by a bound on its size, as LambdaMART does for pairs: the objective is not concave, and
    its second derivative is often positive where a Newton step needs it to be negative.

    Args:
        scores: s, items; -inf for an item that is never shown.
        offsets: queries + 1.
        doc_weights: r, items; of either sign.
        rank_weights: θ, ranks.

    Example:
        Two items with equal scores; the first has a reward of 1 at the top rank. It is there with
        probability p = 0.5, and p(1 − p) is the derivative of p.

        >>> reward = expected_reward(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> round(reward.value, 6), reward.gradient.round(6)
        (0.5, array([ 0.25, -0.25]))

    Reference: docs/plackett-luce.md.
    """
    flat = check_scores(scores, offsets)
    weights = check_doc_weights(doc_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1:
        raise DataError(f"an objective needs a single vector of rank weights, got shape {theta.shape}")
    values, derivatives = np.zeros(len(offsets) - 1), np.zeros((3, len(flat)))
    divided = Divided(offsets, len(theta))
    if len(divided.deep):
        divided.add_derivatives(flat, weights, theta, values, derivatives)
        items = divided.shallow_items
        some_values, some = np.empty(len(divided.shallow)), np.empty((3, len(items)))
        for_segments(
            rewards_of_queries, divided.shallow_offsets, flat[items], weights[items], theta, some_values, some
        )
        values[divided.shallow], derivatives[:, items] = some_values, some
    else:
        for_segments(rewards_of_queries, offsets, flat, weights, theta, values, derivatives)
    gradient, second, curvature = derivatives
    return Reward(values, gradient, second, np.abs(curvature))
