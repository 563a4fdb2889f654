"""What networks are trained on, by name: it need not be the metric that is reported."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rankloop import rank_weights as rank_weights_of
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.training_objectives import OBJECTIVES, objective_of_queries
from rankloop.objectives.metrics import check_document_weights
from rankloop.policies.plackett_luce import check_rank_weights, check_scores
from rankloop.ragged import for_segments
from rankloop.registry import Named, Registry, register
from rankloop.types import Float64, Int64


class ObjectiveValue(NamedTuple):
    """The value of a training objective and its gradient.

    Attributes:
        values: float64, queries; the objective is their sum.
        gradient: float64, documents; the derivative of the objective by the document's score.
    """

    values: Float64
    gradient: Float64


class TrainingObjective(Named, ABC):
    """What the gradient of a network ascends: weights of documents and scores to a number per query.

    Objectives are frozen dataclasses whose fields are the options of their name: ``str(objective)`` is the
    canonical name, and `rankloop.objectives.training_objective` reads it back.

    Attributes:
        of_policy: whether scores are those of a policy: how far apart they are says how sure it is. If not,
            only the order of the scores has a meaning, and training makes a peaked policy of it in the end.
    """

    of_policy: ClassVar[bool]

    @property
    def code(self) -> int:
        """The number of the objective, for the kernels."""
        return OBJECTIVES.index(self.name)

    def theta(self, rank_weights: Float64) -> Float64:
        """What a rank is worth in training, given what it is worth in the metric."""
        return rank_weights

    def value(
        self, scores: object, offsets: Int64, document_weights: object, rank_weights: object
    ) -> ObjectiveValue:
        """Compute the objective and its gradient by the scores.

        Args:
            scores: s, documents; finite.
            offsets: queries + 1.
            document_weights: r, documents; of either sign.
            rank_weights: θ, ranks; what each rank is worth in the metric.
        """
        flat = check_scores(scores, offsets)
        if not np.isfinite(flat).all():
            raise DataError(f"{self} needs finite scores: leave out documents that are never shown")
        weights = check_document_weights(document_weights, len(flat))
        theta = self.theta(check_rank_weights(rank_weights))
        values, gradient = np.empty(len(offsets) - 1), np.empty(len(flat))
        for_segments(objective_of_queries, offsets, self.code, flat, weights, theta, values, gradient)
        return ObjectiveValue(values, gradient)


TRAINING_OBJECTIVES: Registry[TrainingObjective] = Registry("training objective", TrainingObjective)


def training_objective(text: str) -> TrainingObjective:
    """Make a training objective from its name.

    >>> training_objective("expected-metric(ranks=24)")
    ExpectedMetric(ranks=24)
    """
    return TRAINING_OBJECTIVES.parse(text)


@register
@dataclass(frozen=True)
class ExpectedMetric(TrainingObjective):
    """The exact expected metric of the Plackett–Luce policy of the scores: ``Σ_d r_d · E[θ_rank(d)]``.

    Attributes:
        ranks: 0 for the ranks and the rank weights of the metric; otherwise DCG down to this rank. The cost
            is O(n · ranks) per query.
    """

    name: ClassVar[str] = "expected-metric"
    of_policy: ClassVar[bool] = True
    ranks: int = 0

    def __post_init__(self) -> None:
        if self.ranks < 0:
            raise RankloopError(f"{self.name}: ranks must be 0 or more, got {self.ranks}")

    def theta(self, rank_weights: Float64) -> Float64:
        """The rank weights of the metric, or deeper ones."""
        return rank_weights_of.dcg(self.ranks) if self.ranks else rank_weights


@register
@dataclass(frozen=True)
class LinearMetric(TrainingObjective):
    """The exact expectation of a metric that falls linearly from 1 at the top rank to 0 at the last one.

        V(s) = Σ_d r_d · E[(n − rank(d)) / (n − 1)] = Σ_d r_d Σ_{i≠d} σ(s_d − s_i) / (n − 1)

    A Plackett–Luce policy ranks d before i with probability σ(s_d − s_i), so the expectation over all
    rankings is a sum over pairs. Linear in the weights: unbiased whenever they are, for weights of either
    sign.

    Example:
        >>> found = LinearMetric().value(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> found.values, found.gradient
        (array([0.5]), array([ 0.25, -0.25]))
    """

    name: ClassVar[str] = "linear"
    of_policy: ClassVar[bool] = True


@register
@dataclass(frozen=True)
class PairwiseLogistic(TrainingObjective):
    """The logistic loss of pairs of documents, weighted by the difference of their weights.

        V(s) = Σ_{i,j: r_i > r_j} (r_i − r_j) log σ(s_i − s_j) / (n − 1)

    Concave in the scores for any weights. Not linear in them: if weights are noisy, a pair whose order is
    unsure counts as much for the wrong order as for the right one, which costs efficiency.

    Example:
        >>> found = PairwiseLogistic().value(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> found.values.round(4), found.gradient
        (array([-0.6931]), array([ 0.5, -0.5]))

    Reference: Burges et al., "Learning to rank using gradient descent" (2005).
    """

    name: ClassVar[str] = "pairwise-logistic"
    of_policy: ClassVar[bool] = False


@register
@dataclass(frozen=True)
class Softmax(TrainingObjective):
    """The cross-entropy of the softmax of the scores and the weights.

        V(s) = Σ_d r_d log softmax(s)_d = Σ_d r_d s_d − (Σ_d r_d) · log Σ_i exp(s_i)

    Linear in the weights: unbiased whenever they are, for weights of either sign. Concave in the scores if
    the weights of a query add up to 0 or more, even if some of them are negative.

    Example:
        >>> found = Softmax().value(np.zeros(2), np.array([0, 2]), [1.0, 0.0], [1.0])
        >>> found.values.round(4), found.gradient
        (array([-0.6931]), array([ 0.5, -0.5]))

    Reference: Cao et al., "Learning to rank: from pairwise approach to listwise approach" (2007).
    """

    name: ClassVar[str] = "softmax"
    of_policy: ClassVar[bool] = False
