"""A learning problem: an objective to train on, and the same objective on held-out queries to stop on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from rankloop import evaluation
from rankloop.objectives import ExpectedReward, TrainingObjective
from rankloop.training.relevance_guess import RelevanceGuess
from rankloop.training.task import Task
from rankloop.types import Dataset, Float64, Split


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
        doc_weights: tuple[Float64, Float64],
        rank_weights: Float64,
        guess: RelevanceGuess | None = None,
        *,
        objective: TrainingObjective | None = None,
    ) -> Self:
        """Build the problem of maximising the expected reward of weighted documents.

        Args:
            splits: the queries to train on, and those held out; their labels are not read.
            doc_weights: what each document is worth, for each split.
            rank_weights: θ, what each rank is worth.
            guess: the guess of relevance behind the weights, if there is one.
            objective: what networks are trained on; None for the expected reward itself.
        """
        train, held_out = (
            Task(split.features, split.offsets, weights, rank_weights, objective or ExpectedReward())
            for split, weights in zip(splits, doc_weights, strict=True)
        )
        return cls(train, held_out, guess)
