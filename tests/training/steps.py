"""Training steps taken in plain Python, and models that the compiled epoch does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop import ragged
from rankloop.models.mlp import Network
from rankloop.models.optimisers import Optimiser
from rankloop.objectives import expected_metric
from rankloop.training import Task
from rankloop.types import Float32, Float64, Learner, Model


def in_plain_python(
    learner: Learner, task: Task, *, batch: int, epochs: int, rng: np.random.Generator
) -> int:
    """Scores, exact gradient, update: what the compiled epoch does in one go. Returns the steps taken."""
    steps = 0
    for _ in range(epochs):
        order = rng.permutation(task.n_queries)
        for first in range(0, len(order), batch):
            queries = order[first : first + batch]
            rows = np.concatenate([np.arange(task.offsets[q], task.offsets[q + 1]) for q in queries])
            if all(
                np.ptp(task.document_weights[task.offsets[q] : task.offsets[q + 1]]) == 0 for q in queries
            ):
                continue
            features = task.features[rows]
            metric = expected_metric(
                learner.scores(features),
                ragged.offsets_of(np.diff(task.offsets)[queries]),
                task.document_weights[rows],
                task.rank_weights,
            )
            learner.update(features, metric.gradient)
            steps += 1
    return steps


@dataclass(frozen=True)
class Foreign:
    """A model that the compiled epoch knows nothing of."""

    network: Network
    kind: str = "foreign"

    @property
    def n_features(self) -> int:
        return self.network.n_features

    @property
    def fingerprint(self) -> str:
        return self.network.fingerprint

    def scores(self, features: Float32) -> Float64:
        return self.network.scores(features)

    def to_bytes(self) -> bytes:
        return self.network.to_bytes()

    def learner(self, optimiser: Optimiser) -> ForeignLearner:
        return ForeignLearner(self.network.learner(optimiser))


class ForeignLearner:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def scores(self, features: Float32) -> Float64:
        return self.inner.scores(features)  # type: ignore[no-any-return]

    def update(self, features: Float32, score_gradient: Float64) -> None:
        self.inner.update(features, score_gradient)

    def model(self) -> Model:
        return Foreign(self.inner.model())
