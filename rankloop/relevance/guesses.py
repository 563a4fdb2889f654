"""Guesses of relevance from features, by name, and the training of their trees and networks on clicks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.kernels.click_epoch import run_click_epoch
from rankloop.models.history import History, Settings, Training, diverged, in_parts
from rankloop.models.lightgbm import LEAST_CURVATURE, EarlyStopping, grow
from rankloop.models.mlp import Network, NetworkLearner
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress
from rankloop.registry import Named, Registry, register
from rankloop.relevance.click_model import ClickModel
from rankloop.relevance.newton import Look, maximise
from rankloop.statistics import CellTable, Statistics
from rankloop.types import Bias, Float32, Float64, Int64, Learner, Model

# From features, documents × features, to scores whose logistic function is the relevance.
Scorer = Callable[[Float32], Float64]

# Newton steps of the logistic guess at most, and the gain of log-likelihood below which they end.
STEPS, CLOSE = 25, 1e-9
# The information about its score that a leaf needs for half a step: leaves with few clicks move little. On
# three logs of 3,000 queries that came once, NDCG rose steadily from 0 to 50 and hardly beyond.
LEAF_INFORMATION = 50.0


class GuessModel(Named, ABC):
    """A way to guess the relevance of documents from their features, fitted to the clicks of other queries.

    Derive from it, make it a frozen dataclass and `rankloop.register` it, and its name works wherever a
    guess is named: ``Learning(guess=…)``, ``rankloop fit --guess …``.
    """

    @abstractmethod
    def fit(self, task: ClickTask, held_out: ClickTask, rng: np.random.Generator) -> Scorer:
        """Fit the model, and return what scores documents: the logistic function of a score is the relevance.

        Args:
            task: the documents to fit to, and their clicks.
            held_out: those of other queries, on which early stopping may rely.
            rng: draws whatever is random.
        """


GUESSES: Registry[GuessModel] = Registry("guess", GuessModel)


def guess_model(text: str) -> GuessModel:
    """The guess that a name spells.

    >>> guess_model("logistic(penalty=10)")
    LogisticGuess(penalty=10.0)
    """
    return GUESSES.parse(text)


@register
@dataclass(frozen=True)
class TreeGuess(GuessModel):
    """Boosted trees on the likelihood of clicks.

    Small trees and large steps: a guess has to be cheap, and clicks correct what it gets wrong.

    Attributes:
        rounds: the largest number of trees.
        patience: rounds without a better value on other queries before training stops.
        rate: the learning rate.
        leaves: the largest number of leaves per tree.
        min_documents: the smallest number of documents per leaf.
    """

    name: ClassVar[str] = "trees"
    rounds: int = 200
    patience: int = 10
    rate: float = 0.1
    leaves: int = 15
    min_documents: int = 20

    def fit(self, task: ClickTask, held_out: ClickTask, rng: np.random.Generator) -> Scorer:
        """Grow the trees; without a possible split, all documents have the same score."""
        spec = LightGBMSpec(
            self.rounds,
            self.patience,
            self.rate,
            self.leaves,
            self.min_documents,
            objective="click-likelihood",
        )
        if not len(held_out) or not _enough_for_trees(task.features, self.min_documents):
            return ConstantGuess().fit(task, held_out, rng)
        model = train_trees_on_clicks(task, held_out, spec, rng=rng).model
        start = task.model.mean_score
        return lambda features: model.scores(features) + start


@register
@dataclass(frozen=True)
class LogisticGuess(GuessModel):
    """A linear score on the likelihood of clicks, with a ridge penalty; missing values count as the mean.

    Categories are not used: their numbers have no order.

    Attributes:
        penalty: the weight of half the squared coefficients of standardised features, at least 0.
    """

    name: ClassVar[str] = "logistic"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.penalty < np.inf:
            raise RankloopError(f"logistic: penalty must be at least 0 and finite, got {self.penalty}")

    def fit(self, task: ClickTask, held_out: ClickTask, rng: np.random.Generator) -> Scorer:  # noqa: ARG002
        """Maximise the penalised likelihood by Newton's method with expected information."""
        present = ~np.isnan(task.features)
        filled = np.where(present, task.features, 0.0).astype(np.float64)
        mean = filled.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        deviation = np.where(present, task.features - mean, 0.0).std(axis=0)
        scale = np.divide(1.0, deviation, out=np.zeros_like(mean), where=deviation > 0.0)
        scale[list(task.categorical)] = 0.0

        def design(features: Float32) -> Float64:
            standard = np.where(np.isnan(features), 0.0, (features - mean) * scale)
            return np.column_stack([np.ones(len(features)), standard])

        matrix = design(task.features)
        ridge = np.full(matrix.shape[1], self.penalty)
        ridge[0] = 0.0
        first = np.zeros(matrix.shape[1])
        first[0] = task.model.mean_score

        def look(at: Float64) -> Look[Float64]:
            clicks = task.model.at(matrix @ at)

            def move(length: float) -> Float64:
                gradient = matrix.T @ clicks.gradient - ridge * at
                information = (matrix.T * clicks.curvature) @ matrix + np.diag(ridge)
                return at + length * np.linalg.lstsq(information, gradient, rcond=None)[0]

            return Look(clicks.value - 0.5 * float(ridge @ at**2), move)

        coefficients = maximise(first, look, steps=STEPS, tolerance=CLOSE).at
        return lambda features: design(features) @ coefficients


@register
@dataclass(frozen=True)
class ConstantGuess(GuessModel):
    """The same relevance for all documents: the mean of those it was fitted to."""

    name: ClassVar[str] = "constant"

    def fit(self, task: ClickTask, held_out: ClickTask, rng: np.random.Generator) -> Scorer:  # noqa: ARG002
        """Take the mean relevance, by moments."""
        start = task.model.mean_score
        return lambda features: np.full(len(features), start)


def _enough_for_trees(features: Float32, min_documents: int) -> bool:
    """Whether trees could guess better than a constant: there are some leaves, and features differ."""
    return len(features) >= 4 * min_documents and bool(np.ptp(np.nan_to_num(features), axis=0).any())


@dataclass(frozen=True, eq=False)
class ClickTask:
    """Documents with their features, and clicks on them to explain.

    Attributes:
        features: float32, documents × features.
        model: the likelihood of their clicks.
        categorical: the features that are categories; see `Split`.
    """

    features: Float32
    model: ClickModel
    categorical: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        features: Float32,
        statistics: Statistics,
        bias: Bias,
        *,
        variance: float = 0.0,
        shown: bool = True,
        categorical: tuple[int, ...] = (),
    ) -> Self:
        """The documents of some queries.

        Documents that were never shown have no clicks to learn from, and would fill the leaves of trees.

        Args:
            features: documents × features; of all documents of the queries.
            statistics: where they were shown, and clicked.
            bias: how users click.
            variance: τ² of the effects of queries; 0 for none.
            shown: whether to leave out documents that were never shown.
            categorical: the features that are categories.
        """
        cells = CellTable.of_statistics(statistics)
        if shown:
            cells = cells.shown
        countable, factor = cells.countable()
        users = bias.scaled(1.0 / factor)
        return cls(features[cells.documents], ClickModel(countable, users, variance), categorical)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def queries(self) -> Int64:
        """int64, documents; the number of the query."""
        return self.model.cells.queries

    @property
    def n_queries(self) -> int:
        """The number of queries, those without a document included."""
        return self.model.cells.n_queries

    def of_queries(self, chosen: NDArray[np.bool_]) -> Self:
        """The documents of some of the queries; the numbers of the queries stay as they are."""
        documents = np.flatnonzero(chosen[self.queries])
        return type(self)(self.features[documents], self.model.select(documents), self.categorical)

    def value(self, scorer: Model | Learner) -> float:
        """The log-likelihood per display, given a model's scores."""
        return float(self.model.values(scorer.scores(self.features)).sum()) / self.model.displays

    def gain(self, scores: Float64) -> float:
        """How much more log-likely the clicks are by some scores than without any, per display."""
        gain = self.model.values(scores).sum() - self.model.values(np.zeros_like(scores)).sum()
        return float(gain) / self.model.displays


def train_trees_on_clicks(
    task: ClickTask,
    held_out: ClickTask,
    spec: LightGBMSpec,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow boosted trees on the likelihood of clicks by rank: the logistic function of a score is relevance.

    Effects of queries, if there are any, are part of the likelihood but not of the model: for trees that only
    rank within queries.

    Args:
        task: the documents to train on.
        held_out: the documents to stop on.
        spec: the number and the size of the trees, and when to stop.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    effects = {part: np.zeros(part.n_queries) for part in (task, held_out)}

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        # Scores change little from tree to tree: one step of the effects keeps up with them.
        found, effects[task] = task.model.step(scores, effects[task])
        return found.gradient, found.curvature + LEAST_CURVATURE

    def value(scores: Float64) -> float:
        effects[held_out] = held_out.model.effects(scores, effects[held_out])
        return float(held_out.model.values(scores, effects[held_out]).sum()) / held_out.model.displays

    return grow(
        task.features,
        derivatives,
        spec,
        EarlyStopping(held_out.features, value, spec.patience),
        rng,
        progress,
        keep=keep_if_interrupted,
        start=task.model.mean_score,
        parameters={"lambda_l2": LEAF_INFORMATION},
        categorical=task.categorical,
    )


def train_network_on_clicks(
    start: Model,
    task: ClickTask,
    *,
    held_out: ClickTask | None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
    keep_start: bool = True,
) -> Training:
    """Train a model that learns in steps on the likelihood of clicks, with an effect per query.

    The epoch with the highest likelihood of the held-out clicks is kept; the start counts as an epoch.

    Args:
        start: the model to start from; it is not changed.
        task: the clicks to learn from.
        held_out: the clicks to stop on; None to keep the last epoch.
        settings: the optimiser, and when to stop; None for the defaults. There is one query per step.
        rng: draws the order of the queries.
        progress: called after every epoch.
        keep_if_interrupted: whether Ctrl-C ends training with the best epoch so far.
        keep_start: whether the start may be the result; an untrained start must not be.
    """
    chosen = settings or Settings()
    learner: Learner = start.learner(chosen.optimiser)  # type: ignore[attr-defined]
    history = History(progress, chosen.patience, chosen.least_gain, most=chosen.epochs)
    best = start
    shown = np.unique(task.model.cells.shown.queries)
    effects = np.zeros(task.n_queries)
    passes = chosen.passes(len(shown))
    history.add(float("nan") if held_out is None else held_out.value(start), convincing=keep_start)
    try:
        for _ in range(chosen.epochs):
            for _ in range(passes):
                _run_epoch(learner, task, rng.permutation(shown), effects)
            if history.add(float("nan") if held_out is None else held_out.value(learner)):
                best = learner.model()
            if history.exhausted:
                break
    except KeyboardInterrupt:
        if not keep_if_interrupted or (best is start and not keep_start):
            raise
        return Training(best, tuple(history.epochs), interrupted=True)
    return Training(best, tuple(history.epochs))


def _run_epoch(learner: Learner, task: ClickTask, order: Int64, effects: Float64) -> None:
    # Steps do not depend on how often queries came: an average query has a gradient as of one display.
    scale = len(order) / task.model.displays
    if isinstance(learner, NetworkLearner):
        _run_compiled_epoch(learner, task, order, effects, scale)
        return
    offsets = task.model.cells.query_offsets
    for query in order:
        rows = np.arange(offsets[query], offsets[query + 1])
        features, model = task.features[rows], task.model.select(rows)
        scores = learner.scores(features)
        learner.update(features, scale * model.at(scores, model.effects(scores)).gradient)


def _run_compiled_epoch(
    learner: NetworkLearner, task: ClickTask, order: Int64, effects: Float64, scale: float
) -> None:
    network: Network = learner.start
    cells, bias = task.model.cells, task.model.bias
    for part in in_parts(order):
        learner.state.step, finite = run_click_epoch(
            part,
            cells.query_offsets,
            task.features,
            cells.starts,
            cells.position,
            cells.displays,
            cells.clicks,
            bias.alpha,
            bias.beta,
            1.0 / task.model.variance,
            effects,
            scale,
            network.widths,
            network.activation_code,
            learner.parameters,
            learner.optimiser.code,
            learner.optimiser.constants,
            learner.state.first_moment,
            learner.state.second_moment,
            learner.state.step,
        )
        if not finite:
            raise diverged()
