"""The one way from a problem to a model, for all models and all sources of weights: labels or clicks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop import evaluation, rank_weights
from rankloop.errors import DataError, RankloopError
from rankloop.evidence.decision import convinces
from rankloop.kernels.epoch import run_epoch
from rankloop.models.feature_names import with_scaling
from rankloop.models.history import History, Settings, Training, diverged, in_parts
from rankloop.models.lightgbm import LEAST_CURVATURE, EarlyStopping, grow
from rankloop.models.mlp import Network, NetworkLearner
from rankloop.models.specs import ON_CLICKS, LightGBMSpec, ModelSpec, TwoTowerSpec, model_spec
from rankloop.objectives import ExpectedMetric, TrainingObjective, lambda_rank, training_objective
from rankloop.progress import Progress
from rankloop.ragged import segment_max, segment_std
from rankloop.training.learning import LearningProblem, Task
from rankloop.types import Dataset, Float64, Int64, Learner, Model

# Pairs count down to this rank, whatever the measure that is reported: what lower ranks teach helps the top.
# It is where LightGBM's own lambdarank stops.
TRAINED_RANKS = 30
# The held-out values if nothing is held out.
UNKNOWN = np.array([np.nan])
# The standard deviation of scores within a query, averaged over queries, that makes a policy as peaked as
# those that are trained on the exact expected metric: they have 12 to 27.
PEAKED_SPREAD = 16.0


def learn(
    model: str | ModelSpec | Model,
    problem: LearningProblem,
    *,
    settings: Settings | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Learn a model that maximises the expected metric, stopping early on the held-out queries.

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
    if isinstance(chosen, TwoTowerSpec) or getattr(chosen, "objective", None) == "click-likelihood":
        raise RankloopError(
            f"{chosen} is trained on the clicks of a log by rank, which `rankloop.fit` has: choose mlp or "
            "linear without this objective"
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


def train_trees(
    task: Task,
    spec: LightGBMSpec,
    *,
    held_out: Task | None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow boosted trees on weighted documents.

    Args:
        task: the objective to maximise.
        spec: the number and the size of the trees, what they are grown on, and when to stop.
        held_out: the objective to stop on; None to keep all trees.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    if spec.objective in ON_CLICKS:
        raise RankloopError(
            f"lightgbm(objective={spec.objective}) is grown on the clicks of a log by rank, which "
            "`rankloop.fit` has: choose lambdarank or expected-metric"
        )
    pairs = spec.objective == "lambdarank"
    deep = rank_weights.dcg(max(len(task.rank_weights), TRAINED_RANKS))

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        found = (
            lambda_rank(scores, task.offsets, task.document_weights, deep) if pairs else task.metric(scores)
        )
        return found.gradient, found.curvature + LEAST_CURVATURE

    stopping = None
    if held_out is not None:
        value = held_out.sorted_value if pairs else held_out.value
        stopping = EarlyStopping(held_out.features, value, spec.patience)
    return grow(
        task.features,
        derivatives,
        spec,
        stopping,
        rng,
        progress,
        keep=keep_if_interrupted,
        categorical=task.categorical,
    )


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
    first = _values(held_out, start, ExpectedMetric())
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
    policy: Model = best.times(peakedness(best.scores(task.features), task.offsets))  # type: ignore[attr-defined]
    return policy


def peakedness(scores: Float64, offsets: Int64) -> float:
    """The factor that makes a peaked policy of scores that only order documents."""
    spread = segment_std(scores, offsets)[np.diff(offsets) > 1]
    mean = float(spread.mean()) if len(spread) else 0.0
    return PEAKED_SPREAD / mean if mean > 0.0 else 1.0


def _run_epoch(learner: Learner, task: Task, order: Int64, batch: int) -> None:
    if isinstance(learner, NetworkLearner) and type(task) is Task:
        _run_compiled_epoch(learner, task, order, batch)
        return
    # If all documents of a query have the same weight, every ranking is equally good: nothing to learn.
    matters = segment_max(task.document_weights, task.offsets) > -segment_max(
        -task.document_weights, task.offsets
    )
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
            task.document_weights,
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
