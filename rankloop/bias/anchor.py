"""The anchor: which levels of relevance count as 0 and as 1.

    α_k · R + β_k = α'_k · R' + β'_k        R' = (R − zero) / (one − zero)
    α'_k = α_k · (one − zero)               β'_k = β_k + α_k · zero

Clicks identify the lines only up to the scale of relevance. Two ranks fix that scale:

    R' = 0      an item that is never clicked at rank `low`:      β'_low = 0
    R' = 1      an item that is always clicked at rank `high`:    α'_high + β'_high = 1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.types import Bias, BiasEvidence, Float64


class Anchor(NamedTuple):
    """The two ranks that fix the scale of relevance, counted from 1.

    Attributes:
        high: the rank at which an item of relevance 1 is always clicked.
        low: the rank at which an item of relevance 0 is never clicked.
    """

    high: int
    low: int

    def __str__(self) -> str:
        return f"relevance 1 is always clicked at rank {self.high}, relevance 0 never at rank {self.low}"


class Lines(NamedTuple):
    """α and β per rank, not necessarily valid probabilities: float64, the last axis is ranks."""

    alpha: Float64
    beta: Float64


def anchored(bias: Bias, *, high: int = 1, low: int | None = None) -> Bias:
    """Describe the same users with relevance on the anchor's scale; examination does not change.

        β'_low = 0,   α'_high + β'_high = 1

    Args:
        bias: α and β on any scale of relevance.
        high: the rank at which an item of relevance 1 is always clicked, from 1.
        low: the rank at which an item of relevance 0 is never clicked; the last rank if None.

    Raises:
        DataError: α is not positive at one of the two ranks, or click probabilities at another rank would
            leave [0, 1] for some relevance in [0, 1].

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
            raise DataError(f"α is not positive at rank {rank}, so that rank cannot anchor relevance")
    alpha, beta = lines_at(Lines(bias.alpha, bias.beta), anchor)
    bad = np.flatnonzero(~are_probabilities(Lines(alpha, beta), ROUNDING))
    if len(bad):
        raise DataError(
            f"anchored at ranks {anchor.high} and {anchor.low}, click probabilities at rank {bad[0] + 1} "
            f"would range from {beta[bad[0]]:.4g} to {alpha[bad[0]] + beta[bad[0]]:.4g}: choose other ranks"
        )
    return as_bias(Lines(alpha, beta), bias.examination)


# A probability may lie this far outside [0, 1] because of rounding alone.
ROUNDING = 1e-9
# In place of an α of 0 at a rank of the anchor: lines of resamples stay finite.
LEAST_ALPHA = 1e-9


def lines_at(lines: Lines, anchor: Anchor) -> Lines:
    """Rescale lines to the anchor's scale of relevance; the last axis of both arrays is ranks.

    If α is 0 at a rank of the anchor, there is no such scale: the result is what it is just above 0.
    """
    alpha, beta = lines
    high, low = anchor.high - 1, anchor.low - 1
    at_high, at_low = (np.where(own == 0.0, LEAST_ALPHA, own) for own in (alpha[..., high], alpha[..., low]))
    zero = -beta[..., low] / at_low
    one = (1.0 - beta[..., high]) / at_high
    scale = (one - zero)[..., None]
    return Lines(alpha * scale, beta + alpha * zero[..., None])


def are_probabilities(
    lines: Lines, tolerance: float | Float64 = 0.0
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether both ends of each rank's line lie in [0, 1], up to the tolerance."""
    lowest = np.minimum(lines.beta, lines.alpha + lines.beta)
    highest = np.maximum(lines.beta, lines.alpha + lines.beta)
    return (lowest >= -tolerance) & (highest <= 1.0 + tolerance)


def widest_anchor(lines: Lines) -> Anchor:
    """Find the anchor with the widest range of relevance that keeps all click probabilities in [0, 1]."""
    alpha, beta = lines
    rising = alpha > 0.0
    with np.errstate(divide="ignore"):
        zeros = np.where(rising, -beta / alpha, -np.inf)
        ones = np.where(rising, (1.0 - beta) / alpha, np.inf)
    return Anchor(int(np.argmin(ones)) + 1, int(np.argmax(zeros)) + 1)


def as_bias(lines: Lines, examination: Float64, evidence: BiasEvidence | None = None) -> Bias:
    """Convert lines to a bias, with click probabilities clipped to [0, 1]."""
    return Bias(*clip_lines(lines), examination, evidence)


def clip_lines(lines: Lines) -> Lines:
    """Clip both ends of each line to [0, 1]."""
    beta = np.clip(lines.beta, 0.0, 1.0)
    return Lines(np.clip(lines.alpha + lines.beta, 0.0, 1.0) - beta, beta)
