"""The expected reward within a trust region: proximal ranking policy optimisation with exact exposure."""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.proximal_rewards import proximal_rewards_of_queries
from rankloop.objectives.expected_reward import Reward, check_doc_weights
from rankloop.policies.plackett_luce import check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.types import Int64


def proximal_reward(
    scores: object,
    offsets: Int64,
    doc_weights: object,
    rank_weights: object,
    *,
    anchor: object,
    width: float,
) -> Reward:
    """Compute the expected reward that does not reward to move exposure further than the width.

        V(s) = Σ_d min(ρ_d r_d, clip(ρ_d, 1 − ε, 1 + ε) r_d) · λ_0(d)
        ρ_d = λ(d) / λ_0(d),   λ(d) = E[θ_rank(d)]

    An item of positive weight earns nothing beyond ``(1 + ε) λ_0``, and one of negative weight saves nothing
    below ``(1 − ε) λ_0``: an item that has left the trust region in the direction of its weight has no
    gradient any more. The ratios are exact, where the original uses sampled rankings. Derivatives are those
    of the expected reward with the weights of these items set to 0; at the edge itself, where V has no
    derivative, they are one-sided.

    Args:
        scores: s, items; -inf for an item that is never shown.
        offsets: queries + 1.
        doc_weights: r, items; of either sign.
        rank_weights: θ, ranks; not negative.
        anchor: λ_0, items; the expected rank weights of the policy to stay near, as
            `rankloop.policies.expected_rank_weights` computes them.
        width: ε, at least 0; infinite for the plain expected reward.

    Example:
        At the anchor both items have a gradient. Once the first has left the trust region, it has none.

        >>> offsets, weights = np.array([0, 2]), [1.0, 0.0]
        >>> near = proximal_reward([0.0, 0.0], offsets, weights, [1.0], anchor=[0.5, 0.5], width=0.1)
        >>> near.gradient.round(6)
        array([ 0.25, -0.25])
        >>> far = proximal_reward([1.0, 0.0], offsets, weights, [1.0], anchor=[0.5, 0.5], width=0.1)
        >>> round(far.value, 6), bool(np.abs(far.gradient).max() < 1e-9)  # (1 + 0.1) · 0.5
        (0.55, True)

    Reference: Gupta, Oosterhuis and de Rijke, "Practical and robust safety guarantees for advanced
    counterfactual learning to rank" (2024), section 5.
    """
    flat = check_scores(scores, offsets)
    weights = check_doc_weights(doc_weights, len(flat))
    theta = check_rank_weights(rank_weights)
    if theta.ndim != 1 or (theta < 0.0).any():
        raise DataError("a proximal reward needs a single vector of rank weights, none negative")
    near = np.ascontiguousarray(anchor, dtype=np.float64)
    if near.shape != flat.shape or not (near >= 0.0).all():
        raise DataError(
            f"{len(flat)} items need as many expected rank weights of the anchor, none negative, got shape "
            f"{near.shape}"
        )
    if not width >= 0.0:
        raise DataError(f"the width of a trust region is at least 0, got {width}")
    values, derivatives = np.empty(len(offsets) - 1), np.empty((3, len(flat)))
    # An infinite bound times an anchor of 0 is not a number, and no bound is needed then.
    bounded = min(float(width), np.finfo(np.float64).max)
    for_segments(
        proximal_rewards_of_queries, offsets, flat, weights, theta, near, bounded, values, derivatives
    )
    gradient, second, curvature = derivatives
    return Reward(values, gradient, second, np.abs(curvature))
