"""What an impression says about two policies by the probabilities of its whole list, without any model."""

from __future__ import annotations

import numpy as np

from rankloop.types import Float64


def list_differences(amounts: Float64, log_new: Float64, log_old: Float64, log_live: Float64) -> Float64:
    """What each impression says about the difference between two policies that are live.

        x_t = (π_new(y) − π_old(y)) / Σ_j s_j π_j(y) · amount

    y is the list that was shown, and s_j the share of each policy of the mixture that drew it. The mean is
    the value of the new policy minus that of the old one, whatever users do. It is what `arm_differences`
    expects, given the list, so it is never noisier; where both policies show the same lists it has no noise.
    The first factor is between −1 / s_old and 1 / s_new.

    Args:
        amounts: what users did on the page: clicks, or what they were worth.
        log_new: the logarithm of the probability of the list under the new policy.
        log_old: the same under the old policy.
        log_live: the same under the mixture that was live.

    Example:
        A list that the new policy shows three times as often, when each had half of the traffic:

        >>> list_differences(np.array([2.0]), *np.log([[0.3], [0.1], [0.2]]))
        array([2.])
    """
    ratio: Float64 = np.exp(log_new - log_live) - np.exp(log_old - log_live)
    return amounts * ratio
