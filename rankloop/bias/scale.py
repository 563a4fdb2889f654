"""The scale of relevance that an estimate is reported on, and its intervals on that scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.bias.anchor import Anchor, Lines, are_probabilities, clip_lines, lines_at, widest_anchor
from rankloop.bias.bootstrap import RankIntervals, percentile_interval

# Without resamples the noise is unknown. A probability that leaves [0, 1] by no more than this is put down to
# noise.
NOISE = 0.05


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
    alpha: RankIntervals | None
    beta: RankIntervals | None
    notes: list[str]


def choose_scale(lines: Lines, resampled: Lines | None, confidence: float) -> Scale:
    """Anchor at rank 1 and the last rank, or elsewhere if that implies impossible click probabilities.

    Args:
        lines: α and β on any scale; ranks.
        resampled: the same for each resample, resamples × ranks; None without resamples.
        confidence: confidence level of the intervals.
    """
    ranks = len(lines.alpha)
    notes = []
    anchor = Anchor(1, ranks)
    if not _fits(lines, resampled, anchor, confidence):
        anchor = widest_anchor(lines)
        notes.append(
            f"The scale of this estimate: {anchor}. The usual ranks, 1 and {ranks}, would imply click "
            "probabilities outside [0, 1] at other ranks."
        )
    if resampled is None:
        return Scale(anchor, None, None, None, notes)
    clipped = clip_lines(lines_at(resampled, anchor))
    alpha, beta = (percentile_interval(part, confidence) for part in clipped)
    flat = np.flatnonzero(alpha.low <= 0.0) + 1
    if len(flat):
        notes.append(
            f"α is not distinguishable from 0 at rank {', '.join(map(str, flat))}: collect more data."
        )
    return Scale(anchor, clipped, alpha, beta, notes)


def _fits(lines: Lines, resampled: Lines | None, anchor: Anchor, confidence: float) -> bool:
    """Whether all click probabilities lie in [0, 1] on the anchor's scale, up to noise."""
    if resampled is None:
        return bool(are_probabilities(lines_at(lines, anchor), NOISE).all())
    alpha, beta = lines_at(resampled, anchor)
    lowest, highest = percentile_interval(beta, confidence), percentile_interval(alpha + beta, confidence)
    # A probability is outside [0, 1] for certain only if its whole interval is.
    return bool(((lowest.high >= 0.0) & (highest.low <= 1.0)).all())
