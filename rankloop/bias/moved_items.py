"""Estimate a bias from items that moved between ranks: pairs of query and document, or documents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankloop.bias.anchor import Anchor, Lines, as_bias, lines_at
from rankloop.bias.bias_estimate import ASSUMPTIONS, BiasEstimate
from rankloop.bias.bias_options import BiasOptions
from rankloop.bias.bootstrap import bootstrap, few_clusters, percentile_interval, resamples_queries
from rankloop.bias.harvesting import harvest
from rankloop.bias.model_comparison import compare
from rankloop.bias.movement import measure_movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.bias.rank_counts import RankCounts
from rankloop.bias.scale import choose_scale
from rankloop.errors import DataError
from rankloop.progress import Progress, report
from rankloop.types import BiasEvidence, Float64

# The variation of clicks between documents must exceed what chance explains by this many standard deviations.
MIN_DEVIATIONS = 4.0


def estimate_from_items(
    all_ranks: RankCounts,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    method: str = "pairs",
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from items that moved between ranks.

    Args:
        all_ranks: displays and clicks per item and rank.
        options: what is estimated.
        rng: random generator for the resamples and the held-out folds.
        method: what the items are: ``pairs`` or ``documents``.
        progress: receives a task for each fit, for the resamples and for the comparison.

    Raises:
        DataError: items did not move between rank 1 and other ranks, or clicks do not depend on the item.
    """
    movement = measure_movement(all_ranks)
    shown = all_ranks.first_ranks(movement.ranks)
    _require_relevance_signal(shown)
    report(progress, "fitting the position-based model", 0.0)
    position = fit(shown, position=True)
    affine: BiasFit | None = None
    if options.model == "affine" or options.held_out:
        report(progress, "fitting the affine model", 0.0)
        affine = fit(shown)
    fitted = {"affine": affine, "position": position}.get(options.model)
    lines = Lines(harvest(shown), np.zeros(shown.ranks)) if fitted is None else Lines(*fitted.parameters.free)
    if not (lines.alpha[[0, -1]] > 0.0).all():
        raise DataError(
            "documents that get more clicks at other ranks do not get more at the first or the last rank: "
            "the affine model does not hold, or the log is too small; use fewer ranks or collect more data"
        )
    resampled, examined, seed = None, None, None
    if options.resamples:
        estimator = _estimator(fitted, position, shown)
        # A generator of its own, so that others can draw the same queries again.
        seed = int(rng.integers(2**32))
        drawn = bootstrap(estimator, shown, options.resamples, np.random.default_rng(seed), progress)
        resampled, examined = Lines(drawn[:, 0], drawn[:, 1]), drawn[:, 2]
    comparison = None
    if options.held_out and affine is not None:
        comparison = compare(affine, position, rng, progress)
    examination = _examination(position.parameters.free)
    scale = choose_scale(lines, resampled, options.confidence)
    notes = []
    if movement.missing_ranks is not None:
        notes.append(f"No estimate below rank {shown.ranks}: {movement.missing_ranks}.")
    if options.resamples:
        notes += few_clusters(shown)
    notes += scale.notes
    if fitted is not None and not fitted.converged:
        notes.append("The fit has not converged: the likelihood is nearly flat, so the estimates are rough.")
    if options.model != "affine" and comparison is not None and comparison.better == "affine":
        notes.append("Held-out queries favour the affine model: this estimate leaves out trust bias.")
    evidence = None
    if scale.resampled is not None and examined is not None:
        evidence = np.stack([*scale.resampled, examined], axis=1)
    return BiasEstimate(
        method=method,
        assumption=ASSUMPTIONS[method],
        model=options.model,
        bias=as_bias(lines_at(lines, scale.anchor), examination, BiasEvidence(method, evidence)),
        anchor=scale.anchor,
        alpha=scale.alpha,
        beta=scale.beta,
        examination=None if examined is None else percentile_interval(examined, options.confidence),
        confidence=options.confidence,
        resamples=options.resamples,
        movement=movement,
        comparison=comparison,
        harvested=harvest(shown),
        notes=tuple(notes),
        resample_seed=seed if method == "pairs" and resamples_queries(shown) else None,
    )


def _estimator(
    fitted: BiasFit | None, position: BiasFit, shown: RankCounts
) -> Callable[[RankCounts, Float64], Float64]:
    """Return the function from resampled counts and item weights to α, β (on any scale) and examination."""
    if fitted is None:
        return _harvested
    if not resamples_queries(shown):
        return lambda counts, weights: _refitted(fitted, position, counts, weights)
    # To first order, each item moves the estimate by a fixed amount: resamples are sums of these.
    main, other = fitted.influence(), position.influence()

    def estimate(_: RankCounts, weights: Float64) -> Float64:
        free = fitted.parameters.free_after((weights - 1.0) @ main)
        return np.stack([*free, _examination(position.parameters.free_after((weights - 1.0) @ other))])

    return estimate


def _harvested(counts: RankCounts, weights: Float64) -> Float64:
    theta = harvest(counts, weights)
    return np.stack([theta, np.zeros_like(theta), theta])


def _refitted(fitted: BiasFit, position: BiasFit, counts: RankCounts, weights: Float64) -> Float64:
    """α, β and examination of other clicks on the same displays."""
    free = fitted.with_clicks(counts).refit_nearby(weights).free
    if fitted is position:
        return np.stack([*free, _examination(free)])
    # One step with known curvature is enough for the examination, which is not the main result.
    return np.stack([*free, _examination(position.with_clicks(counts).refit_nearby(weights, steps=1).free)])


def _examination(free: tuple[Float64, Float64]) -> Float64:
    return lines_at(Lines(*free), Anchor(1, len(free[0]))).alpha


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
