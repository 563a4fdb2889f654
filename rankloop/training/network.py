"""The training of models that learn in steps: ascend the exact gradient of the expected reward."""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.kernels.epoch import run_epoch
from rankloop.models.mlp import Network, NetworkLearner
from rankloop.objectives import ExpectedReward, TrainingObjective
from rankloop.progress import Progress
from rankloop.ragged import segment_max, segment_std
from rankloop.training.history import History, Training, convinces
from rankloop.training.settings import Settings
from rankloop.training.task import Task, diverged, in_parts
from rankloop.types import Float64, Int64, Learner, Model

# The held-out values if nothing is held out.
UNKNOWN = np.array([np.nan])
# The standard deviation of scores within a query, averaged over queries, that makes a policy as peaked as
# those that are trained on the exact expected reward: they have 12 to 27.
PEAKED_SPREAD = 16.0


def train_network(
    start: Model,
    task: Task,
    *,
    held_out: Task | None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
    keep_start: bool = True,
) -> Training:
    """Train a model by steps along the exact gradient, each on a few queries.

    The best epoch by the held-out value is kept, and the start counts as an epoch: the result is never worse
    than the start on the held-out queries. With caution, the result is either the start, or better by the
    given number of standard errors.

    Args:
        start: the model to start from; it is not changed.
        task: the objective to maximise.
        held_out: the objective to stop on; None to keep the last epoch.
        settings: the optimiser, and when to stop; None for the defaults.
        rng: draws the order of the queries.
        progress: called after every epoch.
        keep_if_interrupted: whether Ctrl-C ends training with the best epoch so far, instead of raising
            `KeyboardInterrupt`.
        keep_start: whether the start may be the result. An untrained start must not be: on few held-out
            queries, chance alone can put it above everything that is learned.
    """
    chosen = settings or Settings()
    if not hasattr(start, "learner"):
        raise RankloopError(
            f"a {start.kind} model does not learn in steps, so training cannot start from it; "
            "give the name of a model to train a new one"
        )
    if start.n_features != task.features.shape[1]:
        raise DataError(
            f"the model takes {start.n_features} features, the documents have {task.features.shape[1]}"
        )
    learner: Learner = start.learner(chosen.optimiser)
    history = History(progress, chosen.patience, chosen.least_gain, most=chosen.epochs)
    passes = chosen.passes(task.n_queries)
    best = start
    first = _values(held_out, start, ExpectedReward())
    history.add(first.mean(), convincing=keep_start)
    try:
        for _ in range(chosen.epochs):
            for _ in range(passes):
                _run_epoch(learner, task, rng.permutation(task.n_queries), chosen.batch)
            values = _values(held_out, learner, task.objective)
            convincing = not keep_start or convinces(values - first, chosen.caution)
            if history.add(values.mean(), convincing=convincing):
                best = learner.model()
            if history.exhausted:
                break
    except KeyboardInterrupt:
        if not keep_if_interrupted or (best is start and not keep_start):
            raise
        return Training(_policy_of(best, start, task), tuple(history.epochs), interrupted=True)
    return Training(_policy_of(best, start, task), tuple(history.epochs))


def _values(held_out: Task | None, scorer: Model | Learner, objective: TrainingObjective) -> Float64:
    """The held-out values per query: of the policy, or of sorting if only the order has a meaning."""
    if held_out is None:
        return UNKNOWN
    scores = scorer.scores(held_out.features)
    return held_out.values(scores) if objective.of_policy else held_out.sorted_values(scores)


def _policy_of(best: Model, start: Model, task: Task) -> Model:
    """Make a peaked policy of a model that was trained on orders of documents; the start is one already."""
    if best is start or task.objective.of_policy:
        return best
    several = np.diff(task.offsets) > 1
    spread = segment_std(best.scores(task.features), task.offsets)[several]
    mean = float(spread.mean()) if len(spread) else 0.0
    return best.times(PEAKED_SPREAD / mean) if mean > 0.0 else best  # type: ignore[attr-defined]


def _run_epoch(learner: Learner, task: Task, order: Int64, batch: int) -> None:
    if isinstance(learner, NetworkLearner) and type(task) is Task:
        _run_compiled_epoch(learner, task, order, batch)
        return
    # If all documents of a query have the same weight, every ranking is equally good: nothing to learn.
    matters = segment_max(task.doc_weights, task.offsets) > -segment_max(-task.doc_weights, task.offsets)
    for first in range(0, len(order), batch):
        queries = order[first : first + batch]
        queries = queries[matters[queries]]
        if not len(queries):
            continue
        part = task.part(queries)
        learner.update(part.features, part.gradient(learner.scores(part.features)))


def _run_compiled_epoch(learner: NetworkLearner, task: Task, order: Int64, batch: int) -> None:
    network: Network = learner.start
    learner.optimiser.check_state(learner.parameters, learner.state)
    if task.features.shape[1] != network.n_features:
        raise DataError(
            f"the model takes {network.n_features} features, but the documents have {task.features.shape[1]}"
        )
    for part in in_parts(order, batch):
        learner.state.step, finite = run_epoch(
            task.objective.code,
            part,
            batch,
            task.offsets,
            task.features,
            task.doc_weights,
            task.objective.theta(task.rank_weights),
            network.widths,
            network.activation_code,
            learner.parameters,
            learner.optimiser.code,
            learner.optimiser.constants,
            learner.state.first_moment,
            learner.state.second_moment,
            learner.state.step,
        )
        if not finite:
            raise diverged()
