"""The expected reward of a Plackett–Luce policy, exactly, with its exact derivatives on the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.expectations import rewards_of_queries
from rankloop.policies.plackett_luce import check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64


@dataclass(frozen=True, eq=False)
class Reward:
    """An objective at some scores.

    Attributes:
        values: one a query; the objective is their sum.
        gradient: one an item, the first derivative of the objective on its score.
        second: one an item, the second derivative of the objective on its score; of either sign.
        curvature: one an item, positive and never below the size of the gradient where rank weights
            fall with the rank: what a Newton step may be divided by.
    """

    values: Float64
    gradient: Float64
    second: Float64
    curvature: Float64

    @property
    def value(self) -> float:
        """The objective."""
        return float(self.values.sum())


def check_doc_weights(doc_weights: object, n_docs: int) -> Float64:
    """Weights as a flat float64 array, one finite number an item."""
    array = np.ascontiguousarray(doc_weights, dtype=np.float64)
    if array.shape != (n_docs,):
        raise DataError(f"{n_docs} items need as many weights, got shape {array.shape}")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"the weight of item {bad[0]} is {array[bad[0]]} ({len(bad)} such weights in all)")
    return array


def expected_reward(scores: object, offsets: Int64, doc_weights: object, rank_weights: object) -> Reward:
    """The expected reward of showing items at ranks, with its derivatives on the scores.

        V(s) = Σ_d r_d · E[θ_rank(d)]
        ∂V/∂s_d = Σ_i (r_d − r_i) ω_di,   curvature = Σ_i (r_d + r_i − 2 min r) |ω_di|

    ω_di ≥ 0 is how much reward moves when d and i, of unequal worth, trade places. The curvature replaces
    each difference by a bound on its size, as LambdaMART does with its pairs: the objective is not concave,
    and its second derivative is often positive where a Newton step needs it negative.

    Args:
        scores: s, items; -inf for an item that is never shown.
        offsets: queries + 1.
        doc_weights: r, items; of either sign.
        rank_weights: θ, ranks.

    Example:
        Two items at equal scores, of which the first is worth 1 at the top rank: it is there half the time,
        and p(1 − p) is the slope of its chance p.

        >>> reward = expected_reward(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> round(reward.value, 6), reward.gradient.round(6)
        (0.5, array([ 0.25, -0.25]))

    Reference: docs/plackett-luce.md.
    """
    flat = check_scores(scores, offsets)
    weights = check_doc_weights(doc_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1:
        raise DataError(f"one objective takes one vector of rank weights, got shape {theta.shape}")
    values, derivatives = np.empty(len(offsets) - 1), np.empty((3, len(flat)))
    for_segments(rewards_of_queries, offsets, flat, weights, theta, values, derivatives)
    gradient, second, curvature = derivatives
    return Reward(values, gradient, second, np.abs(curvature))
