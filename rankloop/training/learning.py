"""What is learned: an objective to train and to stop on, from labels or, by named settings, from clicks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np

from rankloop import evaluation, rank_weights
from rankloop.errors import DataError, RankloopError
from rankloop.estimators import Estimator, InterventionAware
from rankloop.estimators import estimator as find_estimator
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.models import SGD, Adam
from rankloop.models.history import Settings, diverged
from rankloop.names import unknown
from rankloop.objectives import ExpectedMetric, MetricGradient, Softmax, TrainingObjective, expected_metric
from rankloop.objectives.metrics import check_document_weights
from rankloop.policies import expected_rank_weights, sorted_rank_weights
from rankloop.policies.plackett_luce import check_rank_weights
from rankloop.progress import Progress
from rankloop.ragged import offsets_of, segment_sum
from rankloop.relevance import GuessModel, RelevanceGuess, guess_by_network, guess_model, guess_relevance
from rankloop.relevance.cross_fit import GUESS_SETTINGS
from rankloop.relevance.guesses import TreeGuess
from rankloop.statistics import Statistics
from rankloop.types import (
    Bias,
    Dataset,
    Float32,
    Float64,
    Int64,
    Model,
    Split,
    as_whole_numbers,
    check_offsets,
)

# How many examined impressions the guess is worth: the variance of one, p (1 − p) / α, about 0.7, divided by
# the variance of relevance between documents, about 0.07.
STRENGTH = 10.0
# In ten epochs of patience these are 800 steps, in which Adam moves a weight by up to 2.4: enough to change
# the sign of any weight that is drawn at random.
LEAST_STEPS = 80
# How many standard errors clicks have to speak for a policy before it is deployed.
CAUTION = 2.5


@dataclass(frozen=True, eq=False)
class Task:
    """An objective for a policy: the expected metric ``1/Q Σ_q Σ_d r_d · E[θ_rank(d)]``.

    Attributes:
        features: documents × features.
        offsets: queries + 1.
        document_weights: r, documents; what each document is worth, positive or negative.
        rank_weights: θ, ranks; what each rank is worth.
        objective: what networks are trained on instead, if it is not the expected metric itself.
        categorical: the features that are categories; see `Split`.
    """

    features: Float32
    offsets: Int64
    document_weights: Float64
    rank_weights: Float64
    objective: TrainingObjective = field(default_factory=ExpectedMetric)
    categorical: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Kernels do not check their arguments, so everything is checked once, here.
        features = np.ascontiguousarray(self.features, dtype=np.float32)
        if features.ndim != 2:
            raise DataError(f"features must be documents × features, got shape {features.shape}")
        offsets = as_whole_numbers(self.offsets, "offsets")
        check_offsets(offsets, len(features))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(
            self, "document_weights", check_document_weights(self.document_weights, len(features))
        )
        object.__setattr__(self, "rank_weights", check_rank_weights(self.rank_weights))
        if self.rank_weights.ndim != 1:
            raise DataError(f"a task has one vector of rank weights, got shape {self.rank_weights.shape}")

    @classmethod
    def supervised(
        cls, split: Split, metric: str | evaluation.Metric, objective: TrainingObjective | None = None
    ) -> Task:
        """Build the task of maximising a metric of known labels.

        Args:
            split: the queries and their labels.
            metric: what is reported, and decides when to stop.
            objective: what networks are trained on; None for the metric itself, in expectation.

        Example:
            >>> split = Split.build(np.eye(2), [1, 0], sizes=[2])
            >>> Task.supervised(split, "ndcg@5").value(np.zeros(2)).__round__(4)
            0.8155
            >>> ((1 + 1 / np.log2(3)) / 2).__round__(4)
            np.float64(0.8155)
        """
        chosen = evaluation.metric(metric) if isinstance(metric, str) else metric
        if not isinstance(chosen, evaluation.Additive):
            raise RankloopError(
                f"{str(chosen)!r} cannot be trained on: it is not a sum over documents; "
                "choose dcg, ndcg, precision, rctr or nrctr"
            )
        document_weights, rank_weights = chosen.as_weights(split.labels, split.offsets)
        return cls(
            split.features,
            split.offsets,
            document_weights,
            rank_weights,
            objective or ExpectedMetric(),
            split.categorical,
        )

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    def rows(self, queries: Int64) -> Int64:
        """The documents of some of the queries, in their order."""
        return np.concatenate([np.arange(self.offsets[q], self.offsets[q + 1]) for q in queries])

    def part(self, queries: Int64) -> Self:
        """The task of some of the queries.

        >>> task = Task(np.eye(3), np.array([0, 2, 3]), np.array([1.0, 0.0, 2.0]), np.ones(1))
        >>> task.part(np.array([1])).document_weights
        array([2.])
        """
        rows = self.rows(queries)
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets_of(np.diff(self.offsets)[queries]),
            document_weights=self.document_weights[rows],
        )

    def metric(self, scores: Float64) -> MetricGradient:
        """Compute the objective with its derivatives, as sums over queries rather than means."""
        _check_scores(scores)
        return expected_metric(scores, self.offsets, self.document_weights, self.rank_weights)

    def values(self, scores: Float64) -> Float64:
        """Compute the objective per query; much cheaper than with derivatives."""
        _check_scores(scores)
        expected = expected_rank_weights(scores, self.offsets, self.rank_weights)
        result: Float64 = segment_sum(self.document_weights * expected, self.offsets)
        return result

    def value(self, scores: Float64) -> float:
        """Compute the objective: the mean over the queries."""
        return float(self.values(scores).mean())

    def sorted_values(self, scores: Float64) -> Float64:
        """Compute the metric of sorting by score, per query; equal scores share their ranks."""
        _check_scores(scores)
        earned = sorted_rank_weights(scores, self.offsets, self.rank_weights)
        result: Float64 = segment_sum(self.document_weights * earned, self.offsets)
        return result

    def sorted_value(self, scores: Float64) -> float:
        """Compute the metric of sorting by score: the mean over the queries."""
        return float(self.sorted_values(scores).mean())

    def gradient(self, scores: Float64) -> Float64:
        """Compute the gradient of what networks are trained on, by the scores."""
        _check_scores(scores)
        return self.objective.value(scores, self.offsets, self.document_weights, self.rank_weights).gradient


def _check_scores(scores: Float64) -> None:
    # Written so that NaN is refused too.
    if not np.all(np.abs(scores) <= LARGEST_SCORE):
        raise diverged()


@dataclass(frozen=True, eq=False)
class LearningProblem:
    """The problem that `rankloop.training.learn` solves.

    Attributes:
        train: the objective to maximise.
        held_out: the objective that decides when to stop and which epoch is kept; None to stop at the last.
        guess: the guess of relevance behind the weights, if there is one.
    """

    train: Task
    held_out: Task | None = None
    guess: RelevanceGuess | None = None

    @classmethod
    def from_labels(
        cls,
        dataset: Dataset,
        metric: str | evaluation.Metric,
        *,
        objective: TrainingObjective | None = None,
    ) -> Self:
        """Build the problem of maximising a metric of known labels; the test split is not read.

        Args:
            dataset: its train and validation splits are used.
            metric: what is reported, and decides when to stop.
            objective: what networks are trained on; None for the metric itself, in expectation.
        """
        train, held_out = (
            Task.supervised(split, metric, objective) for split in (dataset.train, dataset.validation)
        )
        return cls(train, held_out)

    @classmethod
    def from_weights(
        cls,
        splits: tuple[Split, Split],
        document_weights: tuple[Float64, Float64],
        rank_weights: Float64,
        guess: RelevanceGuess | None = None,
        *,
        objective: TrainingObjective | None = None,
    ) -> Self:
        """Build the problem of maximising the expected metric of weighted documents.

        Args:
            splits: the queries to train on, and those held out; their labels are not read.
            document_weights: what each document is worth, for each split.
            rank_weights: θ, what each rank is worth.
            guess: the guess of relevance behind the weights, if there is one.
            objective: what networks are trained on; None for the expected metric itself.
        """
        train, held_out = (
            Task(
                split.features,
                split.offsets,
                weights,
                rank_weights,
                objective or ExpectedMetric(),
                split.categorical,
            )
            for split, weights in zip(splits, document_weights, strict=True)
        )
        return cls(train, held_out, guess)


@dataclass(frozen=True)
class Learning:
    """Settings that turn statistics of clicks into a policy.

    Attributes:
        settings: the optimiser and early stopping.
        clip_validation: whether the weights of held-out clicks are clipped like those of training clicks.
        metric: what a rank is worth: ``dcg``, or ``clicks`` for α + β.
        estimator: how clicks become weights.
        guess: what guesses relevance from features, for estimators with ``guess=model``.
        objective: what networks are trained on; the metric is what they are stopped and judged by.
        least_held_out: the number of held-out impressions below which the loop keeps its start: standard
            errors of a few queries cannot be trusted, and a guess of relevance makes them small.
        revert: whether the loop goes back to its start when nothing that it learns now is convincing; if
            not, it keeps what it learned before, which was.
        cross_fitted: whether policies learn from the likelihood of clicks, as the mean of networks that each
            leave out a fold of the queries (`rankloop.training.learn_cross_fitted`). Weights then only
            estimate what policies are worth. For starts that learn in steps.
        least_impressions: the number of impressions below which such a policy is not learned.
        name: the preset that this is, or that it varies.
    """

    settings: Settings = field(
        default_factory=lambda: Settings(
            Adam(rate=0.003), epochs=50, least_steps=LEAST_STEPS, patience=10, caution=3.0
        )
    )
    clip_validation: bool = True
    metric: Literal["dcg", "clicks"] = "dcg"
    estimator: Estimator = field(
        default_factory=lambda: InterventionAware(
            clip="off", average="query", guess="mean", strength=STRENGTH
        )
    )
    guess: GuessModel = field(default_factory=TreeGuess)
    objective: TrainingObjective = field(default_factory=ExpectedMetric)
    least_held_out: int = 1
    revert: bool = True
    cross_fitted: bool = False
    least_impressions: int = 1
    name: str = "robust"

    def rank_weights(self, bias: Bias) -> Float64:
        """Return θ, one weight per rank that these users see."""
        return rank_weights.dcg(bias.positions) if self.metric == "dcg" else bias.alpha + bias.beta

    def problem(
        self,
        splits: tuple[Split, Split],
        statistics: tuple[Statistics, Statistics],
        bias: Bias,
        *,
        start: Model | None = None,
        guess: RelevanceGuess | None = None,
        progress: Progress | None = None,
    ) -> LearningProblem:
        """Turn clicks into a problem to learn from: the metric as the estimator estimates it.

        This is the only place where the clicks of a loop or of a log become weights for training.

        Args:
            splits: the queries to train on, and those held out; their labels are not read.
            statistics: the clicks on each split.
            bias: how users click.
            start: the model that learning starts from, if there is one: guesses of relevance then come from
                networks that start from it, too, and otherwise from trees.
            guess: the guess of relevance that these clicks led to before; None to make it.
            progress: called while relevance is guessed, if the estimator needs a guess.

        Raises:
            DataError: one of the splits has no impressions.
        """
        if isinstance(self.estimator, InterventionAware) and self.estimator.guess == "model":
            if guess is not None:
                pass
            elif start is not None and hasattr(start, "learner"):
                guess = guess_by_network(splits, statistics, bias, start, progress=progress)
            else:
                guess = guess_relevance(splits, statistics, bias, model=self.guess, progress=progress)
            guided = (
                self.estimator.weights(statistics[0], bias, guess=guess.train),
                self.estimator.weights(statistics[1], bias, guess=guess.held_out),
            )
            return LearningProblem.from_weights(
                splits, guided, self.rank_weights(bias), guess, objective=self.objective
            )
        held_out_estimator = self.estimator if self.clip_validation else self.estimator.unclipped
        document_weights = (
            self.estimator.weights(statistics[0], bias),
            held_out_estimator.weights(statistics[1], bias),
        )
        return LearningProblem.from_weights(
            splits, document_weights, self.rank_weights(bias), objective=self.objective
        )


ROBUST = Learning()
# Follows the authors' programs where the paper does not say.
PAPER = Learning(
    Settings(SGD(rate=0.01), epochs=50, patience=50, least_gain=0.001),
    clip_validation=False,
    metric="clicks",
    estimator=InterventionAware(),
    name="paper",
)
# The guess of relevance comes from features: what `rankloop fit` learns with.
DOUBLY_ROBUST = replace(
    ROBUST,
    estimator=InterventionAware(clip="off", average="query", guess="model", strength=STRENGTH),
    objective=Softmax(),
    least_held_out=30,
    revert=False,
    name="doubly-robust",
)
# What the loop learns with: the same networks that guess relevance are the policy.
CLICK_LIKELIHOOD = replace(
    DOUBLY_ROBUST,
    settings=replace(GUESS_SETTINGS, caution=CAUTION),
    cross_fitted=True,
    least_impressions=200,
    name="click-likelihood",
)
LEARNING = {learning.name: learning for learning in (CLICK_LIKELIHOOD, DOUBLY_ROBUST, ROBUST, PAPER)}


def learning_named(name: str, *, estimator: str | None = None, guess: str | None = None) -> Learning:
    """A preset by its name, with another estimator or another guess if one is named.

    >>> learning_named("paper", estimator="ips").estimator
    IPS(clip='paper')
    """
    if name not in LEARNING:
        raise unknown("learning", name, LEARNING)
    preset = LEARNING[name]
    if guess is not None:
        preset = replace(preset, guess=guess_model(guess))
    return preset if estimator is None else replace(preset, estimator=find_estimator(estimator))
