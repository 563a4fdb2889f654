"""A task that keeps what is learned near a policy: proximal ranking policy optimisation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from rankloop.objectives import MetricGradient, proximal_metric
from rankloop.policies import expected_rank_weights
from rankloop.training.learning import LearningProblem, Task
from rankloop.types import Float64, Int64, Model


@dataclass(frozen=True, eq=False)
class ProximalTask(Task):
    """The expected metric within a trust region: documents that have left it earn nothing more.

        1/Q Σ_q Σ_d min(ρ_d r_d, clip(ρ_d, 1 − ε, 1 + ε) r_d) · λ_0(d),    ρ_d = λ(d) / λ_0(d)

    Networks and trees (``lightgbm(objective=expected-metric)``) train on its exact derivatives. The objective
    is not a bound: `rankloop.evidence.worst_loss` says how far a policy went.

    Attributes:
        anchor: λ_0, documents; the expected rank weights of the policy to stay near.
        width: ε, at least 0.
    """

    anchor: Float64 = field(default_factory=lambda: np.empty(0))
    width: float = np.inf

    @classmethod
    def around(cls, task: Task, policy: Model, width: float) -> Self:
        """Limit a task to the neighbourhood of a policy.

        Args:
            task: the task without a limit.
            policy: the policy to stay near.
            width: ε, at least 0.
        """
        scores = policy.scores(task.features)
        anchor = expected_rank_weights(scores, task.offsets, task.rank_weights)
        return cls(
            task.features,
            task.offsets,
            task.document_weights,
            task.rank_weights,
            task.objective,
            anchor=anchor,
            width=width,
        )

    def metric(self, scores: Float64) -> MetricGradient:
        """Compute the objective with its derivatives, as sums over queries rather than means."""
        return proximal_metric(
            scores,
            self.offsets,
            self.document_weights,
            self.rank_weights,
            anchor=self.anchor,
            width=self.width,
        )

    def values(self, scores: Float64) -> Float64:
        """Compute the objective per query."""
        return self.metric(scores).values

    def gradient(self, scores: Float64) -> Float64:
        """Compute the gradient of the objective by the scores."""
        return self.metric(scores).gradient

    def part(self, queries: Int64) -> Self:
        """The task of some of the queries."""
        plain = super().part(queries)
        return replace(plain, anchor=self.anchor[self.rows(queries)])


def stay_near(problem: LearningProblem, policy: Model, width: float) -> LearningProblem:
    """Limit a learning problem to the neighbourhood of a policy, in training and in early stopping.

    Args:
        problem: the problem without a limit.
        policy: the policy to stay near.
        width: ε, at least 0.

    Example:
        >>> from rankloop.data import synthetic
        >>> from rankloop.models import Linear
        >>> from rankloop.training import LearningProblem, Settings, learn
        >>> start = Linear.initialise(10, np.random.default_rng(0))
        >>> problem = LearningProblem.from_labels(synthetic(queries=60, features=10), "dcg@3")
        >>> limited = stay_near(problem, start, width=0.1)
        >>> result = learn(start, limited, settings=Settings(epochs=3), rng=np.random.default_rng(0))
        >>> result.best.held_out >= result.history[0].held_out
        True
    """
    held_out = problem.held_out
    return replace(
        problem,
        train=ProximalTask.around(problem.train, policy, width),
        held_out=None if held_out is None else ProximalTask.around(held_out, policy, width),
    )
