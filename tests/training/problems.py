"""Problems small enough to train on in a moment."""

from __future__ import annotations

import numpy as np

from rankloop.training import Task
from rankloop.types import Split

N_FEATURES = 4
DCG_AT_3 = 1 / np.log2([2.0, 3.0, 4.0])


def new_rng() -> np.random.Generator:
    return np.random.default_rng(0)


def linear_problem(queries: int, seed: int, *, noise: float = 0.0) -> Split:
    """Five documents per query, graded 0 to 4 by their place along one direction (plus noise)."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(queries, 5, N_FEATURES))
    values = features @ np.array([2.0, -1.0, 0.5, 0.0]) + noise * rng.normal(size=(queries, 5))
    grades = values.argsort(axis=1).argsort(axis=1)
    return Split.build(features.reshape(-1, N_FEATURES), grades.ravel(), sizes=[5] * queries)


def opposed(task: Task) -> Task:
    """The task of doing the opposite: every gain of the given task is a loss."""
    return Task(task.features, task.offsets, -task.document_weights, task.rank_weights)
