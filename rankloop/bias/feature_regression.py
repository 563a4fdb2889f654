"""Estimate a bias from features, for logs in which most queries come once or twice.

    E[C | x, k] = α_k m(x) + β_k,    m(x) = E[R | x]

A regression of clicks on predicted relevance m̂ would mistake its errors for a weak effect of relevance:
every α would be too small, and more so at some ranks than at others. The lines are therefore solved from
moments in which the errors cancel, for every rank k and h(x) = 1 and h(x) = m̂(x):

    Σ ω_r (C − α_r m̂ − β_r) h(x) [1(r = k) − α_r ω_k e_k(x) α_k / Σ_j ω_j e_j(x) α_j²] = 0

r is the rank of the display, ω_r the inverse variance of clicks there, and e_k(x) the probability that a
document with these features, if shown, is shown at rank k. If m̂ is off by δ(x), the expected sum changes by

    −Σ δ h (ω_k e_k α_k − ω_k e_k α_k) = 0

for the true e, whatever δ is; and for the true m it is 0, whatever e is (double robustness).

Reference: Chernozhukov et al., Double/debiased machine learning for treatment and structural parameters,
2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from rankloop import extras
from rankloop.bias.anchor import Anchor, clip_lines, lines_at
from rankloop.bias.bias_estimate import BiasEstimate, BiasOptions
from rankloop.bias.movement import count_movement
from rankloop.bias.resampling import bootstrap, sample_queries
from rankloop.errors import DataError, RankloopError
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress, report
from rankloop.ragged import threads
from rankloop.relevance import ClickModel, ClickTask, train_trees_on_clicks
from rankloop.relevance.cross_fit import FOLDS, each_fold, folds
from rankloop.statistics.tables import CellTable
from rankloop.types import Bias, Float32, Float64, Int64, Lines

# Small trees and large steps: both predictions are only needed to first order.
RELEVANCE = LightGBMSpec(
    rounds=200, patience=10, rate=0.1, leaves=15, min_documents=50, objective="click-likelihood"
)
PLACEMENT_ROUNDS = 40
PLACEMENT = {"learning_rate": 0.1, "num_leaves": 8, "min_data_in_leaf": 50, "verbosity": -1}
# No rank is believed to be less likely than this.
LEAST_PROBABILITY = 1e-3


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """Documents with features, in folds of whole queries.

    Attributes:
        shown: displays and clicks of the documents.
        features: float32, documents × features.
        fold: int64, queries of the log; the fold of each.
    """

    shown: CellTable
    features: Float32
    fold: Int64

    @classmethod
    def of(cls, shown: CellTable, features: Float32, rng: np.random.Generator) -> CrossFitting:
        """Draw the folds."""
        queries = np.unique(shown.queries)
        fold = np.zeros(shown.n_queries, np.int64)
        fold[queries] = folds(len(queries), rng=rng)
        return cls(shown, features, fold)

    def relevance(self, bias: Bias, rng: np.random.Generator) -> Float64:
        """Predict the relevance of every document if users click as the bias says: documents.

        Trees on the likelihood of clicks, grown on three of the other folds and stopped on the fourth.
        """
        result = np.empty(self.shown.n_documents)
        countable, factor = self.shown.countable()
        task = ClickTask(self.features, ClickModel(countable, bias.scaled(1.0 / factor)))
        for turn in each_fold(self.fold):
            grown = task.of_queries(turn.grown)
            trees = train_trees_on_clicks(grown, task.of_queries(turn.stopped), RELEVANCE, rng=rng).model
            own = turn.own[self.shown.queries]
            result[own] = expit(trees.scores(self.features[own]) + grown.model.mean_score)
        return result

    def placement(self, rng: np.random.Generator) -> Float64:
        """Predict the rank of every document: the probability of each if it is shown, documents × ranks."""
        lightgbm = extras.load("lightgbm")
        shown, ranks = self.shown, self.shown.positions
        settings = {
            **DEFAULTS,
            **PLACEMENT,
            "objective": "multiclass",
            "num_class": ranks,
            "seed": int(rng.integers(2**31)),
            "num_threads": threads(),
        }
        result = np.empty((shown.n_documents, ranks))
        for turn in each_fold(self.fold, stop=False):
            own = turn.own[shown.queries]
            cells = np.flatnonzero(~own[shown.document_of])
            data = lightgbm.Dataset(
                self.features[shown.document_of[cells]],
                label=shown.position[cells],
                weight=shown.displays[cells],
                params=settings,
            )
            booster = lightgbm.train(settings, data, num_boost_round=PLACEMENT_ROUNDS)
            scores = np.asarray(booster.predict(self.features[own], raw_score=True))
            result[own] = softmax(scores, axis=1)
        result = np.maximum(result, LEAST_PROBABILITY)
        return np.asarray(result / result.sum(axis=1, keepdims=True))


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
MIN_EFFECTIVE_POSITIONS = 1.5
# A standard error above this share of α means that features predict relevance too poorly.
LARGEST_ERROR = 1.0 / 3.0
# The ranker knows more about relevance than the features if documents that were placed above stronger ones
# are clicked more than their features say: by this many standard errors, and by at least this much relevance
# if the others are stronger by a standard deviation.
CONFOUNDED_DEVIATIONS, CONFOUNDED_SLOPE = 3.0, 0.005


def estimate_from_features(
    pairs: CellTable,
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
        features: float32, all documents of the log × features, NaN where a value is missing. Documents
            without any are left out.
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
    known = np.flatnonzero(~np.isnan(features[pairs.documents]).all(axis=1))
    described = _positions_with_clicks(pairs.select(known))
    sample = sample_queries(described, count_movement(described), rng)
    shown = sample.table
    fitting = CrossFitting.of(shown, features[shown.documents], rng)
    placement = fitting.placement(rng)
    effective = float(
        np.exp(-(placement * np.log(placement)).sum(axis=1)) @ shown.by_document(shown.displays)
    )
    effective /= float(shown.displays.sum())
    if effective < MIN_EFFECTIVE_POSITIONS:
        raise DataError(
            f"features determine the rank of a document almost entirely ({effective:.2f} effective ranks, "
            f"and {MIN_EFFECTIVE_POSITIONS} are needed), so the effect of the rank cannot be separated "
            f"from that of the features"
        )
    anchor = Anchor(1, shown.positions)
    lines, solutions, relevance = _start(shown, position=options.model == "position"), [], np.empty(0)
    for number in range(ROUNDS):
        report(progress, "predicting relevance from features", number / ROUNDS)
        relevance = fitting.relevance(Bias(*lines, np.ones(shown.positions)), rng)
        found = solve_lines(shown, relevance, placement, lines, position=options.model == "position")
        _require_slopes(found.lines)
        solutions.append(found)
        lines = clip_lines(lines_at(found.lines, anchor))
    report(progress, "predicting relevance from features", 1.0)
    solutions = solutions[-AVERAGED:]

    def estimate(_: CellTable, weights: Float64) -> Float64:
        return np.asarray(np.mean([_resampled(one, weights, anchor) for one in solutions], axis=0))

    mean = Lines(*estimate(shown, np.ones(shown.n_documents)))
    resampled, seed = None, None
    if options.resamples:
        seed = int(rng.integers(2**32))
        drawn = bootstrap(estimate, shown, options.resamples, np.random.default_rng(seed), progress)
        resampled = Lines(drawn[:, 0], drawn[:, 1])
        _require_precision(mean, resampled)
    check = check_confounding(shown, relevance, placement, lines)
    return BiasEstimate.assemble(
        mean,
        resampled,
        count_movement(pairs),
        options,
        method=METHOD,
        notes=(*sample.notes, *_notes(pairs, shown, effective, check, forced=options.forced)),
        # Documents without features are left out, and their queries with them.
        resample_seed=seed if _same_queries(pairs, shown) else None,
        query_share=sample.share,
    )


class Solution(NamedTuple):
    """Lines, and how each document moves them.

    Attributes:
        lines: α and β on the scale of the predicted relevance.
        influence: float64, documents × 2 ranks; how far one more copy of the document would move α and β.
    """

    lines: Lines
    influence: Float64


def solve_lines(
    shown: CellTable, relevance: Float64, placement: Float64, start: Lines, *, position: bool = False
) -> Solution:
    """Take one step from a start towards the lines that solve the moments.

    Args:
        shown: displays and clicks.
        relevance: m̂, documents.
        placement: e, documents × ranks.
        start: the lines that the relevance was predicted with. The two directions of change that only change
            the scale of relevance are left out.
        position: whether β stays as it is (0): the position-based model.
    """
    ranks = shown.positions
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    precision = 1.0 / np.maximum(rates * (1.0 - rates), 1e-3)
    document, rank = shown.document_of, shown.position
    alpha = start.alpha
    towards = precision * placement * alpha
    towards /= (towards @ alpha)[:, None]
    # Instruments: cells × ranks, the same for both h up to the factor h.
    instruments = -alpha[rank, None] * towards[document]
    instruments[np.arange(len(rank)), rank] += 1.0
    instruments *= precision[rank, None]
    m = relevance[document]
    both = np.concatenate([instruments * m[:, None], instruments], axis=1)
    left = shown.clicks - shown.displays * (alpha[rank] * m + start.beta[rank])
    # The derivative of the moments by α and β.
    system = np.zeros((2 * ranks, 2 * ranks))
    for k in range(ranks):
        cells = rank == k
        system[:, k] = both[cells].T @ (shown.displays * m)[cells]
        system[:, ranks + k] = both[cells].T @ shown.displays[cells]
    scale = np.zeros((2 * ranks, 2))
    scale[:ranks, 0], scale[ranks:, 1] = alpha, alpha
    fixed = np.concatenate([scale[:, :1], np.eye(2 * ranks)[:, ranks:]], axis=1) if position else scale
    free = np.linalg.svd(fixed.T)[2][fixed.shape[1] :].T
    inverse = free @ np.linalg.inv(free.T @ system @ free) @ free.T
    step = inverse @ (both.T @ left)
    after = Lines(alpha + step[:ranks], start.beta + step[ranks:])
    left = shown.clicks - shown.displays * (after.alpha[rank] * m + after.beta[rank])
    per_cell = (both * left[:, None]) @ inverse.T
    influence = np.stack([shown.by_document(column) for column in per_cell.T], axis=1)
    return Solution(after, influence)


class ConfoundingCheck(NamedTuple):
    """Whether clicks depend on the other documents of the page, once features are known.

    Attributes:
        slope: how much more relevant a document is than its features say, per standard deviation of how high
            the features of the others usually take them.
        deviations: the same in standard errors.
    """

    slope: float
    deviations: float

    @property
    def confounded(self) -> bool:
        """Whether the ranker seems to know more about relevance than the features."""
        return self.deviations > CONFOUNDED_DEVIATIONS and self.slope > CONFOUNDED_SLOPE


def check_confounding(
    shown: CellTable, relevance: Float64, placement: Float64, lines: Lines
) -> ConfoundingCheck:
    """Test whether the ranker knows more about relevance than the features tell.

    A ranker that places a document above others whose features usually take them higher has seen something
    else in it. If that has to do with relevance, the document is clicked more than its features say. Within
    each rank, clicks are regressed on how high the features of the query's other documents usually take them,
    after what the document's own features tell (m̂, its own usual height, and their squares and product) is
    taken out of both. Errors are clustered by query.

    Args:
        shown: displays and clicks.
        relevance: m̂, documents.
        placement: the probability of each rank given the features, documents × ranks.
        lines: α and β.
    """
    document, rank = shown.document_of, shown.position
    height = placement @ np.arange(shown.positions, 0.0, -1.0)
    displays = shown.by_document(shown.displays)
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    total, number = (np.bincount(query_of, part, len(queries)) for part in (displays * height, displays))
    alone = number[query_of] <= displays
    others = np.where(alone, 1.0, number[query_of] - displays)
    strength = np.where(alone, height.mean(), (total[query_of] - displays * height) / others)
    strength = ((strength - strength.mean()) / max(float(strength.std()), 1e-12))[document]
    m, h = relevance[document], height[document]
    own = np.stack([np.ones(len(document)), m, h, m * m, h * h, m * h], axis=1)
    left, z = np.empty((2, len(document)))
    for k in range(shown.positions):
        cells = np.flatnonzero(rank == k)
        weights = np.sqrt(shown.displays[cells])
        basis = own[cells] * weights[:, None]
        for target, out in ((shown.clicks[cells] / shown.displays[cells], left), (strength[cells], z)):
            fitted = np.linalg.lstsq(basis, target * weights, rcond=None)[0]
            out[cells] = target - own[cells] @ fitted
    alpha = np.maximum(lines.alpha[rank], 0.0)
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    weights = shown.displays * alpha / (rates * (1.0 - rates))[rank]
    moments = np.bincount(query_of[document], weights * z * left, len(queries))
    size = float((weights * alpha * z**2).sum())
    error = float(np.sqrt((moments**2).sum()))
    if size <= 0.0 or error <= 0.0:
        return ConfoundingCheck(0.0, 0.0)
    return ConfoundingCheck(float(moments.sum()) / size, float(moments.sum()) / error)


def _positions_with_clicks(shown: CellTable) -> CellTable:
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
    return shown.first_positions(ranks)


def _start(shown: CellTable, *, position: bool) -> Lines:
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    if position:
        theta = rates / rates.max()
        return Lines(theta, np.zeros(shown.positions))
    half = START_SPAN * np.minimum(rates, 1.0 - rates)
    return Lines(2.0 * half, rates - half)


def _resampled(found: Solution, weights: Float64, anchor: Anchor) -> Float64:
    ranks = len(found.lines.alpha)
    step = (weights - 1.0) @ found.influence
    moved = Lines(found.lines.alpha + step[:ranks], found.lines.beta + step[ranks:])
    return np.stack(lines_at(moved, anchor))


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
    pairs: CellTable, shown: CellTable, effective: float, check: ConfoundingCheck, *, forced: bool
) -> list[str]:
    notes = []
    if shown.positions < pairs.positions:
        notes.append(
            f"No estimate below rank {shown.positions}: rank {shown.positions + 1} has fewer than "
            f"{MIN_CLICKS:.0f} clicks on documents with features."
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
            f"{effective:.1f} of {shown.positions} ranks (effective number), and no sign was found that the "
            f"ranker knows more about relevance than the features tell ({sizes}). A ranker that does in a "
            f"way that no other document of the page reveals would bias the estimate unnoticed."
        )
    return notes


def _same_queries(pairs: CellTable, shown: CellTable) -> bool:
    return bool(
        np.array_equal(np.unique(pairs.first_positions(shown.positions).queries), np.unique(shown.queries))
    )
