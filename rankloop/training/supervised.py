"""Training on known labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop import evaluation
from rankloop.errors import RankloopError
from rankloop.models.feature_names import with_scaling
from rankloop.models.specs import LightGBMSpec, ModelSpec, model_spec
from rankloop.objectives import training_objective
from rankloop.progress import Progress
from rankloop.training._learn import learn
from rankloop.training.history import Training
from rankloop.training.problem import LearningProblem
from rankloop.training.settings import Settings
from rankloop.types import Dataset, Model


def train(
    dataset: Dataset,
    model: str | ModelSpec | Model = "mlp",
    *,
    metric: str | evaluation.Metric = "ndcg@5",
    objective: str | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Training:
    """Train a ranker on known labels by exact gradients, stopping early on the validation queries.

    Args:
        dataset: its train and validation splits are used; its test split is not read.
        model: a name such as ``mlp``, ``linear`` or ``lightgbm``, or a model to start from.
        metric: what is maximised, in expectation under the Plackett–Luce policy of the scores.
        objective: for networks, what is maximised instead, such as ``pairwise-logistic`` or ``softmax``; the
            metric still decides when to stop. None for the metric.
        settings: the settings of networks; trees have theirs in their name.
        seed: the random seed of first parameters, the order of queries, and sampled rows.
        progress: called after every epoch, or every tree.

    Example:
        >>> from rankloop.data import synthetic
        >>> result = train(synthetic(queries=60, features=10), "linear", settings=Settings(epochs=3))
        >>> len(result.history), result.model.kind
        (4, 'linear')

    Raises:
        RankloopError: an objective was given for trees, which have theirs in their name.
    """
    chosen = model_spec(model) if isinstance(model, str) else model
    if objective is not None and isinstance(chosen, LightGBMSpec):
        raise RankloopError(
            f"the objective {objective!r} is for networks; trees have theirs in their name, as in "
            "'lightgbm(objective=lambdarank)'"
        )
    loss = None if objective is None else training_objective(objective)
    problem = LearningProblem.from_labels(dataset, metric, objective=loss)
    rng = np.random.default_rng(seed)
    trained = learn(chosen, problem, settings=settings, rng=rng, progress=progress)
    return replace(trained, model=with_scaling(trained.model, dataset.scaling))
