"""Estimate a bias from documents that moved between ranks: pairs of query and document, or documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rankloop.bias.bias_estimate import CURVE, BiasEstimate, BiasOptions, ModelComparison
from rankloop.bias.examination import check_by_harvest, estimate_curve, harvest, with_ranks_below
from rankloop.bias.movement import measure_movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.bias.resampling import bootstrap, few_clusters, resamples_queries, sample_queries
from rankloop.errors import DataError
from rankloop.progress import Progress, report
from rankloop.relevance.cross_fit import FOLDS, folds
from rankloop.statistics import Counts
from rankloop.statistics.tables import CellTable
from rankloop.types import ContextEffects, Float64, Lines

# The variation of clicks between documents must exceed what chance explains by this many standard deviations.
MIN_DEVIATIONS = 4.0
# Pooling is checked if pairs were shown again this often; otherwise the check would be too noisy.
MIN_REPEATS = 100
# The smallest variance of the rank within pairs, relative to that within documents. A document that keeps its
# rank in a query, and has another in the next, was placed there by what the ranker knows about the query.
MIN_SHARE = 0.5


def estimate_from_movement(
    all_ranks: CellTable,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    method: str = "pairs",
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from documents that moved between ranks.

    Args:
        all_ranks: displays and clicks per document and rank.
        options: what is estimated.
        rng: random generator for the resamples and the held-out folds.
        method: what counts as one document: ``pairs`` or ``documents``.
        progress: receives a task for each fit, for the resamples and for the comparison.

    Raises:
        DataError: documents did not move between rank 1 and other ranks, or clicks do not depend on the
            document.
    """
    if options.model == CURVE:
        return estimate_curve(all_ranks, options, rng, method=method, progress=progress)
    movement = measure_movement(all_ranks)
    sample = sample_queries(all_ranks, movement, rng)
    shown = sample.table.first_positions(movement.positions)
    countable, factor = shown.countable()
    _require_differing_relevance(shown)
    fits: dict[str, BiasFit] = {}
    for model, name in (("position", "position-based"), ("affine", "affine")):
        if options.held_out or options.model == model:
            report(progress, f"fitting the {name} model", 0.0)
            fits[model] = fit(countable, position=model == "position")
    fitted = fits.get(options.model)
    lines = (
        Lines(harvest(shown), np.zeros(shown.positions))
        if fitted is None
        else Lines(*(factor * part for part in fitted.parameters.free))
    )
    if not (lines.alpha[[0, -1]] > 0.0).all():
        raise DataError(
            "documents that get more clicks at other ranks do not get more at the first or the last rank: "
            "the affine model does not hold, or the log is too small; use fewer ranks or collect more data"
        )
    notes = list(sample.notes)
    resampled, seed = None, None
    if options.resamples:
        # A generator of its own, so that others can draw the same queries again.
        seed = int(rng.integers(2**32))
        estimator = _estimator(fitted, countable)
        drawn = factor * bootstrap(
            estimator, countable, options.resamples, np.random.default_rng(seed), progress
        )
        resampled = Lines(drawn[:, 0], drawn[:, 1])
        notes += few_clusters(shown)
    if fitted is not None and not fitted.converged:
        notes.append("The fit has not converged: the likelihood is nearly flat, so the estimates are rough.")
    comparison = compare(fits["affine"], fits["position"], rng, progress) if options.held_out else None
    if options.model != "affine" and comparison is not None and comparison.better == "affine":
        notes.append("Held-out queries favour the affine model: this estimate leaves out trust bias.")
    found = BiasEstimate.assemble(
        lines,
        resampled,
        movement,
        options,
        method=method,
        notes=notes,
        comparison=comparison,
        resample_seed=seed if method == "pairs" and resamples_queries(shown) and not sample.notes else None,
        query_share=sample.share,
    )
    if fitted is not None:
        found = found.checked(check_by_harvest(found.bias, shown, seed=seed))
    return with_ranks_below(found, sample.table)


def _estimator(fitted: BiasFit | None, shown: CellTable) -> Callable[[CellTable, Float64], Float64]:
    """Return the function from resampled counts and document weights to α and β, on any scale."""
    if fitted is None:
        return lambda counts, weights: np.stack([harvest(counts, weights), np.zeros(shown.positions)])
    if not resamples_queries(shown):
        return lambda counts, weights: np.stack(fitted.with_clicks(counts).refit_nearby(weights).free)
    # To first order, each document moves the estimate by a fixed amount: resamples are sums of these.
    influence = fitted.correction * fitted.influence()
    return lambda _, weights: np.stack(fitted.parameters.free_after((weights - 1.0) @ influence))


def _require_differing_relevance(shown: CellTable) -> None:
    """Raise an error if clicks depend on the rank alone: the scale of relevance is then unknown."""
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    chance = rates[shown.position]
    excess = shown.by_document(shown.clicks - shown.displays * chance)
    variance = shown.by_document(shown.displays * chance * (1.0 - chance))
    known = variance > 0.0
    surprise = float((excess[known] ** 2 / variance[known]).sum()) - known.sum()
    # The square of a standard normal number has variance 2.
    if surprise <= MIN_DEVIATIONS * np.sqrt(2.0 * known.sum()):
        raise DataError(
            "clicks depend on the rank, but not on which document is shown there: bias cannot be estimated "
            "without documents of different relevance; collect more data or add more queries"
        )


def compare(
    affine: BiasFit, position: BiasFit, rng: np.random.Generator, progress: Progress | None = None
) -> ModelComparison | None:
    """Compare both models by cross-validation over queries; None if there is only one query.

    Args:
        affine: the affine model fitted to all queries; the fits without a fold start from it.
        position: the position-based model fitted to all queries.
        rng: random generator for the folds.
        progress: receives the task ``comparing on held-out queries``.
    """
    shown = affine.likelihood.shown
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    count = min(FOLDS, len(queries))
    if count < 2:
        return None
    fold_of = folds(len(queries), count, rng)
    values = np.zeros((2, len(queries)))
    for number in range(count):
        held_out = (fold_of == number)[query_of].astype(np.float64)
        for model, fitted in enumerate((affine, position)):
            at = fitted.refit(1.0 - held_out)
            by_document = fitted.likelihood.expect(at, held_out).by_document
            values[model] += np.bincount(query_of, weights=by_document, minlength=len(queries))
            done = (2 * number + model + 1) / (2 * count)
            report(progress, "comparing on held-out queries", done)
    displays = float(shown.displays.sum())
    gains: Float64 = values[0] - values[1]
    error = float(np.sqrt(len(queries)) * gains.std(ddof=1)) / displays
    totals = values.sum(axis=1) / displays
    return ModelComparison(float(totals[0]), float(totals[1]), float(gains.sum()) / displays, error)


def estimate_from_documents(
    counts: Counts,
    estimate: Callable[[CellTable], BiasEstimate],
    *,
    forced: bool = False,
    effects: ContextEffects | None = None,
) -> BiasEstimate:
    """Estimate from the counts by document, with notes on what pooling assumes.

    Args:
        counts: the counts of the log.
        estimate: the estimate from counts by document.
        forced: whether to estimate even if pooling confuses rank and relevance; a note then says so.
        effects: how much more users click in some contexts.

    Raises:
        DataError: documents change rank between queries, but not within a query: the ranker places them by
            query, so the rank says how relevant they are to the query.
    """
    pooled = CellTable.of(counts, unit="documents", effects=effects)
    pairs = CellTable.of(counts, effects=effects)
    if pooled.n_documents == pairs.n_documents:
        return estimate(pooled)
    variance, repeats = _rank_variance(pairs)
    if repeats < MIN_REPEATS:
        found = estimate(pooled)
        again = f"only {repeats:,.0f} times" if repeats else "never"
        note = (
            "Documents are pooled over queries. It cannot be checked whether a document is equally relevant "
            f"to all queries that show it: pairs of query and document were {again} shown again. In a log of "
            "searches, where the ranker knows the query, ranks would look more different than they are; in a "
            "log without queries (recommendations, browse pages) this does not arise."
        )
        return replace(found, notes=(note, *found.notes))
    share = variance / max(_rank_variance(pooled)[0], 1e-12)
    note = (
        f"Documents are pooled over queries: the variance of a document's rank within a query is {share:.0%} "
        f"of that over all queries, so its rank depends little on the query."
    )
    if share < MIN_SHARE:
        note = (
            f"documents change rank between queries much more than within a query (the variance of the rank "
            f"within a query is {share:.0%} of that over all queries, and {MIN_SHARE:.0%} is needed), so the "
            f"ranker places them by query, and pooling them would mistake relevance for bias"
        )
        if not forced:
            raise DataError(note)
        note = f"Do not rely on this estimate: {note}."
    found = estimate(pooled)
    return replace(found, notes=(note, *found.notes))


def _rank_variance(shown: CellTable) -> tuple[float, float]:
    """Variance of the rank within documents, and how often documents were shown again."""
    displays = shown.by_document(shown.displays)
    mean = shown.by_document(shown.displays * shown.position) / displays
    squares = float((shown.displays * (shown.position - mean[shown.document_of]) ** 2).sum())
    repeats = float((displays - 1.0).sum())
    return squares / max(repeats, 1.0), repeats
