"""The loop of the paper's Algorithm 1: gather, train, evaluate, deploy, again, as a generator of events.

    D ← {}, π ← π_0
    for each intervention time i:  D ← D ∪ gather(π, i − |D|);  π ← optimise(D, α, β, π_0)
    D ← D ∪ gather(π, T − |D|);  return optimise(D, α, β, π_0)

Without interventions it is fully counterfactual; the more there are, the more it is an online method. An
online method takes the place of estimator and training alike: it learns while interactions are gathered, and
with interventions at all times the policy that it learns is the policy that logs. Every event carries the
state it left behind: stop after any of them, go on from its state, and get the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from rankloop import online
from rankloop.errors import RankloopError
from rankloop.estimators import Estimator, InterventionAware
from rankloop.evaluation import policy_metrics
from rankloop.loop.events import Deployed, Evaluated, Event, Gathered, LoopState, Trained
from rankloop.loop.exploration import AsLearned, Exploration
from rankloop.loop.presets import ROBUST, Learning
from rankloop.policies import expected_rank_weights
from rankloop.statistics import Exposure, Statistics
from rankloop.training import Epoch, Task, train_network
from rankloop.types import Bias, Dataset, Float64, Int64, Model

# Streams of random numbers, apart from each other: of one seed, one phase and one purpose.
GATHERING, TRAINING, ONLINE = 0, 1, 2
# Below these, expected α is as good as nothing to the estimators: what a report on support counts.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)
# The name of a policy that is another one after every interaction.
CHANGING = "as learned so far"


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

    def interact(
        self,
        method: online.Method,
        state: online.MethodState,
        queries: online.Queries,
        interactions: int,
        *,
        logging: Float64 | None,
    ) -> online.MethodState:
        """Show rankings this many times while a method learns from each; a source may refuse to."""
        ...


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
        interventions: the times at which a new policy is deployed, ascending, before the horizon; ``"all"``
            for an online method whose learned policy logs itself.
        evaluations: more times, at which a policy is learned and measured, but not deployed.
        learning: how weights become a policy, and the defaults of the next two.
        estimator: how clicks become weights; by default as `learning` says.
        exploration: how soft the learned policy becomes when it logs; by default as `learning` says, and as
            learned for an online method.
        method: an online method to learn with, instead of estimator and training.
        floor: the share of interactions that the starting policy goes on to serve.
        metric: what `Evaluated` reports.
        seed: of everything random.
    """

    dataset: Dataset
    source: Source
    start: Model
    horizon: int
    interventions: tuple[int, ...] | Literal["all"] = ()
    evaluations: tuple[int, ...] = ()
    learning: Learning = ROBUST
    estimator: Estimator | None = None
    exploration: Exploration | None = None
    method: online.Method | None = None
    floor: float = 0.0
    metric: str = "ndcg@5"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.interventions != "all":
            _check_times("interventions", self.interventions, self.horizon)
        elif self.method is None:
            raise RankloopError(
                "interventions at all times are for online methods; an estimator needs their number or times"
            )
        _check_times("evaluations", self.evaluations, self.horizon)
        if not 0.0 <= self.floor < 1.0:
            raise RankloopError(f"floor must be at least 0 and below 1, got {self.floor}")
        if self.floor and self.method is not None:
            raise RankloopError("a floor is for estimators: online methods learn from one policy at a time")

    def run(self, state: LoopState | None = None) -> Iterator[Event]:
        """Run to the end, from the beginning or from the state that an event left behind."""
        now = state if state is not None else self._beginning()
        times = self.times
        while True:
            if now.stage == "deployed":
                now, event = self._gather(now, times[now.phase])
            elif now.stage == "gathered":
                now, event = self._train(now)
            elif now.stage == "trained":
                now, event = self._evaluate(now)
            elif now.phase == len(times) - 1:
                return
            elif self.interventions != "all" and times[now.phase] in self.interventions:
                now, event = self._deploy(now)
            else:
                # What logs goes on logging.
                now = replace(now, phase=now.phase + 1, stage="deployed")
                continue
            yield event

    @property
    def times(self) -> tuple[int, ...]:
        """When policies are learned and measured: at interventions, at evaluations, and at the horizon."""
        deployed = () if self.interventions == "all" else self.interventions
        return tuple(sorted({*deployed, *self.evaluations, self.horizon}))

    @property
    def offsets(self) -> Int64:
        """Of the queries that interactions come from: training queries, then validation queries."""
        return self.queries.offsets

    @property
    def queries(self) -> online.Queries:
        """The queries that interactions come from."""
        return online.Queries.of(self.dataset.train, self.dataset.validation)

    @property
    def effective_estimator(self) -> Estimator:
        """The estimator that is used."""
        return self.learning.estimator if self.estimator is None else self.estimator

    @property
    def effective_exploration(self) -> Exploration:
        """The exploration that is used."""
        if self.exploration is not None:
            return self.exploration
        return self.learning.exploration if self.method is None else AsLearned()

    def _beginning(self) -> LoopState:
        empty = Statistics.empty(self.offsets, self.source.bias.ranks)
        first = LoopState(0, "deployed", empty, self.start, self.start, 1.0)
        if self.method is None:
            return first
        rng = self._random(first, ONLINE)
        return replace(first, online=online.MethodState.start(self.method, self.start, rng))

    def _random(self, now: LoopState, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, now.phase, purpose])

    def _gather(self, now: LoopState, until: int) -> tuple[LoopState, Event]:
        wanted = until - now.timesteps
        if self.method is not None:
            return self._interact(now, self.method, wanted)
        rng = self._random(now, GATHERING)
        policy = policy_id(now.logging, now.scale)
        gathered = self._shown(now.logging, now.scale, policy, wanted - self._floored(now, wanted, rng), rng)
        floored = wanted - gathered.timesteps
        if floored:
            gathered += self._shown(self.start, 1.0, policy_id(self.start, 1.0), floored, rng)
        after = replace(now, stage="gathered", statistics=now.statistics + gathered)
        return after, Gathered(until, after, wanted, policy)

    def _interact(self, now: LoopState, method: online.Method, wanted: int) -> tuple[LoopState, Event]:
        assert now.online is not None  # a method has had a state since the beginning
        queries, logging = self.queries, None
        if self.interventions != "all":
            logging = now.scale * queries.scores(now.logging)
        later = self.source.interact(method, now.online, queries, wanted, logging=logging)
        after = replace(now, stage="gathered", learned=later.learned, online=later)
        policy = CHANGING
        if self.interventions == "all":
            after = replace(after, logging=later.learned)
        else:
            policy = policy_id(now.logging, now.scale)
        return after, Gathered(after.timesteps, after, wanted, policy)

    def _floored(self, now: LoopState, wanted: int, rng: np.random.Generator) -> int:
        is_start = now.logging.fingerprint == self.start.fingerprint and now.scale == 1.0
        return 0 if is_start or self.floor == 0.0 else int(rng.binomial(wanted, self.floor))

    def _shown(
        self, model: Model, scale: float, policy: str, interactions: int, rng: np.random.Generator
    ) -> Statistics:
        scores = scale * self.queries.scores(model)
        exposure = Exposure.of_scores(scores, self.offsets, self.source.bias)
        return self.source.gather(policy, scores, exposure, interactions, rng)

    def _tasks(self, now: LoopState) -> tuple[Task, Task] | None:
        """The reward as training clicks and as held-out clicks estimate it; None if either saw nothing."""
        n_train = self.dataset.train.n_queries
        train = now.statistics.select(np.arange(n_train))
        held_out = now.statistics.select(np.arange(n_train, now.statistics.n_queries))
        if train.timesteps == 0 or held_out.timesteps == 0:
            return None
        theta = self.learning.rank_weights(self.source.bias)
        estimator, bias = self.effective_estimator, self.source.bias
        careful = estimator if self.learning.clip_validation else estimator.unclipped
        return (
            Task(self.dataset.train.features, train.offsets, estimator.weights(train, bias), theta),
            Task(self.dataset.validation.features, held_out.offsets, careful.weights(held_out, bias), theta),
        )

    def _train(self, now: LoopState) -> tuple[LoopState, Event]:
        if self.method is not None:
            after = replace(now, stage="trained")
            return after, Trained(now.timesteps, after, ())
        tasks = self._tasks(now)
        learned, epochs = self.start, tuple[Epoch, ...]()
        if tasks is not None:
            training = train_network(
                self.start,
                tasks[0],
                held_out=tasks[1],
                settings=self.learning.settings,
                rng=self._random(now, TRAINING),
            )
            learned, epochs = training.model, training.history
        after = replace(now, stage="trained", learned=learned)
        return after, Trained(now.timesteps, after, epochs)

    def _evaluate(self, now: LoopState) -> tuple[LoopState, Event]:
        test = self.dataset.test

        def true_value(model: Model, scale: float) -> float:
            return policy_metrics(scale * model.scores(test.features), test, [self.metric])[self.metric]

        after = replace(now, stage="evaluated")
        tasks = self._tasks(now)
        estimate, error = float("nan"), float("nan")
        if tasks is not None:
            values = tasks[1].values(now.learned.scores(tasks[1].features))
            estimate, error = float(values.mean()), float(values.std() / np.sqrt(len(values)))
        exposed = self._exposed(now.scale * self.queries.scores(now.logging))
        return after, Evaluated(
            now.timesteps,
            after,
            learned=true_value(now.learned, 1.0),
            logging=true_value(now.logging, now.scale),
            estimate=estimate,
            estimate_error=error,
            support={level: float(np.mean(exposed < level)) for level in SUPPORT_LEVELS},
        )

    def _exposed(self, scores: Float64) -> Float64:
        return expected_rank_weights(scores, self.offsets, self.source.bias.alpha)

    def _deploy(self, now: LoopState) -> tuple[LoopState, Event]:
        scores = self.queries.scores(now.learned)
        seen = InterventionAware().bound(self.horizon)
        scale = self.effective_exploration.scale(scores, self.offsets, self._exposed, seen)
        after = replace(now, phase=now.phase + 1, stage="deployed", logging=now.learned, scale=scale)
        policy = policy_id(now.learned, scale)
        return after, Deployed(now.timesteps, after, policy, scale)


def policy_id(model: Model, scale: float) -> str:
    """The name of a logging policy: its model's fingerprint, and how soft it is.

    The same model at another scale is another policy, with another exposure.
    """
    return f"{model.fingerprint}*{scale:.6g}"


def _check_times(name: str, times: tuple[int, ...], horizon: int) -> None:
    if any(later <= earlier for earlier, later in pairwise((0, *times, horizon))):
        raise RankloopError(
            f"{name} must be ascending whole numbers from 1 and before the horizon ({horizon}), "
            f"got {list(times)}"
        )
