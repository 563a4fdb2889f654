"""Estimate a bias from features, for logs in which most queries come once or twice."""

from __future__ import annotations

import numpy as np

from rankloop.bias.anchor import Anchor, Lines, as_bias, clip_lines, lines_at
from rankloop.bias.bias_estimate import ASSUMPTIONS, BiasEstimate
from rankloop.bias.bias_options import BiasOptions
from rankloop.bias.bootstrap import bootstrap, percentile_interval
from rankloop.bias.confounding import ConfoundingCheck, check_confounding
from rankloop.bias.cross_fitting import FOLDS, CrossFitting
from rankloop.bias.movement import count_movement
from rankloop.bias.orthogonal_lines import Solution, solve_lines
from rankloop.bias.rank_counts import RankCounts
from rankloop.bias.scale import choose_scale
from rankloop.errors import DataError, RankloopError
from rankloop.progress import Progress, report
from rankloop.types import Bias, BiasEvidence, Float32, Float64

METHOD = "features"
# Relevance is predicted with α and β, and α and β are solved with the prediction, in turn. They settle after
# two or three rounds; the mean of the last ones is less noisy than any of them.
ROUNDS, AVERAGED = 6, 3
# Trees need queries to grow on; ranks need clicks, and displays without a click.
MIN_QUERIES, MIN_CLICKS = 500, 100.0
# At the start, the click probabilities of a rank span this share of what is possible around its click rate.
START_SPAN = 0.8
# Below this many effective ranks (the exponential of the entropy), features determine almost entirely at
# which rank a document is shown: the effect of the rank cannot be separated from that of the features.
MIN_EFFECTIVE_RANKS = 1.5
# A standard error above this share of α means that features predict relevance too poorly.
LARGEST_ERROR = 1.0 / 3.0


def estimate_from_features(
    pairs: RankCounts,
    features: Float32,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from documents with similar features that were shown at different ranks.

        E[C | x, k] = α_k m(x) + β_k,    m(x) = E[R | x]

    Relevance m and the probability of each rank are predicted from features by trees that never saw the query
    (cross-fitting). α and β solve moments that do not depend, to first order, on errors of m.

    Args:
        pairs: displays and clicks per pair of query and document.
        features: float32, all items of the log × features, NaN where a value is missing. Items without any
            are left out.
        options: what is estimated. Harvesting needs no features and is refused. If the method is asked for by
            name, it is used even if the ranker knows more than the features; a note then says so.
        rng: random generator for folds, trees and resamples.
        progress: receives a task for the rounds and for the resamples.

    Raises:
        DataError: too few queries or clicks, features predict the rank almost entirely, or relevance too
            badly, or the ranker knows more about relevance than the features.
    """
    if options.model == "harvesting":
        raise RankloopError(
            "harvesting compares the same document at two ranks; features need affine or position"
        )
    known = np.flatnonzero(~np.isnan(features[pairs.items]).all(axis=1))
    shown = _ranks_with_clicks(pairs.select(known))
    fitting = CrossFitting.of(shown, features[shown.items], rng)
    placement = fitting.placement(rng)
    effective = float(np.exp(-(placement * np.log(placement)).sum(axis=1)) @ shown.by_item(shown.displays))
    effective /= float(shown.displays.sum())
    if effective < MIN_EFFECTIVE_RANKS:
        raise DataError(
            f"features determine the rank of a document almost entirely ({effective:.2f} effective ranks, "
            f"and {MIN_EFFECTIVE_RANKS} are needed), so the effect of the rank cannot be separated "
            f"from that of the features"
        )
    anchor = Anchor(1, shown.ranks)
    lines, solutions, relevance = _start(shown, position=options.model == "position"), [], np.empty(0)
    for number in range(ROUNDS):
        report(progress, "predicting relevance from features", number / ROUNDS)
        relevance = fitting.relevance(Bias(*lines, np.ones(shown.ranks)), rng)
        found = solve_lines(shown, relevance, placement, lines, position=options.model == "position")
        _require_slopes(found.lines)
        solutions.append(found)
        lines = clip_lines(lines_at(found.lines, anchor))
    report(progress, "predicting relevance from features", 1.0)
    solutions = solutions[-AVERAGED:]
    middle = float(relevance @ shown.by_item(shown.displays) / shown.displays.sum())

    def estimate(_: RankCounts, weights: Float64) -> Float64:
        anchored = np.mean([_resampled(one, weights, anchor) for one in solutions], axis=0)
        return np.stack([*anchored, _examination(anchored, middle)])

    alpha, beta, examination = estimate(shown, np.ones(shown.n_items))
    resampled, examined, seed = None, None, None
    if options.resamples:
        seed = int(rng.integers(2**32))
        drawn = bootstrap(estimate, shown, options.resamples, np.random.default_rng(seed), progress)
        resampled, examined = Lines(drawn[:, 0], drawn[:, 1]), drawn[:, 2]
        _require_precision(Lines(alpha, beta), resampled)
    check = check_confounding(shown, relevance, placement, lines)
    notes = _notes(pairs, shown, effective, check, forced=options.forced)
    scale = choose_scale(Lines(alpha, beta), resampled, options.confidence)
    evidence = None
    if scale.resampled is not None and examined is not None:
        evidence = np.stack([*scale.resampled, examined], axis=1)
    return BiasEstimate(
        method=METHOD,
        assumption=ASSUMPTIONS[METHOD],
        model=options.model,
        bias=as_bias(lines_at(Lines(alpha, beta), scale.anchor), examination, BiasEvidence(METHOD, evidence)),
        anchor=scale.anchor,
        alpha=scale.alpha,
        beta=scale.beta,
        examination=None if examined is None else percentile_interval(examined, options.confidence),
        confidence=options.confidence,
        resamples=options.resamples,
        movement=count_movement(pairs),
        comparison=None,
        harvested=None,
        notes=(*notes, *scale.notes),
        # Items without features are left out, and their queries with them.
        resample_seed=seed if _same_queries(pairs, shown) else None,
    )


def _ranks_with_clicks(shown: RankCounts) -> RankCounts:
    """The leading ranks that have enough clicks, of a log with enough queries."""
    queries = len(np.unique(shown.queries))
    if queries < max(MIN_QUERIES, 2 * FOLDS):
        raise DataError(
            f"{queries:,} queries have documents with features, and {MIN_QUERIES} are needed to predict "
            f"relevance"
        )
    clicks, displays = shown.by_rank(shown.clicks), shown.by_rank(shown.displays)
    enough = np.minimum(clicks, displays - clicks) >= MIN_CLICKS
    ranks = int(np.argmin(np.append(enough, False)))
    if ranks < 2:
        raise DataError(
            f"ranks 1 and 2 need at least {MIN_CLICKS:.0f} clicks each (and as many displays without a "
            f"click) on documents with features"
        )
    return shown.first_ranks(ranks)


def _start(shown: RankCounts, *, position: bool) -> Lines:
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    if position:
        theta = rates / rates.max()
        return Lines(theta, np.zeros(shown.ranks))
    half = START_SPAN * np.minimum(rates, 1.0 - rates)
    return Lines(2.0 * half, rates - half)


def _resampled(found: Solution, weights: Float64, anchor: Anchor) -> Float64:
    ranks = len(found.lines.alpha)
    step = (weights - 1.0) @ found.influence
    moved = Lines(found.lines.alpha + step[:ranks], found.lines.beta + step[ranks:])
    return np.stack(lines_at(moved, anchor))


def _examination(anchored: Float64, middle: float) -> Float64:
    """How often a document of average relevance is clicked, relative to rank 1."""
    chances = np.maximum(anchored[0] * middle + anchored[1], 0.0)
    return np.asarray(chances / max(chances[0], 1e-12))


def _require_slopes(lines: Lines) -> None:
    if not (lines.alpha[[0, -1]] > 0.0).all():
        raise DataError(
            "documents whose features predict more clicks do not get more at the first or the last rank: "
            "features do not predict relevance, or the log is too small"
        )


def _require_precision(lines: Lines, resampled: Lines) -> None:
    errors = resampled.alpha.std(axis=0, ddof=1) / np.maximum(lines.alpha, 1e-12)
    worst = int(np.argmax(errors))
    if errors[worst] > LARGEST_ERROR:
        raise DataError(
            f"features predict relevance too poorly: the standard error of α at rank {worst + 1} is "
            f"{errors[worst]:.0%} of its value, and {LARGEST_ERROR:.0%} is allowed; collect more data or "
            f"add features"
        )


def _notes(
    pairs: RankCounts, shown: RankCounts, effective: float, check: ConfoundingCheck, *, forced: bool
) -> list[str]:
    notes = []
    if shown.ranks < pairs.ranks:
        notes.append(
            f"No estimate below rank {shown.ranks}: rank {shown.ranks + 1} has fewer than {MIN_CLICKS:.0f} "
            f"clicks on documents with features."
        )
    sizes = f"slope {check.slope:+.3f}, {check.deviations:+.1f} standard errors"
    if check.confounded:
        reason = (
            f"the ranker knows more about relevance than the features tell: documents that it placed above "
            f"stronger ones are clicked more than their features say ({sizes}); add the features that the "
            f"ranker uses"
        )
        if not forced:
            raise DataError(reason)
        notes.append(f"Do not rely on this estimate: {reason}.")
    else:
        notes.append(
            f"Relevance was predicted from features. Given these, a document could have been shown at "
            f"{effective:.1f} of {shown.ranks} ranks (effective number), and no sign was found that the "
            f"ranker knows more about relevance than the features tell ({sizes}). A ranker that does in a "
            f"way that no other document of the page reveals would bias the estimate unnoticed."
        )
    return notes


def _same_queries(pairs: RankCounts, shown: RankCounts) -> bool:
    return bool(np.array_equal(np.unique(pairs.first_ranks(shown.ranks).queries), np.unique(shown.queries)))
