"""The anchor: which relevance is called 0 and which 1.

    α_k · R + β_k = α'_k · R' + β'_k        R' = (R − zero) / (one − zero)
    α'_k = α_k · (one − zero)               β'_k = β_k + α_k · zero

Clicks tell lines, not the scale that relevance is read off. It is fixed by two ranks:

    R' = 0      what is never clicked at rank `low`:      β'_low = 0
    R' = 1      what is always clicked at rank `high`:    α'_high + β'_high = 1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.types import Bias, Float64


class Anchor(NamedTuple):
    """Two ranks, from 1.

    Attributes:
        high: where an item of relevance 1 is always clicked.
        low: where an item of relevance 0 is never clicked.
    """

    high: int
    low: int

    def __str__(self) -> str:
        return f"relevance 1 is always clicked at rank {self.high}, relevance 0 never at rank {self.low}"


class Lines(NamedTuple):
    """α and β by rank that need not be chances: float64, ranks last."""

    alpha: Float64
    beta: Float64


def anchored(bias: Bias, *, high: int = 1, low: int | None = None) -> Bias:
    """The same users, with relevance on the anchor's scale; examination does not depend on it.

        β'_low = 0,   α'_high + β'_high = 1

    Args:
        bias: α and β on any scale of relevance.
        high: the rank at which an item of relevance 1 is always clicked, from 1.
        low: the rank at which an item of relevance 0 is never clicked; None: the last.

    Raises:
        DataError: α is not positive at one of the two ranks, or chances of clicks at another rank would leave
            [0, 1] within the range of relevance.

    Example:
        >>> paper = Bias(alpha=[0.35, 0.53], beta=[0.65, 0.265], examination=[1.0, 0.8])
        >>> same = anchored(paper)
        >>> same.alpha, same.beta
        (array([0.525, 0.795]), array([0.475, 0.   ]))
        >>> float(0.525 * (0.7 + 0.5) / 1.5 + 0.475), round(0.35 * 0.7 + 0.65, 3)  # an item of R = 0.7
        (0.895, 0.895)
    """
    anchor = Anchor(high, bias.ranks if low is None else low)
    for rank in anchor:
        if not 1 <= rank <= bias.ranks:
            raise RankloopError(f"the bias has ranks 1 to {bias.ranks}, got {rank}")
        if bias.alpha[rank - 1] <= 0.0:
            raise DataError(f"α is not positive at rank {rank}: relevance cannot be read off there")
    alpha, beta = lines_at(Lines(bias.alpha, bias.beta), anchor)
    bad = np.flatnonzero(~within_chances(Lines(alpha, beta), ROUNDING))
    if len(bad):
        raise DataError(
            f"anchored at ranks {anchor.high} and {anchor.low}, chances of clicks at rank {bad[0] + 1} would "
            f"go from {beta[bad[0]]:.4g} to {alpha[bad[0]] + beta[bad[0]]:.4g}: take other ranks"
        )
    return as_bias(Lines(alpha, beta), bias.examination)


# How far a chance may lie outside [0, 1] for no other reason than rounding.
ROUNDING = 1e-9


def lines_at(lines: Lines, anchor: Anchor) -> Lines:
    """The lines on the anchor's scale of relevance; the last axis of either array is ranks."""
    alpha, beta = lines
    high, low = anchor.high - 1, anchor.low - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = -beta[..., low] / alpha[..., low]
        one = (1.0 - beta[..., high]) / alpha[..., high]
        scale = (one - zero)[..., None]
        return Lines(alpha * scale, beta + alpha * zero[..., None])


def within_chances(
    lines: Lines, tolerance: float | Float64 = 0.0
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether both ends of each rank's line are chances."""
    lowest = np.minimum(lines.beta, lines.alpha + lines.beta)
    highest = np.maximum(lines.beta, lines.alpha + lines.beta)
    return (lowest >= -tolerance) & (highest <= 1.0 + tolerance)


def widest(lines: Lines) -> Anchor:
    """The anchor that leaves all chances of clicks in [0, 1]: the widest range of relevance that does."""
    alpha, beta = lines
    rising = alpha > 0.0
    with np.errstate(divide="ignore"):
        zeros = np.where(rising, -beta / alpha, -np.inf)
        ones = np.where(rising, (1.0 - beta) / alpha, np.inf)
    return Anchor(int(np.argmin(ones)) + 1, int(np.argmax(zeros)) + 1)


def as_bias(lines: Lines, examination: Float64) -> Bias:
    """The lines as a bias; what lies outside [0, 1] is moved to its edge."""
    beta = np.clip(lines.beta, 0.0, 1.0)
    return Bias(np.clip(lines.alpha + lines.beta, 0.0, 1.0) - beta, beta, examination)
