"""The scale of relevance that a bias is reported on: which levels count as 0 and as 1.

    α_k · R + β_k = α'_k · R' + β'_k        R' = (R − zero) / (one − zero)
    α'_k = α_k · (one − zero)               β'_k = β_k + α_k · zero

Clicks identify the lines only up to the scale of relevance. Two ranks fix that scale:

    R' = 0      a document that is never clicked at rank `low`:      β'_low = 0
    R' = 1      a document that is always clicked at rank `high`:    α'_high + β'_high = 1

What is reported besides α and β follows from them on this scale: the examination, and all intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.statistics.intervals import Interval, percentile
from rankloop.types import Bias, BiasEvidence, Float64, Lines

# A probability may lie this far outside [0, 1] because of rounding alone.
ROUNDING = 1e-9
# In place of an α of 0 at a rank of the anchor: lines of resamples stay finite.
LEAST_ALPHA = 1e-9


class Anchor(NamedTuple):
    """The two ranks that fix the scale of relevance, counted from 1.

    Attributes:
        high: the rank at which a document of relevance 1 is always clicked.
        low: the rank at which a document of relevance 0 is never clicked.
    """

    high: int
    low: int

    def __str__(self) -> str:
        return f"relevance 1 is always clicked at rank {self.high}, relevance 0 never at rank {self.low}"


def anchored(bias: Bias, *, high: int = 1, low: int | None = None) -> Bias:
    """Describe the same users with relevance on the anchor's scale; examination does not change.

        β'_low = 0,   α'_high + β'_high = 1

    Args:
        bias: α and β on any scale of relevance.
        high: the rank at which a document of relevance 1 is always clicked, from 1.
        low: the rank at which a document of relevance 0 is never clicked; the last rank if None.

    Raises:
        DataError: α is not positive at one of the two ranks, or click probabilities at another rank would
            leave [0, 1] for some relevance in [0, 1].

    Example:
        >>> paper = Bias(alpha=[0.35, 0.53], beta=[0.65, 0.265], examination=[1.0, 0.8])
        >>> same = anchored(paper)
        >>> same.alpha, same.beta
        (array([0.525, 0.795]), array([0.475, 0.   ]))
        >>> float(0.525 * (0.7 + 0.5) / 1.5 + 0.475), round(0.35 * 0.7 + 0.65, 3)  # a document of R = 0.7
        (0.895, 0.895)
    """
    anchor = Anchor(high, bias.positions if low is None else low)
    for rank in anchor:
        if not 1 <= rank <= bias.positions:
            raise RankloopError(f"the bias has ranks 1 to {bias.positions}, got {rank}")
        if bias.alpha[rank - 1] <= 0.0:
            raise DataError(f"α is not positive at rank {rank}, so that rank cannot anchor relevance")
    alpha, beta = lines_at(Lines(bias.alpha, bias.beta), anchor)
    bad = np.flatnonzero(~are_probabilities(Lines(alpha, beta), ROUNDING))
    if len(bad):
        raise DataError(
            f"anchored at ranks {anchor.high} and {anchor.low}, click probabilities at rank {bad[0] + 1} "
            f"would range from {beta[bad[0]]:.4g} to {alpha[bad[0]] + beta[bad[0]]:.4g}: choose other ranks"
        )
    return Bias(*clip_lines(Lines(alpha, beta)), bias.examination, contexts=bias.contexts)


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


def as_bias(lines: Lines, evidence: BiasEvidence | None = None) -> Bias:
    """Convert lines to a bias, with click probabilities clipped to [0, 1] and the examination they imply."""
    clipped = clip_lines(lines)
    return Bias(*clipped, examination_of(clipped), evidence)


def clip_lines(lines: Lines) -> Lines:
    """Clip both ends of each line to [0, 1]."""
    beta = np.clip(lines.beta, 0.0, 1.0)
    return Lines(np.clip(lines.alpha + lines.beta, 0.0, 1.0) - beta, beta)


def examination_of(lines: Lines) -> Float64:
    """How often a document of relevance 1 is clicked at each rank, relative to rank 1.

        examination_k = (α_k + β_k) / (α_1 + β_1)

    This is how often the rank is examined if users click every document of relevance 1 that they examine, and
    α_k / α_1 if there is no trust bias. The last axis is ranks.

    >>> examination_of(Lines(np.array([0.35, 0.53]), np.array([0.65, 0.26])))
    array([1.  , 0.79])
    """
    clicked = lines.alpha + lines.beta
    return np.asarray(clicked / np.maximum(clicked[..., :1], LEAST_ALPHA))


class Scale(NamedTuple):
    """The scale of relevance, the intervals on it, and notes about the choice.

    Attributes:
        anchor: which levels of relevance count as 0 and as 1.
        resampled: α and β of each resample on this scale, with click probabilities clipped to [0, 1]; None
            without resamples.
        alpha: the intervals of α; None without resamples.
        beta: the intervals of β; None without resamples.
        notes: remarks that every report must show.
    """

    anchor: Anchor
    resampled: Lines | None
    alpha: Interval | None
    beta: Interval | None
    notes: list[str]


def choose_scale(lines: Lines, resampled: Lines | None, confidence: float) -> Scale:
    """Anchor at rank 1 and the last rank, or elsewhere if that implies impossible click probabilities.

    Probabilities outside [0, 1] would have to be clipped, which makes α too small at some ranks and not at
    others: the ratios of α, on which weights depend, would be wrong.

    Args:
        lines: α and β on any scale; ranks.
        resampled: the same for each resample, resamples × ranks; None without resamples.
        confidence: confidence level of the intervals.
    """
    ranks = len(lines.alpha)
    notes = []
    anchor = Anchor(1, ranks)
    if not _fits(lines, anchor):
        anchor = widest_anchor(lines)
        notes.append(
            f"The scale of this estimate: {anchor}. The usual ranks, 1 and {ranks}, would imply click "
            "probabilities outside [0, 1] at other ranks."
        )
    if resampled is None:
        return Scale(anchor, None, None, None, notes)
    clipped = clip_lines(lines_at(resampled, anchor))
    alpha, beta = (percentile(part, confidence) for part in clipped)
    flat = np.flatnonzero(alpha.low <= 0.0) + 1
    if len(flat):
        notes.append(
            f"α is not distinguishable from 0 at rank {', '.join(map(str, flat))}: collect more data."
        )
    return Scale(anchor, clipped, alpha, beta, notes)


def _fits(lines: Lines, anchor: Anchor) -> bool:
    """Whether all click probabilities lie in [0, 1] on the anchor's scale."""
    return bool(are_probabilities(lines_at(lines, anchor), ROUNDING).all())
