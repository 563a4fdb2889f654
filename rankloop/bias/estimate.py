"""Estimate a bias from the counts of a log, with intervals and notes on what the log cannot identify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankloop.bias.anchor import (
    Anchor,
    Lines,
    are_probabilities,
    as_bias,
    clip_lines,
    lines_at,
    widest_anchor,
)
from rankloop.bias.bootstrap import RankIntervals, bootstrap, percentile_interval
from rankloop.bias.harvesting import harvest
from rankloop.bias.model_comparison import ModelComparison, compare
from rankloop.bias.movement import Movement, measure_movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.bias.rank_counts import RankCounts
from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogCounts
from rankloop.names import unknown
from rankloop.progress import Progress, report
from rankloop.types import Bias, Float64

MODELS = ("affine", "position", "harvesting")
# With fewer resamples, the 5 % quantile cannot be estimated.
MIN_RESAMPLES = 20
# Without resamples the noise is unknown. A probability that leaves [0, 1] by no more than this is put down to
# noise.
NOISE = 0.05
# The variation of clicks between documents must exceed what chance explains by this many standard deviations.
MIN_DEVIATIONS = 4.0


@dataclass(frozen=True, eq=False)
class BiasEstimate:
    """A bias estimated from a log.

    Attributes:
        model: ``affine``, ``position`` or ``harvesting``.
        bias: α, β and examination of the ranks that the log can compare. These are fewer than the ranks of
            the log if items moved too little at some ranks. Examination comes from the position-based model,
            relative to rank 1.
        anchor: which levels of relevance count as 0 and as 1.
        alpha: the intervals of α; None without resamples.
        beta: the intervals of β; None without resamples.
        confidence: confidence level of the intervals.
        resamples: number of bootstrap resamples of the queries.
        movement: which of the log's ranks can be compared.
        comparison: comparison of the affine and the position-based model on held-out queries; None if it was
            not requested.
        harvested: float64, ranks; examination as estimated by intervention harvesting.
        notes: remarks that every report must show.
        resampled: α and β of every resample, resamples × ranks each, on the scale of the anchor, clipped to
            probabilities; None without resamples.
        resample_seed: the seed of `draw_queries`, which gives the queries of every resample again: those of
            the log with a document at one of the first ``bias.ranks`` ranks, in the order of their numbers.
            None if something else was resampled.
        log: the fingerprint of the log; None if it is not known.
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
    resampled: Lines | None = None
    resample_seed: int | None = None
    log: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""

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
            "log": self.log,
            "resample_seed": self.resample_seed,
            "resampled_alpha": _rows(self.resampled and self.resampled.alpha),
            "resampled_beta": _rows(self.resampled and self.resampled.beta),
        }


def _rows(values: Float64 | None) -> list[list[float]] | None:
    """Numbers with as many digits as resamples need."""
    return None if values is None else [[float(f"{value:.6g}") for value in row] for row in values]


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
    """Estimate click bias from a log in which items moved between ranks.

        affine      P(C | d, k) = α_k · R_d + β_k    maximum likelihood, relevance integrated out
        position    P(C | d, k) = θ_k · R_d          the same with β = 0
        harvesting  P(C | d, k) = θ_k · R_d          from items that were shown at two ranks

    Args:
        counts: the counts of a log, as returned by `rankloop.Log.count`.
        rng: random generator for the resamples and the held-out folds.
        model: ``affine``, ``position`` or ``harvesting``.
        resamples: number of bootstrap resamples of the queries for the intervals; 0 for no intervals.
        confidence: confidence level of the intervals.
        held_out: whether to compare the affine and the position-based model on held-out queries.
        progress: receives a task for each fit, for the resamples and for the comparison.

    Raises:
        DataError: items did not move between rank 1 and other ranks, or clicks do not depend on the item.

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
    all_ranks = RankCounts.of(counts)
    movement = measure_movement(all_ranks)
    shown = all_ranks if movement.ranks == counts.ranks else RankCounts.of(counts, movement.ranks)
    _require_relevance_signal(shown)
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
            "documents that get more clicks at other ranks do not get more at the first or the last rank: "
            "the affine model does not hold, or the log is too small; use fewer ranks or collect more data"
        )
    resampled, seed = None, None
    if resamples:
        # A generator of its own, so that others can draw the same queries again.
        seed = int(rng.integers(2**32))
        drawn = bootstrap(
            lambda weights: np.stack(estimator(weights)),
            shown,
            resamples,
            np.random.default_rng(seed),
            progress,
        )
        resampled = Lines(drawn[:, 0], drawn[:, 1])
    comparison = None
    if held_out and affine is not None:
        comparison = compare(affine, position, rng, progress)
    examination = lines_at(Lines(*position.parameters.free), Anchor(1, shown.ranks)).alpha
    scale = _choose_scale(lines, resampled, confidence)
    notes = []
    if movement.missing_ranks is not None:
        notes.append(f"No estimate below rank {shown.ranks}: {movement.missing_ranks}.")
    notes += scale.notes
    fitted = {"affine": affine, "position": position}.get(model)
    if fitted is not None and not fitted.converged:
        notes.append("The fit has not converged: the likelihood is nearly flat, so the estimates are rough.")
    if model != "affine" and comparison is not None and comparison.better == "affine":
        notes.append("Held-out queries favour the affine model: this estimate leaves out trust bias.")
    return BiasEstimate(
        model=model,
        bias=as_bias(lines_at(lines, scale.anchor), examination),
        anchor=scale.anchor,
        alpha=scale.alpha,
        beta=scale.beta,
        confidence=confidence,
        resamples=resamples,
        movement=movement,
        comparison=comparison,
        harvested=harvest(shown),
        notes=tuple(notes),
        resampled=None if resampled is None else clip_lines(lines_at(resampled, scale.anchor)),
        resample_seed=seed,
        log=counts.fingerprint,
    )


def _estimator(
    model: str, shown: RankCounts, affine: BiasFit | None, position: BiasFit
) -> Callable[[Float64 | None], Lines]:
    """Return the function from item weights to lines, on an arbitrary scale of relevance."""
    if model == "harvesting":
        beta = np.zeros(shown.ranks)
        return lambda weights: Lines(harvest(shown, weights), beta)
    fitted = affine if model == "affine" and affine is not None else position

    def lines(weights: Float64 | None) -> Lines:
        at = fitted.parameters if weights is None else fitted.refit_nearby(weights)
        return Lines(*at.free)

    return lines


class _Scale(NamedTuple):
    """The scale of relevance, the intervals on it, and notes about the choice."""

    anchor: Anchor
    alpha: RankIntervals | None
    beta: RankIntervals | None
    notes: list[str]


def _choose_scale(lines: Lines, resampled: Lines | None, confidence: float) -> _Scale:
    ranks = len(lines.alpha)
    notes = []
    anchor = Anchor(1, ranks)
    if not _fits(lines, resampled, anchor, confidence):
        anchor = widest_anchor(lines)
        notes.append(
            f"Anchored at ranks {anchor.high} and {anchor.low}, not 1 and {ranks}: relevance that is always "
            f"clicked at rank 1 or never at rank {ranks} would imply click probabilities outside [0, 1] at "
            "other ranks."
        )
    if resampled is None:
        return _Scale(anchor, None, None, notes)
    alpha, beta = (percentile_interval(part, confidence) for part in clip_lines(lines_at(resampled, anchor)))
    flat = np.flatnonzero(alpha.low <= 0.0) + 1
    if len(flat):
        notes.append(
            f"α is not distinguishable from 0 at rank {', '.join(map(str, flat))}: collect more data."
        )
    return _Scale(anchor, alpha, beta, notes)


def _fits(lines: Lines, resampled: Lines | None, anchor: Anchor, confidence: float) -> bool:
    """Whether all click probabilities lie in [0, 1] on the anchor's scale, up to noise."""
    if resampled is None:
        return bool(are_probabilities(lines_at(lines, anchor), NOISE).all())
    alpha, beta = lines_at(resampled, anchor)
    lowest, highest = percentile_interval(beta, confidence), percentile_interval(alpha + beta, confidence)
    # A probability is outside [0, 1] for certain only if its whole interval is.
    return bool(((lowest.high >= 0.0) & (highest.low <= 1.0)).all())


def _require_relevance_signal(shown: RankCounts) -> None:
    """Raise an error if clicks depend on the rank alone: the scale of relevance is then unknown."""
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    chance = rates[shown.rank]
    excess = shown.by_item(shown.clicks - shown.displays * chance)
    variance = shown.by_item(shown.displays * chance * (1.0 - chance))
    known = variance > 0.0
    surprise = float((excess[known] ** 2 / variance[known]).sum()) - known.sum()
    # The square of a standard normal number has variance 2.
    if surprise <= MIN_DEVIATIONS * np.sqrt(2.0 * known.sum()):
        raise DataError(
            "clicks depend on the rank, but not on which document is shown there: bias cannot be estimated "
            "without documents of different relevance; collect more data or add more queries"
        )


def _check(model: str, resamples: int, confidence: float) -> None:
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    if resamples and resamples < MIN_RESAMPLES:
        raise RankloopError(
            f"intervals need at least {MIN_RESAMPLES} resamples, got {resamples}; use 0 for no intervals"
        )
    if not 0.0 < confidence < 1.0:
        raise RankloopError(f"confidence must be between 0 and 1, such as 0.9, got {confidence}")
