"""The training of boosted trees, on the same exact objective as networks."""

from __future__ import annotations

import numpy as np

from rankloop.models.lightgbm import EarlyStopping, LightGBMModel, boost
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress
from rankloop.training.history import History, Training
from rankloop.training.task import Task
from rankloop.types import Float64

# The curvature is 0 for a document whose rank changes nothing; LightGBM divides by sums of curvatures.
LEAST_CURVATURE = 1e-4


def train_trees(
    task: Task,
    spec: LightGBMSpec,
    *,
    held_out: Task | None,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Training:
    """Grow boosted trees on the exact gradient and curvature of the expected reward.

    Args:
        task: the objective to maximise.
        spec: the number and the size of the trees, and when to stop.
        held_out: the objective to stop on; None to keep all trees.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
    """
    history = History(progress, patience=spec.rounds, unit="tree")
    history.add(held_out.value(np.zeros(len(held_out.features))) if held_out else float("nan"))

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        reward = task.reward(scores)
        return reward.gradient, reward.curvature + LEAST_CURVATURE

    model: LightGBMModel = boost(
        task.features,
        derivatives,
        rounds=spec.rounds,
        held_out=EarlyStopping(held_out.features, held_out.value, spec.patience) if held_out else None,
        parameters=spec.parameters,
        seed=int(rng.integers(2**31)),
        watch=history.add,
    )
    return Training(model, tuple(history.epochs))
