"""The loop of the paper's Algorithm 1: gather, train, evaluate, deploy, again, as a generator of events.

    D ← {}, π ← π_0
    for each intervention time i:  D ← D ∪ gather(π, i − |D|);  π ← optimise(D, α, β, π_0)
    D ← D ∪ gather(π, T − |D|);  return optimise(D, α, β, π_0)

Without interventions it is fully counterfactual; the more there are, the more it is an online method. Every
event carries the state it left behind: stop after any of them, go on from its state, and get the same to the
bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from rankloop import rank_weights
from rankloop.errors import ModelFileError, RankloopError
from rankloop.estimators import Estimator, InterventionAware
from rankloop.evaluation import policy_metrics
from rankloop.exploration import Exploration, Soft
from rankloop.logs import Exposure, Statistics, statistics_from_bytes, statistics_to_bytes
from rankloop.models import SGD, Adam, model_from_bytes, model_to_bytes
from rankloop.models.storage import pack, unpack
from rankloop.policies import expected_rank_weights
from rankloop.training import Epoch, Settings, Task, optimise
from rankloop.types import Bias, Dataset, Float64, Int64, Model

Stage = Literal["deployed", "gathered", "trained", "evaluated"]

STATE_KIND = "loop-state"
# Streams of random numbers, apart from each other: of one seed, one phase and one purpose.
GATHERING, TRAINING = 0, 1
# Below these, expected α is as good as nothing to the estimators: what a report on support counts.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)


class Source(Protocol):
    """Where clicks come from: simulated users, or a system that shows rankings to real ones."""

    @property
    def bias(self) -> Bias:
        """How these users click, as far as it is known."""
        ...

    def gather(
        self, policy: str, scores: Float64, exposure: Exposure, interactions: int, rng: np.random.Generator
    ) -> Statistics:
        """Show rankings of a policy (its scores of all items) this many times, and count what came of it."""
        ...


@dataclass(frozen=True)
class Learning:
    """How a policy is learned from statistics.

    Attributes:
        settings: of the optimiser and of early stopping.
        clip_validation: whether weights of held-out clicks are clipped as those of training clicks are.
        reward: what a rank is worth: ``dcg``, or ``clicks``, α + β.
        caution: the starting policy is kept unless the held-out gain over it exceeds this many of the gain's
            standard errors; None to trust every gain, as the paper does.
    """

    settings: Settings = field(default_factory=lambda: Settings(Adam(rate=0.001), epochs=50))
    clip_validation: bool = True
    reward: Literal["dcg", "clicks"] = "dcg"
    caution: float | None = 2.0

    def rank_weights(self, bias: Bias) -> Float64:
        """θ, one a rank that these users see."""
        return rank_weights.dcg(bias.ranks) if self.reward == "dcg" else bias.alpha + bias.beta


ROBUST = Learning()
# What the authors' programs do where the paper is silent.
PAPER = Learning(
    Settings(SGD(rate=0.01), epochs=50, patience=50, least_gain=0.001),
    clip_validation=False,
    reward="clicks",
    caution=None,
)
LEARNING = {"robust": ROBUST, "paper": PAPER}


@dataclass(frozen=True, eq=False)
class State:
    """Where a loop stands.

    Attributes:
        phase: how many interventions are behind.
        stage: what was done last in this phase.
        statistics: of everything gathered so far, training queries first, then validation queries.
        learned: the policy learned last; the starting policy before that.
        logging: the model whose scores, times the scale, are logging.
        scale: how soft the logging policy is.
    """

    phase: int
    stage: Stage
    statistics: Statistics
    learned: Model
    logging: Model
    scale: float

    def to_bytes(self) -> bytes:
        """The whole state, without pickle: a checkpoint."""
        parts = {
            "statistics": statistics_to_bytes(self.statistics),
            "learned": model_to_bytes(self.learned),
            "logging": model_to_bytes(self.logging),
        }
        spec = {"phase": self.phase, "stage": self.stage, "scale": self.scale}
        return pack(STATE_KIND, spec, {name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> State:
        """The state that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data)
        if content.kind != STATE_KIND:
            raise ModelFileError(f"expected the checkpoint of a loop, but this is a {content.kind!r}")
        parts = {name: part.tobytes() for name, part in content.tensors.items()}
        return cls(
            statistics=statistics_from_bytes(parts["statistics"]),
            learned=model_from_bytes(parts["learned"]),
            logging=model_from_bytes(parts["logging"]),
            **content.spec,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened after ``timesteps`` interactions; `state` is what to go on from."""

    timesteps: int
    state: State = field(repr=False)


@dataclass(frozen=True)
class Gathered(Event):
    """Interactions were logged under the policy of this id."""

    interactions: int
    policy: str


@dataclass(frozen=True)
class Trained(Event):
    """A policy was learned from all clicks so far; no epochs if no held-out query ever came."""

    epochs: tuple[Epoch, ...]


@dataclass(frozen=True)
class Evaluated(Event):
    """How good the policies are.

    Attributes:
        learned: the true NDCG of the policy learned last, on the test queries.
        logging: that of the policy that gathered the last interactions: the price of exploring.
        estimate: the reward of the learned policy as held-out clicks estimate it.
        estimate_error: the standard error of the estimate, over queries.
        support: the share of items whose expected α under the logging policy is below each level.
    """

    learned: float
    logging: float
    estimate: float
    estimate_error: float
    support: dict[float, float]


@dataclass(frozen=True)
class Deployed(Event):
    """The learned policy, times ``scale``, is now the one that logs."""

    policy: str
    scale: float


def exponential_times(first: int, last: int, count: int) -> tuple[int, ...]:
    """Intervention times on an exponential scale from ``first``, all different and before ``last``.

    >>> exponential_times(100, 100_000, 3)
    (100, 1000, 10000)
    """
    if count < 1:
        return ()
    times = np.geomspace(first, last, count + 1)[:-1]
    return tuple(sorted({round(t) for t in times}))


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop to be run: what it needs, and nothing that changes.

    Attributes:
        dataset: interactions come from its training and validation queries; its test queries measure.
        source: where clicks come from.
        start: the policy that logs first, and that every training starts from.
        horizon: T, how many interactions there are in the end.
        interventions: the times at which a new policy is deployed, ascending, before the horizon.
        estimator: how clicks become weights.
        learning: how weights become a policy.
        exploration: how soft the learned policy becomes when it logs.
        floor: the share of interactions that the starting policy goes on to serve.
        metric: what `Evaluated` reports.
        seed: of everything random.
    """

    dataset: Dataset
    source: Source
    start: Model
    horizon: int
    interventions: tuple[int, ...] = ()
    estimator: Estimator = field(default_factory=InterventionAware)
    learning: Learning = ROBUST
    exploration: Exploration = field(default_factory=Soft)
    floor: float = 0.0
    metric: str = "ndcg@5"
    seed: int = 0

    def __post_init__(self) -> None:
        times = (0, *self.interventions, self.horizon)
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise RankloopError(
                "interventions must be ascending whole numbers from 1 and before the horizon "
                f"({self.horizon}), got {list(self.interventions)}"
            )
        if not 0.0 <= self.floor < 1.0:
            raise RankloopError(f"floor must be at least 0 and below 1, got {self.floor}")

    def run(self, state: State | None = None) -> Iterator[Event]:
        """Run to the end, from the beginning or from the state that an event left behind."""
        now = state if state is not None else self._beginning()
        times = (*self.interventions, self.horizon)
        while True:
            last = now.phase == len(self.interventions)
            if now.stage == "deployed":
                now, event = self._gather(now, times[now.phase])
            elif now.stage == "gathered":
                now, event = self._train(now)
            elif now.stage == "trained":
                now, event = self._evaluate(now)
            elif last:
                return
            else:
                now, event = self._deploy(now)
            yield event

    @property
    def offsets(self) -> Int64:
        """Of the queries that interactions come from: training queries, then validation queries."""
        train, validation = self.dataset.train.offsets, self.dataset.validation.offsets
        return np.concatenate([train, train[-1] + validation[1:]])

    def _beginning(self) -> State:
        empty = Statistics.empty(self.offsets, self.source.bias.ranks)
        return State(0, "deployed", empty, self.start, self.start, 1.0)

    def _scores(self, model: Model) -> Float64:
        return np.concatenate(
            [model.scores(self.dataset.train.features), model.scores(self.dataset.validation.features)]
        )

    def _random(self, now: State, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, now.phase, purpose])

    def _gather(self, now: State, until: int) -> tuple[State, Event]:
        wanted = until - now.statistics.timesteps
        rng = self._random(now, GATHERING)
        policy = policy_id(now.logging, now.scale)
        gathered = self._shown(now.logging, now.scale, policy, wanted - self._floored(now, wanted, rng), rng)
        floored = wanted - gathered.timesteps
        if floored:
            gathered += self._shown(self.start, 1.0, policy_id(self.start, 1.0), floored, rng)
        after = replace(now, stage="gathered", statistics=now.statistics + gathered)
        return after, Gathered(until, after, wanted, policy)

    def _floored(self, now: State, wanted: int, rng: np.random.Generator) -> int:
        is_start = now.logging.fingerprint == self.start.fingerprint and now.scale == 1.0
        return 0 if is_start or self.floor == 0.0 else int(rng.binomial(wanted, self.floor))

    def _shown(
        self, model: Model, scale: float, policy: str, interactions: int, rng: np.random.Generator
    ) -> Statistics:
        scores = scale * self._scores(model)
        exposure = Exposure.of_scores(scores, self.offsets, self.source.bias)
        return self.source.gather(policy, scores, exposure, interactions, rng)

    def _tasks(self, now: State) -> tuple[Task, Task] | None:
        """The reward as training clicks and as held-out clicks estimate it; None if either saw nothing."""
        n_train = self.dataset.train.n_queries
        train = now.statistics.select(np.arange(n_train))
        held_out = now.statistics.select(np.arange(n_train, now.statistics.n_queries))
        if train.timesteps == 0 or held_out.timesteps == 0:
            return None
        theta = self.learning.rank_weights(self.source.bias)
        careful = self.estimator if self.learning.clip_validation else self.estimator.unclipped
        bias = self.source.bias
        return (
            Task(self.dataset.train.features, train.offsets, self.estimator.weights(train, bias), theta),
            Task(self.dataset.validation.features, held_out.offsets, careful.weights(held_out, bias), theta),
        )

    def _train(self, now: State) -> tuple[State, Event]:
        tasks = self._tasks(now)
        learned, epochs = self.start, tuple[Epoch, ...]()
        if tasks is not None:
            training = optimise(
                self.start,
                tasks[0],
                held_out=tasks[1],
                settings=self.learning.settings,
                rng=self._random(now, TRAINING),
            )
            epochs = training.history
            if self._convincing(training.model, tasks[1]):
                learned = training.model
        after = replace(now, stage="trained", learned=learned)
        return after, Trained(now.statistics.timesteps, after, epochs)

    def _convincing(self, learned: Model, held_out: Task) -> bool:
        """Whether held-out clicks say clearly enough that a policy is better than the starting one."""
        if self.learning.caution is None:
            return True
        before, after = (
            held_out.reward(model.scores(held_out.features)).values for model in (self.start, learned)
        )
        # By pairs: what makes one query worth more than another is in both, and cancels.
        gain = after - before
        return bool(gain.mean() > self.learning.caution * gain.std() / np.sqrt(len(gain)))

    def _evaluate(self, now: State) -> tuple[State, Event]:
        test = self.dataset.test

        def true_value(model: Model, scale: float) -> float:
            return policy_metrics(scale * model.scores(test.features), test, [self.metric])[self.metric]

        after = replace(now, stage="evaluated")
        tasks = self._tasks(now)
        estimate, error = float("nan"), float("nan")
        if tasks is not None:
            values = tasks[1].reward(now.learned.scores(tasks[1].features)).values
            estimate, error = float(values.mean()), float(values.std() / np.sqrt(len(values)))
        exposed = self._exposed(now.scale * self._scores(now.logging))
        return after, Evaluated(
            now.statistics.timesteps,
            after,
            learned=true_value(now.learned, 1.0),
            logging=true_value(now.logging, now.scale),
            estimate=estimate,
            estimate_error=error,
            support={level: float(np.mean(exposed < level)) for level in SUPPORT_LEVELS},
        )

    def _exposed(self, scores: Float64) -> Float64:
        return expected_rank_weights(scores, self.offsets, self.source.bias.alpha)

    def _deploy(self, now: State) -> tuple[State, Event]:
        clip = getattr(self.estimator, "bound", lambda _t: 0.0)(self.horizon)
        scale = self.exploration.scale(self._scores(now.learned), self._exposed, clip)
        after = replace(now, phase=now.phase + 1, stage="deployed", logging=now.learned, scale=scale)
        policy = policy_id(now.learned, scale)
        return after, Deployed(now.statistics.timesteps, after, policy, scale)


def policy_id(model: Model, scale: float) -> str:
    """The name of a logging policy: its model's fingerprint, and how soft it is.

    The same model at another scale is another policy, with another exposure.
    """
    return f"{model.fingerprint}*{scale:.6g}"
