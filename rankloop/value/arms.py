"""What an impression says about two policies that are both live, without any assumption about users."""

from __future__ import annotations

from rankloop.types import Float64


def arm_differences(
    amounts: Float64, by_new: Float64, by_old: Float64, share_new: Float64, share_old: Float64
) -> Float64:
    """What each impression says about the difference between two arms of the traffic.

        x_t = amount · (1[new] / share_new − 1[old] / share_old)

    Its mean is the value of the new policy minus that of the old one: the shares say how likely each was.

    Args:
        amounts: what users did on the page: clicks, or what they were worth.
        by_new: 1 for pages of the new policy, 0 for others.
        by_old: the same for the old policy.
        share_new: the share of the traffic that the new policy had.
        share_old: the share of the old policy.

    Example:
        >>> import numpy as np
        >>> arm_differences(*np.array([[2, 1, 0, 0.2, 0.5], [1, 0, 1, 0.2, 0.5], [3, 0, 0, 0.2, 0.5]]).T)
        array([10., -2.,  0.])
    """
    sign: Float64 = by_new / share_new - by_old / share_old
    return amounts * sign
