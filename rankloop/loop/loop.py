"""The loop of the paper's Algorithm 1: gather, train, evaluate, deploy, repeat, as a generator of events.

    D ← {}, π ← π_0
    for each intervention time i:  D ← D ∪ gather(π, i − |D|);  π ← optimise(D, α, β, π_0)
    D ← D ∪ gather(π, T − |D|);  return optimise(D, α, β, π_0)

Without interventions the loop is fully counterfactual; the more there are, the closer it comes to an online
method. An online method replaces both the estimator and training: it learns while impressions are gathered,
and with interventions at all times the policy that it learns is the policy that logs. Every event carries the
state that it left behind: stop after any event, resume from its state, and the result is the same to the bit.
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
from rankloop.evidence import Step, convinces, explained_clicks
from rankloop.loop.deployment import Clicks, Deployment
from rankloop.loop.events import Deployed, Evaluated, Event, Gathered, LoopState, Trained
from rankloop.loop.exploration import AsLearned, Exploration
from rankloop.loop.policy_values import PolicyValues
from rankloop.loop.presets import default_exploration
from rankloop.relevance import ClickModel
from rankloop.relevance.click_model import QUERY_VARIANCE
from rankloop.statistics import CellTable, Exposure, Statistics
from rankloop.training import (
    CLICK_LIKELIHOOD,
    DOUBLY_ROBUST,
    Learning,
    LearningProblem,
    Training,
    learn,
    learn_cross_fitted,
)
from rankloop.types import Bias, Dataset, Float64, Int64, Model, Split

# The purposes of random numbers: each seed, phase and purpose has its own stream.
GATHERING, TRAINING, ONLINE = 0, 1, 2
# Levels of expected α at which reports count documents: an estimator learns little about a document below
# them.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)
# A policy stays deployed if clicks prefer it to a later one by this many standard errors.
DOUBT = 1.0
# The id of a policy that changes with every impression.
CHANGING = "as learned so far"


class Source(Protocol):
    """A source of clicks: simulated users, or a system that shows rankings to real users."""

    @property
    def bias(self) -> Bias:
        """The known or assumed bias of these users."""
        ...

    def gather(
        self, policy: str, scores: Float64, exposure: Exposure, impressions: int, rng: np.random.Generator
    ) -> Statistics:
        """Show rankings of a policy, given by its scores of all documents, and count displays and clicks."""
        ...

    def interact(
        self,
        method: online.Method,
        state: online.MethodState,
        queries: online.Queries,
        impressions: int,
        *,
        logging: Float64 | None,
    ) -> online.MethodState:
        """Show rankings while a method learns from each impression; a source may refuse to."""
        ...


def exponential_times(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return up to ``count`` distinct times from ``first`` to below ``last``, evenly spaced on a log scale.

    >>> exponential_times(100, 100_000, 3)
    (100, 1000, 10000)
    """
    if count < 1:
        return ()
    times = np.geomspace(first, last, count + 1)[:-1]
    return tuple(sorted({round(t) for t in times}))


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop that can be run: everything it needs, and nothing that changes.

    Attributes:
        dataset: impressions come from its training and validation queries; policies are measured on its test
            queries.
        source: where clicks come from.
        start: the policy that logs first, and that every training starts from.
        horizon: T, the total number of impressions.
        interventions: the times at which a new policy is deployed, ascending, before the horizon; ``"all"``
            for an online method whose learned policy logs itself.
        evaluations: further times, at which a policy is learned and measured, but not deployed.
        learning: how clicks become a policy.
        estimator: how clicks become weights that policies are trained on; None for what `learning` does.
        exploration: how soft the learned policy becomes when it logs; None for the exploration that goes with
            `learning`, or ``as-learned`` for an online method.
        deployment: by what evidence a learned policy replaces the start; None for the caution of the settings
            of `learning` alone. With one, policies are trained on weights, too.
        method: an online method to learn with, instead of estimator and training.
        floor: the share of impressions that the starting policy keeps serving.
        metric: the metric that `Evaluated` reports.
        seed: the random seed.
    """

    dataset: Dataset
    source: Source
    start: Model
    horizon: int
    interventions: tuple[int, ...] | Literal["all"] = ()
    evaluations: tuple[int, ...] = ()
    learning: Learning = CLICK_LIKELIHOOD
    estimator: Estimator | None = None
    exploration: Exploration | None = None
    deployment: Deployment | None = None
    method: online.Method | None = None
    floor: float = 0.0
    metric: str = "ndcg@5"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.interventions != "all":
            _check_times("interventions", self.interventions, self.horizon)
        elif self.method is None:
            raise RankloopError(
                "interventions at all times are for online methods; with an estimator, give the times"
            )
        _check_times("evaluations", self.evaluations, self.horizon)
        if not 0.0 <= self.floor < 1.0:
            raise RankloopError(f"floor must be at least 0 and below 1, got {self.floor}")
        if self.floor and self.method is not None:
            raise RankloopError("a floor is for estimators: online methods learn from one policy at a time")

    def run(self, state: LoopState | None = None) -> Iterator[Event]:
        """Run to the end, from the beginning or from the state that an event left behind."""
        now = self._beginning() if state is None else state
        times = self.times
        values = PolicyValues(self.dataset, self.source.bias, self.metric)
        # Weights are computed once per phase. Only a run resumed between training and evaluation repeats it.
        problem: LearningProblem | None = None
        while True:
            if now.stage == "deployed":
                now, event = self._gather(now, times[now.phase], values)
            elif now.stage == "gathered" and self.effective_learning.cross_fitted and self.method is None:
                now, event = self._train_cross_fitted(now, values)
            elif now.stage == "gathered":
                problem = self._problem(now)
                now, event = self._train(now, problem)
            elif now.stage == "trained":
                now, event = self._evaluate(now, problem or self._problem(now), values)
                problem = None
            elif now.phase == len(times) - 1:
                return
            elif self.interventions != "all" and times[now.phase] in self.interventions:
                now, event = self._deploy(now, values)
            else:
                # No intervention: the same policy keeps logging.
                now = replace(now, phase=now.phase + 1, stage="deployed")
                continue
            yield event

    @property
    def times(self) -> tuple[int, ...]:
        """The times at which policies are learned and measured, interventions and the horizon included."""
        deployed = () if self.interventions == "all" else self.interventions
        return tuple(sorted({*deployed, *self.evaluations, self.horizon}))

    @property
    def queries(self) -> online.Queries:
        """The queries that impressions come from."""
        return online.Queries.of(self.dataset.train, self.dataset.validation)

    @property
    def offsets(self) -> Int64:
        """The offsets of these queries: training queries first, then validation queries."""
        return self.queries.offsets

    @property
    def effective_estimator(self) -> Estimator:
        """The estimator that is used."""
        return self.effective_learning.estimator

    @property
    def effective_learning(self) -> Learning:
        """The way of learning that is used: an estimator and a rule of evidence are for weights."""
        if self.learning.cross_fitted and (self.estimator is not None or self.deployment is not None):
            return replace(DOUBLY_ROBUST, estimator=self.estimator or DOUBLY_ROBUST.estimator)
        return replace(self.learning, estimator=self.estimator or self.learning.estimator)

    @property
    def effective_exploration(self) -> Exploration:
        """The exploration that is used."""
        if self.exploration is not None:
            return self.exploration
        return default_exploration(self.learning) if self.method is None else AsLearned()

    def _beginning(self) -> LoopState:
        empty = Statistics.empty(self.offsets, self.source.bias.positions)
        first = LoopState(0, "deployed", empty, self.start, self.start, 1.0)
        if self.method is None:
            return first
        rng = self._random(first, ONLINE)
        return replace(first, online=online.MethodState.start(self.method, self.start, rng))

    def _random(self, now: LoopState, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, now.phase, purpose])

    def _gather(self, now: LoopState, until: int, values: PolicyValues) -> tuple[LoopState, Event]:
        wanted = until - now.impressions
        if self.method is not None:
            return self._interact(now, self.method, wanted, values)
        rng = self._random(now, GATHERING)
        from_start = self._draw_floor(now, wanted, rng)
        mixture = _mixture(now)
        served = rng.multinomial(wanted - from_start, [share for _, share in mixture])
        parts = [(now.logging, scale, int(n)) for (scale, _), n in zip(mixture, served, strict=True)]
        statistics = now.statistics
        for model, scale, impressions in (*parts, (self.start, 1.0, from_start)):
            if impressions:
                statistics += self.source.gather(
                    policy_id(model, scale),
                    scale * values.scores(model),
                    values.exposure(model, scale),
                    impressions,
                    rng,
                )
        after = replace(now, stage="gathered", statistics=statistics, guess=None)
        return after, Gathered(until, after, wanted, mixture_id(now.logging, now.scale, now.explored))

    def _interact(
        self, now: LoopState, method: online.Method, wanted: int, values: PolicyValues
    ) -> tuple[LoopState, Event]:
        assert now.online is not None  # `_beginning` gave the method a state
        logging = None
        if self.interventions != "all":
            logging = now.scale * values.scores(now.logging)
        later = self.source.interact(method, now.online, values.queries, wanted, logging=logging)
        after = replace(now, stage="gathered", learned=later.learned, online=later)
        policy = CHANGING
        if self.interventions == "all":
            after = replace(after, logging=later.learned)
        else:
            policy = policy_id(now.logging, now.scale)
        return after, Gathered(after.impressions, after, wanted, policy)

    def _draw_floor(self, now: LoopState, wanted: int, rng: np.random.Generator) -> int:
        """Draw the number of impressions that the starting policy serves instead of the logging policy."""
        is_start = now.logging.fingerprint == self.start.fingerprint and now.scale == 1.0
        return 0 if is_start or self.floor == 0.0 else int(rng.binomial(wanted, self.floor))

    def _problem(self, now: LoopState) -> LearningProblem | None:
        """Build the problem that the clicks so far pose; None if there are too few to learn anything."""
        learning = self.effective_learning
        if self.method is not None or (learning.cross_fitted and now.guess is None):
            return None
        divided = self._divided(now)
        if divided[0].impressions == 0 or divided[1].impressions < learning.least_held_out:
            return None
        # A guess that was stored is that of these clicks.
        return learning.problem(self._splits, divided, self.source.bias, start=self.start, guess=now.guess)

    @property
    def _splits(self) -> tuple[Split, Split]:
        return self.dataset.train, self.dataset.validation

    def _divided(self, now: LoopState) -> tuple[Statistics, Statistics]:
        """The clicks on training queries, and those on held-out queries."""
        n_train = self.dataset.train.n_queries
        numbers = np.arange(now.statistics.n_queries)
        return now.statistics.select(numbers[:n_train]), now.statistics.select(numbers[n_train:])

    def _train(self, now: LoopState, problem: LearningProblem | None) -> tuple[LoopState, Event]:
        # An online method has already learned, while it gathered. Without clicks the start is kept.
        learned = self.start if self.method is None else now.learned
        if problem is None:
            after = replace(now, stage="trained", learned=learned)
            return after, Trained(now.impressions, after, ())
        training = self._learn(now, problem)
        learned, step = training.model, None
        if learned is self.start:
            # Nothing better than the start was learned; what a rule has deployed has its own evidence.
            reverts = self.deployment is None and self.effective_learning.revert
            learned = self.start if reverts else now.learned
        elif self.deployment is not None:
            step = self._step(now, problem, learned)
            learned = step.policy(self.start, learned, now.learned)
        after = replace(now, stage="trained", learned=learned, guess=problem.guess)
        return after, Trained(now.impressions, after, training.history, problem.guess, step)

    def _train_cross_fitted(self, now: LoopState, values: PolicyValues) -> tuple[LoopState, Event]:
        """Learn from all clicks so far; deploy what explains clicks better that it has not seen."""
        learning, bias = self.effective_learning, self.source.bias
        if now.impressions < learning.least_impressions:
            after = replace(now, stage="trained")
            return after, Trained(now.impressions, after, ())
        found = learn_cross_fitted(
            self.start,
            np.concatenate(values.queries.features),
            now.statistics,
            bias,
            settings=learning.settings,
            seed=self.seed,
        )
        shown = ClickModel(CellTable.of_statistics(now.statistics).shown, bias, QUERY_VARIANCE)
        before = values.scores(self.start) if now.unseen is None else now.unseen
        new, old = (
            explained_clicks(scores[shown.cells.documents], shown) for scores in (found.scores, before)
        )
        # The start has to be beaten. What was deployed has beaten it: then more clicks teach more, unless
        # they say otherwise.
        better = convinces(new - old, learning.settings.caution)
        worse = now.unseen is None or convinces(old - new, DOUBT)
        after = replace(now, stage="trained", guess=found.guess(self.dataset.train.n_documents))
        if better or not worse:
            after = replace(after, learned=found.model, unseen=found.scores)
        return after, Trained(now.impressions, after, found.history, after.guess)

    def _learn(self, now: LoopState, problem: LearningProblem) -> Training:
        settings = self.effective_learning.settings
        if self.deployment is not None:
            settings = settings.without_caution()
        return learn(self.start, problem, settings=settings, rng=self._random(now, TRAINING))

    def _step(self, now: LoopState, problem: LearningProblem, learned: Model) -> Step:
        """Choose how far to go from the start towards what was learned."""
        assert self.deployment is not None
        guess = None if problem.guess is None else (problem.guess.train, problem.guess.held_out)
        splits, statistics, bias = self._splits, self._divided(now), self.source.bias

        def learn_again(splits: tuple[Split, Split], statistics: tuple[Statistics, Statistics]) -> Model:
            part = self.effective_learning.problem(splits, statistics, bias, start=self.start)
            return self._learn(now, part).model

        return self.deployment.step(
            self.start,
            learned,
            Clicks(splits, statistics, bias, guess),
            self.effective_learning.rank_weights(bias),
            now.phase + 1,
            learn=learn_again,
            deployed=now.learned,
        )

    def _evaluate(
        self, now: LoopState, problem: LearningProblem | None, values: PolicyValues
    ) -> tuple[LoopState, Event]:
        estimate = error = float("nan")
        if problem is not None and problem.held_out is not None:
            scores = now.learned.scores(problem.held_out.features)
            if now.unseen is not None:
                scores = now.unseen[-len(scores) :]
            held_out = problem.held_out.values(scores)
            estimate, error = float(held_out.mean()), float(held_out.std() / np.sqrt(len(held_out)))
        logging, exposed = 0.0, np.zeros(self.dataset.train.n_documents + self.dataset.validation.n_documents)
        for scale, share in _mixture(now):
            exposed += share * values.expected_alpha(now.logging, scale)
            logging += share * values.test_value(now.logging, scale)
        after = replace(now, stage="evaluated")
        return after, Evaluated(
            now.impressions,
            after,
            learned=values.test_value(now.learned, 1.0),
            logging=logging,
            estimate=estimate,
            estimate_error=error,
            support={level: float(np.mean(exposed < level)) for level in SUPPORT_LEVELS},
        )

    def _deploy(self, now: LoopState, values: PolicyValues) -> tuple[LoopState, Event]:
        scores = values.scores(now.learned)
        clip = InterventionAware().bound(self.horizon)
        exposed = values.expected_alpha_of
        scale = self.effective_exploration.scale(scores, self.offsets, exposed, clip)
        explored = self.effective_exploration.explored(now.impressions)
        after = replace(
            now, phase=now.phase + 1, stage="deployed", logging=now.learned, scale=scale, explored=explored
        )
        policy = mixture_id(now.learned, scale, explored)
        return after, Deployed(now.impressions, after, policy, scale, explored)


def policy_id(model: Model, scale: float) -> str:
    """Return the id of a logging policy: the fingerprint of its model, and its scale.

    The same model at another scale is another policy, with another exposure.
    """
    return f"{model.fingerprint}*{scale:.6g}"


def mixture_id(model: Model, scale: float, explored: float) -> str:
    """Return the id of a logging policy that explores in a share of the impressions."""
    if explored == 1.0 or scale == 1.0:
        return policy_id(model, scale)
    return f"{policy_id(model, 1.0)} + {explored:.6g} {policy_id(model, scale)}"


def _mixture(now: LoopState) -> list[tuple[float, float]]:
    """The scales of the logging policy, and the share of the impressions that each serves."""
    if now.explored == 1.0 or now.scale == 1.0:
        return [(now.scale, 1.0)]
    return [(now.scale, now.explored), (1.0, 1.0 - now.explored)]


def _check_times(name: str, times: tuple[int, ...], horizon: int) -> None:
    if any(later <= earlier for earlier, later in pairwise((0, *times, horizon))):
        raise RankloopError(
            f"{name} must be ascending whole numbers, at least 1 and below the horizon ({horizon}), "
            f"got {list(times)}"
        )
