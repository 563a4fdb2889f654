"""An objective to train on: documents, what each is worth, and what each rank is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from rankloop import evaluation
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.objectives import ExpectedReward, Reward, TrainingObjective, expected_reward
from rankloop.objectives.expected_reward import check_doc_weights
from rankloop.policies import expected_rank_weights, sorted_rank_weights
from rankloop.policies.plackett_luce import check_rank_weights
from rankloop.ragged import offsets_of, segment_sum
from rankloop.types import Float32, Float64, Int64, Split, as_whole_numbers, check_offsets

# A query takes up to a millisecond per step of a network.
QUERIES_PER_CALL = 1_000


@dataclass(frozen=True, eq=False)
class Task:
    """An objective for a policy: the expected reward ``1/Q Σ_q Σ_d r_d · E[θ_rank(d)]``.

    Attributes:
        features: documents × features.
        offsets: queries + 1.
        doc_weights: r, documents; what each document is worth, positive or negative.
        rank_weights: θ, ranks; what each rank is worth.
        objective: what networks are trained on instead, if it is not the expected reward itself.
    """

    features: Float32
    offsets: Int64
    doc_weights: Float64
    rank_weights: Float64
    objective: TrainingObjective = field(default_factory=ExpectedReward)

    def __post_init__(self) -> None:
        # Kernels do not check their arguments, so everything is checked once, here.
        features = np.ascontiguousarray(self.features, dtype=np.float32)
        if features.ndim != 2:
            raise DataError(f"features must be documents × features, got shape {features.shape}")
        offsets = as_whole_numbers(self.offsets, "offsets")
        check_offsets(offsets, len(features))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "doc_weights", check_doc_weights(self.doc_weights, len(features)))
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
        doc_weights, rank_weights = chosen.as_weights(split.labels, split.offsets)
        return cls(split.features, split.offsets, doc_weights, rank_weights, objective or ExpectedReward())

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
        >>> task.part(np.array([1])).doc_weights
        array([2.])
        """
        rows = self.rows(queries)
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets_of(np.diff(self.offsets)[queries]),
            doc_weights=self.doc_weights[rows],
        )

    def reward(self, scores: Float64) -> Reward:
        """Compute the objective with its derivatives, as sums over queries rather than means."""
        _check_scores(scores)
        return expected_reward(scores, self.offsets, self.doc_weights, self.rank_weights)

    def values(self, scores: Float64) -> Float64:
        """Compute the objective per query; much cheaper than with derivatives."""
        _check_scores(scores)
        expected = expected_rank_weights(scores, self.offsets, self.rank_weights)
        result: Float64 = segment_sum(self.doc_weights * expected, self.offsets)
        return result

    def value(self, scores: Float64) -> float:
        """Compute the objective: the mean over the queries."""
        return float(self.values(scores).mean())

    def sorted_values(self, scores: Float64) -> Float64:
        """Compute the reward of sorting by score, per query; items with equal scores share their ranks."""
        _check_scores(scores)
        earned = sorted_rank_weights(scores, self.offsets, self.rank_weights)
        result: Float64 = segment_sum(self.doc_weights * earned, self.offsets)
        return result

    def sorted_value(self, scores: Float64) -> float:
        """Compute the reward of sorting by score: the mean over the queries."""
        return float(self.sorted_values(scores).mean())

    def gradient(self, scores: Float64) -> Float64:
        """Compute the gradient of what networks are trained on, by the scores."""
        _check_scores(scores)
        return self.objective.value(scores, self.offsets, self.doc_weights, self.rank_weights).gradient


def in_parts(order: Int64, batch: int = 1) -> Iterator[Int64]:
    """Divide the queries of an epoch into whole batches: Ctrl-C is noticed between calls of compiled code."""
    stride = batch * -(-QUERIES_PER_CALL // batch)
    for first in range(0, len(order), stride):
        yield order[first : first + stride]


def diverged() -> RankloopError:
    """Build the error for scores that have grown too large to compute with."""
    return RankloopError(
        f"training diverged: scores grew beyond {LARGEST_SCORE:g}; lower the optimiser's rate, "
        "or scale the features"
    )


def _check_scores(scores: Float64) -> None:
    # Written so that NaN is refused too.
    if not np.all(np.abs(scores) <= LARGEST_SCORE):
        raise diverged()
