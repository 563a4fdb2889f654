"""The one way from a problem to a model, for all models and all sources of weights."""

from __future__ import annotations

import numpy as np

from rankloop.models.specs import LightGBMSpec, ModelSpec, model_spec
from rankloop.progress import Progress
from rankloop.training.history import Training
from rankloop.training.network import train_network
from rankloop.training.problem import LearningProblem
from rankloop.training.settings import Settings
from rankloop.training.trees import train_trees
from rankloop.types import Model


def learn(
    model: str | ModelSpec | Model,
    problem: LearningProblem,
    *,
    settings: Settings | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Learn a model that maximises the expected reward, stopping early on the held-out queries.

    Every caller ends here: labels (`rankloop.train`), true relevance (the oracle of an experiment), clicks of
    a loop, and clicks of a log (`rankloop.offline.fit`). They differ in the problem that they build.

    Args:
        model: a name such as ``mlp``, ``linear`` or ``lightgbm``, its spec, or a model to start from.
        problem: what to maximise, and what to stop on.
        settings: the settings of networks; trees have theirs in their name.
        rng: draws first parameters, the order of queries and sampled rows.
        progress: called after every epoch, or every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best model so far, instead of raising
            `KeyboardInterrupt`.

    Example:
        >>> from rankloop.data import synthetic
        >>> problem = LearningProblem.from_labels(synthetic(queries=60, features=10), "dcg@3")
        >>> result = learn("linear", problem, settings=Settings(epochs=3), rng=np.random.default_rng(0))
        >>> len(result.history), result.model.kind
        (4, 'linear')
    """
    chosen = model_spec(model) if isinstance(model, str) else model
    task, held_out = problem.train, problem.held_out
    if isinstance(chosen, LightGBMSpec):
        return train_trees(
            task,
            chosen,
            held_out=held_out,
            rng=rng,
            progress=progress,
            keep_if_interrupted=keep_if_interrupted,
        )
    start = chosen if isinstance(chosen, Model) else chosen.initialise(task.features.shape[1], rng)
    return train_network(
        start,
        task,
        held_out=held_out,
        settings=settings,
        rng=rng,
        progress=progress,
        keep_if_interrupted=keep_if_interrupted,
        keep_start=isinstance(chosen, Model),
    )
