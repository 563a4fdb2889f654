"""The order in which documents were logged, trees that imitate it, and how much clicks support them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from rankloop import rank_weights
from rankloop.models.lightgbm import EarlyStopping, LightGBMModel, add_trees, boost
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress, report
from rankloop.ragged import segment_index
from rankloop.relevance.click_model import ClickModel
from rankloop.relevance.guesses import ClickTask
from rankloop.relevance.newton import Look, maximise
from rankloop.statistics import Statistics
from rankloop.types import Float32, Float64, Split

# Orders are dense and noisy: large steps, and few trees. More trees imitate better, but rank no better.
TREES = LightGBMSpec(rounds=100, patience=10, rate=0.1, leaves=31)
TASK = "imitate the logged order"
# Newton steps of weights at most, and the gain of log-likelihood below which they end.
STEPS, CLOSE = 30, 1e-9
# Keeps the information invertible if one model's scores repeat those of another.
RIDGE = 1e-6


@dataclass(frozen=True, eq=False)
class LoggedOrder:
    """How high documents were shown, compared with the other documents of their queries.

        y_d = w_d − mean of w over the query's documents,   w_d = 1/N_q Σ_k n_dk / log2(k + 1)

    n_dk is how often d was shown at rank k, N_q how often its query came. Clicks are not used.

    Attributes:
        features: float32, documents × features.
        heights: float64, documents; y.
        categorical: the features that are categories; see `Split`.
    """

    features: Float32
    heights: Float64
    categorical: tuple[int, ...] = ()

    @classmethod
    def of(cls, split: Split, statistics: Statistics, rng: np.random.Generator) -> Self:
        """The documents that were shown, and at most as many of each query that could have been and were not.

        Args:
            split: the documents; their labels are not read.
            statistics: where they were shown.
            rng: draws the documents that were not shown.
        """
        query, shown = segment_index(statistics.offsets), statistics.displays_by_position.any(axis=1)
        visible = np.bincount(query, shown, statistics.n_queries)
        share = np.minimum(1.0, visible / np.maximum(np.diff(statistics.offsets) - visible, 1.0))
        chosen = np.flatnonzero(shown | (rng.random(len(query)) < share[query]))
        discounts = rank_weights.dcg(statistics.displays_by_position.shape[1])
        own = query[chosen]
        weight = (
            statistics.displays_by_position[chosen]
            @ discounts
            / np.maximum(statistics.impressions_by_query[own], 1)
        )
        count = np.maximum(np.bincount(own, minlength=statistics.n_queries), 1)
        mean = np.bincount(own, weight, statistics.n_queries) / count
        return cls(split.features[chosen], weight - mean[own], split.categorical)

    def __len__(self) -> int:
        return len(self.features)


def imitate_order(
    parts: tuple[LoggedOrder, LoggedOrder], rng: np.random.Generator, *, progress: Progress | None = None
) -> LightGBMModel | None:
    """Grow trees that predict how high the logging policies show a document, by least squares.

    Args:
        parts: the documents to learn from, and those to stop on.
        rng: draws the seed of LightGBM.
        progress: called after every tree.

    Returns:
        the trees; None if features do not tell how high documents are shown.
    """
    orders, held_out = parts
    if len(orders) < 4 * TREES.min_documents or not orders.heights.any():
        return None
    grown = 0

    def watch(_value: float) -> None:
        nonlocal grown
        grown += 1
        report(progress, TASK, grown / TREES.rounds, f"tree {grown}")

    stopping = EarlyStopping(
        held_out.features,
        lambda scores: -float(((held_out.heights - scores) ** 2).sum()),
        TREES.patience,
    )
    model = boost(
        orders.features,
        lambda scores: (orders.heights - scores, np.ones(len(scores))),
        rounds=TREES.rounds,
        held_out=stopping,
        parameters=TREES.parameters,
        seed=int(rng.integers(2**31)),
        watch=watch,
        categorical=orders.categorical,
    )
    return model if model.n_trees else None


@dataclass(frozen=True, eq=False)
class CombinedTrees:
    """A model whose scores are a weighted sum.

    Attributes:
        model: the trees of both, as one model.
        clicks: the weight of the trees on clicks.
        order: the weight of the trees on the logged order; 0 if held-out clicks do not support them.
        offset: the score of relevance where the model says 0.
        gain: how much more likely the held-out clicks are than by the trees on clicks alone, in nats.
    """

    model: LightGBMModel
    clicks: float
    order: float
    offset: float
    gain: float


def combine_trees(
    on_clicks: LightGBMModel,
    on_order: LightGBMModel | None,
    held_out: ClickTask,
    *,
    start: float,
) -> CombinedTrees:
    """Add trees on the logged order to trees on clicks, if that explains held-out clicks better.

    Clicks alone are unbiased and noisy; the logging policies are biased, and may know a lot. Both are
    functions of features, and clicks that neither has seen decide how much each of them counts. With enough
    clicks the trees on clicks explain everything, and the order adds nothing. Weights are those that make the
    held-out clicks most likely, among those that are not negative.

    Args:
        on_clicks: trees on the likelihood of clicks (`train_trees_on_clicks`).
        on_order: trees on the logged order (`imitate_order`), if there are any.
        held_out: documents of queries that neither was grown on.
        start: the score of relevance where the trees on clicks say 0.
    """
    if not len(held_out):
        return CombinedTrees(on_clicks, 1.0, 0.0, start, 0.0)
    zero: Float64 = np.zeros(len(held_out))
    clicks = on_clicks.scores(held_out.features)
    order = zero if on_order is None else on_order.scores(held_out.features)

    def weigh(*scores: Float64) -> ScoreWeights:
        return weigh_scores(scores, held_out.model)

    plain = weigh(clicks) if clicks.any() else weigh()
    best, weights = plain, (1.0, 0.0)
    if order.any():
        both = weigh(clicks, order)
        if min(both.weights) > 0.0:
            best, weights = both, (both.weights[0], both.weights[1])
        elif both.weights[1] > 0.0:
            alone = weigh(order)
            # A negative weight of one may be what makes the other positive.
            if alone.weights[0] > 0.0 and alone.value > plain.value:
                best, weights = alone, (0.0, alone.weights[0])
    if best is plain or on_order is None:
        return CombinedTrees(on_clicks, 1.0, 0.0, start, 0.0)
    parts = [(on_clicks, weights[0]), (on_order, weights[1])]
    kept = [(model, weight) for model, weight in parts if weight > 0.0]
    model = add_trees([model for model, _ in kept], [weight for _, weight in kept])
    return CombinedTrees(model, *weights, best.offset, best.value - plain.value)


@dataclass(frozen=True)
class ScoreWeights:
    """The weights of the scores of several models.

    Attributes:
        weights: one per model.
        offset: the score where all models say 0.
        value: the log-likelihood of the clicks that they were fitted to, effects of queries integrated out.
    """

    weights: tuple[float, ...]
    offset: float
    value: float


def weigh_scores(scores: ArrayLike, model: ClickModel) -> ScoreWeights:
    """Find the weights with which scores explain clicks best.

        click at rank k:  α_k σ(b + Σ_m w_m s_md + u_q) + β_k,      u_q ~ N(0, τ²)

    Weights w, the offset b and the effects u of queries are found together, by Newton's method.

    Args:
        scores: models × documents; they must not depend on these clicks.
        model: the displays and clicks of the documents; its effects of queries have a variance above 0.
    """
    cells = model.cells
    columns = np.asarray(scores, np.float64).reshape(-1, cells.n_documents)
    design = np.column_stack([*columns, np.ones(cells.n_documents)])
    first = np.zeros(design.shape[1])
    first[-1] = model.mean_score

    def look(at: tuple[Float64, Float64]) -> Look[tuple[Float64, Float64]]:
        weights, effects = at
        here = model.at(design @ weights, effects)

        def move(length: float) -> tuple[Float64, Float64]:
            weighted = design * here.curvature[:, None]
            # Effects are eliminated: each has one equation of its own.
            mixed = np.column_stack([cells.by_query(column) for column in weighted.T])
            own = cells.by_query(here.curvature) + 1.0 / model.variance
            slope = cells.by_query(here.gradient) - effects / model.variance
            information = design.T @ weighted - mixed.T @ (mixed / own[:, None])
            gradient = design.T @ here.gradient - mixed.T @ (slope / own)
            ridge = RIDGE * np.diag(np.diag(design.T @ weighted))
            step = np.linalg.lstsq(information + ridge, gradient, rcond=None)[0]
            return weights + length * step, effects + length * (slope - mixed @ step) / own

        return Look(here.value - 0.5 * float(effects @ effects) / model.variance, move)

    (weights, effects), *_ = maximise((first, np.zeros(cells.n_queries)), look, steps=STEPS, tolerance=CLOSE)
    value = float(model.values(design @ weights, effects).sum())
    return ScoreWeights(tuple(float(weight) for weight in weights[:-1]), float(weights[-1]), value)
