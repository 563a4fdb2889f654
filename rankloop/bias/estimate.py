"""From the counts of a log to a bias, with intervals and with what the log cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankloop.bias.anchor import Anchor, Lines, as_bias, lines_at, widest, within_chances
from rankloop.bias.bootstrap import RankIntervals, interval, resampled
from rankloop.bias.harvesting import harvest
from rankloop.bias.model_comparison import ModelComparison, compare
from rankloop.bias.movement import Movement, movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.bias.rank_counts import RankCounts
from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogCounts
from rankloop.names import unknown
from rankloop.progress import Progress, report
from rankloop.types import Bias, Float64

MODELS = ("affine", "position", "harvesting")
# Fewer resamples do not tell where a twentieth of them lies.
FEWEST_RESAMPLES = 20
# Without resamples nobody knows how far noise reaches; a chance that misses [0, 1] by no more is noise.
NOISE = 0.05
# Clicks on documents must differ by more than chance, by so many standard deviations of what chance gives.
CLEARLY = 4.0


@dataclass(frozen=True, eq=False)
class BiasEstimate:
    """How users click, as far as a log tells.

    Attributes:
        model: ``affine``, ``position`` or ``harvesting``.
        bias: α, β and examination of the ranks that the log can compare; fewer than it has, if items moved
            too little at others. Examination is that of the position-based model, relative to rank 1.
        anchor: which relevance is called 0 and which 1.
        alpha: the interval of α; None without resamples.
        beta: that of β.
        confidence: how often such intervals hold the truth.
        resamples: how often queries were drawn anew.
        movement: which ranks can be compared, of all ranks of the log.
        comparison: the affine beside the position-based model on held-out queries; None if not asked for.
        harvested: float64, ranks; what intervention harvesting gives for the examination.
        notes: what every report must say.
    """

    model: str
    bias: Bias
    anchor: Anchor
    alpha: RankIntervals | None
    beta: RankIntervals | None
    confidence: float
    resamples: int
    movement: Movement
    comparison: ModelComparison | None
    harvested: Float64
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""

        def ends(of: RankIntervals | None) -> list[list[float]] | None:
            return None if of is None else np.stack(of, axis=1).tolist()

        return {
            "model": self.model,
            "ranks": self.bias.ranks,
            "alpha": self.bias.alpha.tolist(),
            "beta": self.bias.beta.tolist(),
            "examination": self.bias.examination.tolist(),
            "anchor": {"high": self.anchor.high, "low": self.anchor.low},
            "confidence": self.confidence,
            "resamples": self.resamples,
            "alpha_interval": ends(self.alpha),
            "beta_interval": ends(self.beta),
            "harvested": self.harvested.tolist(),
            "held_out": None if self.comparison is None else self.comparison.to_dict(),
            "movement": self.movement.to_dict(),
            "notes": list(self.notes),
        }


def estimate_bias(
    counts: LogCounts,
    *,
    rng: np.random.Generator,
    model: str = "affine",
    resamples: int = 100,
    confidence: float = 0.9,
    held_out: bool = True,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate how users click from a log in which items moved between ranks.

        affine      P(C | d, k) = α_k · R_d + β_k    maximum likelihood, relevance integrated out
        position    P(C | d, k) = θ_k · R_d          the same with β = 0
        harvesting  P(C | d, k) = θ_k · R_d          from items at two ranks, rank by rank

    Args:
        counts: what `rankloop.Log.count` returns.
        rng: draws queries for the intervals, and those that are held out.
        model: ``affine``, ``position`` or ``harvesting``.
        resamples: how often queries are drawn anew for the intervals; 0 for none.
        confidence: how often intervals are to hold the truth.
        held_out: whether to compare the affine and the position-based model on held-out queries.
        progress: called with what is being done and how much of it is done.

    Raises:
        DataError: items did not move between rank 1 and others, or clicks do not depend on the item.

    Example:
        >>> from rankloop.bias import anchored, simulated_counts
        >>> from rankloop.clicks import bias_of, gather, users
        >>> rng, people, offsets = np.random.default_rng(0), users("paper@2"), np.arange(0, 401, 4)
        >>> clicks = gather(np.zeros(400), offsets, rng.random(400), people, 50_000, rng)
        >>> counts = simulated_counts(offsets, {"random": clicks})
        >>> estimate = estimate_bias(counts, rng=rng, resamples=20)
        >>> str(estimate.anchor)
        'relevance 1 is always clicked at rank 1, relevance 0 never at rank 2'
        >>> truth = anchored(bias_of(people))
        >>> bool(np.abs(estimate.bias.alpha - truth.alpha).max() < 0.02)
        True
        >>> estimate.comparison.better
        'affine'

    Reference: docs/bias.md; Vardasbi, Oosterhuis and de Rijke, When inverse propensity scoring does not work:
    affine corrections for unbiased learning to rank, CIKM 2020.
    """
    _check(model, resamples, confidence)
    everything = RankCounts.of(counts)
    moved = movement(everything)
    shown = everything if moved.ranks == counts.ranks else RankCounts.of(counts, moved.ranks)
    _refuse_alike(shown)
    report(progress, "fitting the position-based model", 0.0)
    position = fit(shown, position=True)
    affine: BiasFit | None = None
    if model == "affine" or held_out:
        report(progress, "fitting the affine model", 0.0)
        affine = fit(shown)
    estimator = _estimator(model, shown, affine, position)
    lines = estimator(None)
    if not (lines.alpha[[0, -1]] > 0.0).all():
        raise DataError(
            "what is clicked more at other ranks is not clicked more at the first or at the last one: the "
            "affine model does not hold, or the log is too small; look at fewer ranks, or gather more"
        )
    again = None
    if resamples:
        drawn = resampled(
            lambda weights: np.stack(estimator(weights)),
            *(
                shown,
                resamples,
                rng,
                lambda share: report(progress, "resampling queries", share, f"{share:.0%}"),
            ),
        )
        again = Lines(drawn[:, 0], drawn[:, 1])
    comparison = None
    if held_out and affine is not None:
        comparison = compare(
            affine,
            position,
            rng,
            lambda share: report(progress, "comparing on held-out queries", share, f"{share:.0%}"),
        )
    looks = lines_at(Lines(*position.parameters.free), Anchor(1, shown.ranks)).alpha
    placed = _placed(lines, again, confidence)
    notes = [] if moved.refused is None else [f"No numbers below rank {shown.ranks}: {moved.refused}."]
    notes += placed.notes
    fitted = {"affine": affine, "position": position}.get(model)
    if fitted is not None and not fitted.converged:
        notes.append("The fit has not converged: the likelihood is nearly flat, and numbers are rough.")
    if model != "affine" and comparison is not None and comparison.better == "affine":
        notes.append("Held-out queries speak for the affine model: trust bias is missing from this estimate.")
    return BiasEstimate(
        model=model,
        bias=as_bias(lines_at(lines, placed.anchor), looks),
        anchor=placed.anchor,
        alpha=placed.alpha,
        beta=placed.beta,
        confidence=confidence,
        resamples=resamples,
        movement=moved,
        comparison=comparison,
        harvested=harvest(shown),
        notes=tuple(notes),
    )


def _estimator(
    model: str, shown: RankCounts, affine: BiasFit | None, position: BiasFit
) -> Callable[[Float64 | None], Lines]:
    """From weights of the items to lines, on a scale of relevance that is free."""
    if model == "harvesting":
        nothing = np.zeros(shown.ranks)
        return lambda weights: Lines(harvest(shown, weights), nothing)
    fitted = affine if model == "affine" and affine is not None else position

    def lines(weights: Float64 | None) -> Lines:
        at = fitted.parameters if weights is None else fitted.near(weights)
        return Lines(*at.free)

    return lines


class _Placed(NamedTuple):
    """On which scale relevance is read, the intervals there, and what is to be said of it."""

    anchor: Anchor
    alpha: RankIntervals | None
    beta: RankIntervals | None
    notes: list[str]


def _placed(lines: Lines, again: Lines | None, confidence: float) -> _Placed:
    ranks = len(lines.alpha)
    notes = []
    anchor = Anchor(1, ranks)
    if not _fits(lines, again, anchor, confidence):
        anchor = widest(lines)
        notes.append(
            f"Anchored at ranks {anchor.high} and {anchor.low}, not 1 and {ranks}: relevance that is always "
            f"clicked at rank 1 or never at rank {ranks} would need chances outside [0, 1] at other ranks."
        )
    if again is None:
        return _Placed(anchor, None, None, notes)
    alpha, beta = (interval(part, confidence) for part in _clipped(lines_at(again, anchor)))
    flat = np.flatnonzero(alpha.low <= 0.0) + 1
    if len(flat):
        notes.append(f"α cannot be told from 0 at rank {', '.join(map(str, flat))}: gather more.")
    return _Placed(anchor, alpha, beta, notes)


def _clipped(lines: Lines) -> Lines:
    beta = np.clip(lines.beta, 0.0, 1.0)
    return Lines(np.clip(lines.alpha + lines.beta, 0.0, 1.0) - beta, beta)


def _fits(lines: Lines, again: Lines | None, anchor: Anchor, confidence: float) -> bool:
    """Whether all chances lie in [0, 1] on the anchor's scale, up to noise."""
    at = lines_at(lines, anchor)
    if again is None:
        return bool(within_chances(at, NOISE).all())
    several = lines_at(again, anchor)
    lowest, highest = interval(several.beta, confidence), interval(several.alpha + several.beta, confidence)
    # Outside for certain: the whole interval is.
    return bool(((lowest.high >= 0.0) & (highest.low <= 1.0)).all())


def _refuse_alike(shown: RankCounts) -> None:
    """Refuse clicks that depend on the rank alone: the scale of relevance cannot be known then."""
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    chance = rates[shown.rank]
    more = shown.by_item(shown.clicks - shown.displays * chance)
    variance = shown.by_item(shown.displays * chance * (1.0 - chance))
    known = variance > 0.0
    surprise = float((more[known] ** 2 / variance[known]).sum()) - known.sum()
    # Squares of standard normal numbers have the variance 2.
    if surprise <= CLEARLY * np.sqrt(2.0 * known.sum()):
        raise DataError(
            "clicks depend on the rank, but not on which document is shown there: without documents of "
            "different relevance their bias cannot be told; gather more, or of more queries"
        )


def _check(model: str, resamples: int, confidence: float) -> None:
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    if resamples and resamples < FEWEST_RESAMPLES:
        raise RankloopError(
            f"intervals need at least {FEWEST_RESAMPLES} resamples, got {resamples}; 0 for none"
        )
    if not 0.0 < confidence < 1.0:
        raise RankloopError(f"confidence is a share between 0 and 1, such as 0.9, got {confidence}")
