"""From weights to a model: ascend the exact expected reward, stop where held-out queries say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rankloop import evaluation
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.epoch import run_epoch
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.models import Adam
from rankloop.models.lightgbm import EarlyStopping, LightGBMModel, boost
from rankloop.models.mlp import Network, NetworkLearner
from rankloop.models.optimisers import Optimiser
from rankloop.models.specs import LightGBMSpec, ModelSpec, model_spec
from rankloop.objectives import Reward, expected_reward
from rankloop.objectives.expected_reward import check_doc_weights
from rankloop.policies import expected_rank_weights
from rankloop.policies.plackett_luce import check_rank_weights
from rankloop.ragged import offsets_of, segment_max, segment_sum
from rankloop.types import Dataset, Float32, Float64, Int64, Learner, Model, Split, check_offsets

# A document whose rank matters to nobody has no curvature; a tree must still be able to divide by it.
LEAST_CURVATURE = 1e-4
# The held-out value where nothing was held out.
UNKNOWN = np.array([np.nan])


@dataclass(frozen=True, eq=False)
class Task:
    """What a policy is to be good at: ``1/Q Σ_q Σ_d r_d · E[θ_rank(d)]``.

    Attributes:
        features: documents × features.
        offsets: queries + 1.
        doc_weights: r, what each document is worth; of either sign.
        rank_weights: θ, what each rank is worth.
    """

    features: Float32
    offsets: Int64
    doc_weights: Float64
    rank_weights: Float64

    def __post_init__(self) -> None:
        # Kernels trust what they are given: it is made sure of once, here.
        features = np.ascontiguousarray(self.features, dtype=np.float32)
        if features.ndim != 2:
            raise DataError(f"features must be documents × features, got shape {features.shape}")
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        check_offsets(offsets, len(features))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "doc_weights", check_doc_weights(self.doc_weights, len(features)))
        object.__setattr__(self, "rank_weights", check_rank_weights(self.rank_weights))
        if self.rank_weights.ndim != 1:
            raise DataError(f"a task has one vector of rank weights, got shape {self.rank_weights.shape}")

    @classmethod
    def supervised(cls, split: Split, metric: str | evaluation.Metric) -> Task:
        """The task of maximising a metric whose labels are known.

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
                f"{str(chosen)!r} cannot be trained on: it does not add up over documents; "
                "choose dcg, ndcg, precision, rctr or nrctr"
            )
        doc_weights, rank_weights = chosen.as_weights(split.labels, split.offsets)
        return cls(split.features, split.offsets, doc_weights, rank_weights)

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.offsets) - 1

    def reward(self, scores: Float64) -> Reward:
        """The objective at these scores, with its derivatives, before division by the number of queries."""
        if not np.all(np.abs(scores) <= LARGEST_SCORE):
            raise _diverged()
        return expected_reward(scores, self.offsets, self.doc_weights, self.rank_weights)

    def values(self, scores: Float64) -> Float64:
        """The objective at these scores, query by query; far cheaper than with its derivatives."""
        if not np.all(np.abs(scores) <= LARGEST_SCORE):
            raise _diverged()
        expected = expected_rank_weights(scores, self.offsets, self.rank_weights)
        result: Float64 = segment_sum(self.doc_weights * expected, self.offsets)
        return result

    def value(self, scores: Float64) -> float:
        """The objective at these scores: the mean over the queries."""
        return float(self.values(scores).mean())


@dataclass(frozen=True)
class Settings:
    """How networks are trained.

    Attributes:
        optimiser: how a gradient becomes a step.
        batch: queries a step.
        epochs: passes over the queries, at most.
        patience: epochs without a better held-out value before training stops.
        least_gain: stop as soon as an epoch gains less than this over the one before, whatever the patience;
            None for no such rule. The paper's programs stop at 0.001.
        caution: an epoch is kept only if its held-out gain over the start, query by query, exceeds this many
            of the gain's standard errors. Where held-out values are noisy a model must convince.
    """

    optimiser: Optimiser = field(default_factory=lambda: Adam(rate=0.003))
    batch: int = 1
    epochs: int = 100
    patience: int = 5
    least_gain: float | None = None
    caution: float = 0.0

    def __post_init__(self) -> None:
        if self.caution < 0.0:
            raise RankloopError(f"caution must be at least 0, got {self.caution}")
        for name in ("batch", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise RankloopError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Epoch:
    """What training has reached.

    Attributes:
        number: epochs (trees, for trees) so far; 0 is before the first.
        held_out: the objective on the held-out queries, NaN without any.
        best: whether this is the best so far.
    """

    number: int
    held_out: float
    best: bool


Watch = Callable[[Epoch], None]


@dataclass(frozen=True)
class Training:
    """What training gave.

    Attributes:
        model: that of the best epoch; of the last one where nothing was held out.
        history: every epoch.
    """

    model: Model
    history: tuple[Epoch, ...]

    @property
    def best(self) -> Epoch:
        """The epoch whose model was kept."""
        return next(epoch for epoch in reversed(self.history) if epoch.best)


def train(
    dataset: Dataset,
    model: str | ModelSpec | Model = "mlp",
    *,
    metric: str | evaluation.Metric = "ndcg@5",
    settings: Settings | None = None,
    seed: int = 0,
    watch: Watch | None = None,
) -> Training:
    """Train a ranker on known labels by exact gradients, stopping early on the validation queries.

    Args:
        dataset: its train and validation splits are used; its test split is not looked at.
        model: a name such as ``mlp``, ``linear`` or ``lightgbm``, or a model to start from.
        metric: what is maximised, in expectation under the Plackett–Luce policy of the scores.
        settings: of networks; trees have theirs in their name.
        seed: of everything random: first parameters, the order of queries, sampled rows.
        watch: called after every epoch.

    Example:
        >>> from rankloop.data import synthetic
        >>> result = train(synthetic(queries=60, features=10), "linear", settings=Settings(epochs=3))
        >>> len(result.history), result.model.kind
        (4, 'linear')
    """
    rng = np.random.default_rng(seed)
    task = Task.supervised(dataset.train, metric)
    held_out = Task.supervised(dataset.validation, metric)
    spec = model_spec(model) if isinstance(model, str) else model
    if isinstance(spec, LightGBMSpec):
        return train_trees(task, spec, held_out=held_out, rng=rng, watch=watch)
    start = spec if isinstance(spec, Model) else spec.initialise(dataset.n_features, rng)
    return train_network(start, task, held_out=held_out, settings=settings, rng=rng, watch=watch)


def train_network(
    start: Model,
    task: Task,
    *,
    held_out: Task | None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> Training:
    """Move a model's parameters up the exact gradient, a few queries a step.

    The best epoch by the held-out value is kept, the start included: what comes back is never worse on the
    held-out queries than what went in. With caution, it is the start or better by that many standard errors.
    """
    chosen = settings or Settings()
    if not hasattr(start, "learner"):
        raise RankloopError(f"a {start.kind} model does not learn in steps; train it anew by its name")
    if start.n_features != task.features.shape[1]:
        raise DataError(
            f"the model takes {start.n_features} features, the documents have {task.features.shape[1]}"
        )
    learner: Learner = start.learner(chosen.optimiser)
    history = _History(watch, chosen.patience, chosen.least_gain)
    best = start
    first = held_out.values(start.scores(held_out.features)) if held_out else UNKNOWN
    history.add(first.mean())
    for _ in range(chosen.epochs):
        _run_epoch(learner, task, rng.permutation(task.n_queries), chosen.batch)
        values = held_out.values(learner.scores(held_out.features)) if held_out else UNKNOWN
        # By pairs: what makes one query worth more than another is in both values, and cancels.
        gain = values - first
        convincing = not gain.mean() < chosen.caution * gain.std() / np.sqrt(len(gain))
        if history.add(values.mean(), convincing=convincing):
            best = learner.model()
        if history.exhausted:
            break
    return Training(best, tuple(history.epochs))


def train_trees(
    task: Task,
    spec: LightGBMSpec,
    *,
    held_out: Task | None,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> Training:
    """Grow boosted trees on the exact gradient and curvature of the same objective."""
    history = _History(watch, patience=spec.rounds)
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


class _History:
    """The epochs so far, and whether there is any point in going on."""

    def __init__(self, watch: Watch | None, patience: int, least_gain: float | None = None) -> None:
        self.epochs: list[Epoch] = []
        self._watch = watch
        self._patience = patience
        self._least_gain = -np.inf if least_gain is None else least_gain
        self._best = self._highest = -np.inf
        self._last_rise = 0

    def add(self, value: float, *, convincing: bool = True) -> bool:
        """Note an epoch's held-out value; say whether its model is the one to keep."""
        # Without held-out queries the value is NaN and the last is kept.
        best = convincing and not value <= self._best
        self._best = value if best else self._best
        if not value <= self._highest:
            self._highest, self._last_rise = value, len(self.epochs)
        self.epochs.append(Epoch(len(self.epochs), float(value), best))
        if self._watch is not None:
            self._watch(self.epochs[-1])
        return best

    @property
    def exhausted(self) -> bool:
        gain = self.epochs[-1].held_out - self.epochs[-2].held_out
        return self.epochs[-1].number - self._last_rise >= self._patience or gain < self._least_gain


def _run_epoch(learner: Learner, task: Task, order: Int64, batch: int) -> None:
    if isinstance(learner, NetworkLearner):
        network: Network = learner.start
        learner.state.step, sound = run_epoch(
            order,
            batch,
            task.offsets,
            task.features,
            task.doc_weights,
            task.rank_weights,
            network.widths,
            network.activation_code,
            learner.parameters,
            learner.optimiser.code,
            learner.optimiser.constants,
            learner.state.first_moment,
            learner.state.second_moment,
            learner.state.step,
        )
        if not sound:
            raise _diverged()
        return
    # Documents that all weigh the same cannot be ranked better or worse: such queries move nothing.
    matters = segment_max(task.doc_weights, task.offsets) > -segment_max(-task.doc_weights, task.offsets)
    for first in range(0, len(order), batch):
        queries = order[first : first + batch]
        queries = queries[matters[queries]]
        if not len(queries):
            continue
        rows = np.concatenate([np.arange(task.offsets[q], task.offsets[q + 1]) for q in queries])
        offsets = offsets_of(task.offsets[queries + 1] - task.offsets[queries])
        features = task.features[rows]
        part = Task(features, offsets, task.doc_weights[rows], task.rank_weights)
        learner.update(features, part.reward(learner.scores(features)).gradient)


def _diverged() -> RankloopError:
    return RankloopError(
        f"training diverged: scores grew beyond {LARGEST_SCORE:g}; lower the optimiser's rate, "
        "or scale the features"
    )
