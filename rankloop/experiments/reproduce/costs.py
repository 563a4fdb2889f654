"""The expected time of runs, extrapolated from a short measurement on a part of the data."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rankloop import online
from rankloop.experiments.baselines import random_ranker
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.setup import Environment
from rankloop.experiments.spec import ALL
from rankloop.experiments.spec_names import AUTHORS, HELD_OUT
from rankloop.loop import Gathered, Loop, Trained
from rankloop.training import LEARNING, Learning
from rankloop.types import Dataset, Split

# How many training and validation queries to measure with: time is proportional to their number.
QUERIES = 200
# How many impressions to measure with: about a tenth of a second.
GATHERED, LEARNED_ONLINE = 100_000, {"coltr": 100}
LEARNED_ONLINE_BY_OTHERS = 2_000
# How many epochs to measure: one, and this many.
MORE_EPOCHS = 5
# How many epochs one training takes before it stops early, of at most 50: the average over runs of the
# presets. With the paper's stopping rule it is 12 on 4,000 training queries with interventions, 7 without.
EPOCHS = {"paper": 10, "robust": 25, "doubly-robust": 25}
# How many such epochs the setup of a seed takes, by the way rankers learn from labels: the production ranker,
# the oracle and the supervised baseline. The authors' supervised baseline is trained once, for all seeds, for
# at most a hundred epochs.
SETUP_EPOCHS = {HELD_OUT: 90, AUTHORS: 30}
SHARED_EPOCHS = {HELD_OUT: 0, AUTHORS: 100}
# In seconds; durations below are not told apart.
MINUTE = 60


@dataclass(frozen=True)
class Costs:
    """Seconds on one core.

    Attributes:
        queries: number of training and validation queries.
        epoch: one pass over all training queries, by the name of the learning.
        phase: what comes with every training: exposures, weights and evaluation; by the name of the learning.
        impression: one impression.
        online_impression: one impression that an online method learns from, by the method's name and by
            whether the policy that it learns also logs: otherwise only documents that were shown are scored.
    """

    queries: int
    epoch: Mapping[str, float]
    phase: Mapping[str, float]
    impression: float
    online_impression: Mapping[tuple[str, bool], float]

    def run(self, job: Job) -> float:
        """The seconds of a run."""
        learning = job.spec.learning
        phases = len(job.spec.times) * self.phase[learning]
        if job.arm.is_online:
            return phases + job.spec.horizon * self.online_impression[_logging(job)]
        # Queries without clicks are skipped: early on, that is most of them.
        shown = sum(-math.expm1(-time / self.queries) for time in job.spec.times)
        trained = shown * EPOCHS[learning] * self.epoch[learning]
        return phases + trained + job.spec.horizon * self.impression

    def setups(self, preset: Preset, seeds: Sequence[int]) -> dict[int, float]:
        """The seconds of building the setup of each of these seeds; the first also trains what all share."""
        epoch = self.epoch[preset.learning]
        own, shared = SETUP_EPOCHS[preset.supervision] * epoch, SHARED_EPOCHS[preset.supervision] * epoch
        return {seed: own + (shared if place == 0 else 0.0) for place, seed in enumerate(seeds)}


def measure(environment: Environment, preset: Preset, jobs: Sequence[Job]) -> Costs:
    """Measure, in a few seconds, what the jobs of a preset will spend their time on."""
    collection, users = environment.collection, environment.users
    part = _part(collection)
    part_users = replace(
        users,
        relevance=np.concatenate(
            [users.relevance[: part.train.n_documents],
             users.relevance[collection.train.n_documents :][: part.validation.n_documents]]
        ),
        offsets=online.Queries.of(part.train, part.validation).offsets,
    )  # fmt: skip
    more = (collection.train.n_documents + collection.validation.n_documents) / len(part_users.relevance)
    start = random_ranker(collection.n_features, np.random.default_rng(0))
    epoch, phase = {}, {}
    for name in {preset.learning, *(job.spec.learning for job in jobs)}:
        seconds, longer = (
            _seconds(Loop(part, part_users, start, GATHERED, learning=_with_epochs(LEARNING[name], epochs)))
            for epochs in (1, MORE_EPOCHS)
        )
        # The difference is epochs alone; on a busy machine it may come out too small.
        one = max(
            (longer["trained"] - seconds["trained"]) / (MORE_EPOCHS - 1),
            longer["trained"] / (2 * MORE_EPOCHS),
        )
        epoch[name] = one * more
        phase[name] = (seconds["evaluated"] + max(0.0, seconds["trained"] - one)) * more
    online_seconds = {}
    for learner, logs_itself in dict.fromkeys(_logging(job) for job in jobs if job.arm.is_online):
        method = online.method(learner)
        number = LEARNED_ONLINE.get(method.name, LEARNED_ONLINE_BY_OTHERS)
        interventions: tuple[()] | Literal["all"] = ALL if logs_itself else ()
        stages = _seconds(Loop(part, part_users, start, number, interventions, method=method))
        # The time of an impression does not depend on the number of queries.
        online_seconds[learner, logs_itself] = stages["gathered"] / number
    return Costs(
        queries=collection.train.n_queries + collection.validation.n_queries,
        epoch=epoch,
        phase=phase,
        impression=seconds["gathered"] / GATHERED,
        online_impression=online_seconds,
    )


def _logging(job: Job) -> tuple[str, bool]:
    """The online method of a run, and whether the policy that it learns also logs."""
    return job.arm.learner, job.arm.interventions == ALL


def _with_epochs(learning: Learning, epochs: int) -> Learning:
    """The same learning, always for this many epochs."""
    settings = replace(learning.settings, epochs=epochs, patience=epochs, least_gain=None)
    return replace(learning, settings=settings)


def _seconds(loop: Loop) -> dict[str, float]:
    """The seconds of each stage, when everything has been compiled and loaded before.

    Of all cores together, and without the time that other programs take: on a busy machine, a clock on the
    wall would measure those.
    """
    for _ in range(2):
        seconds, begin = {}, time.process_time()
        for event in loop.run():
            now = time.process_time()
            stage = {Gathered: "gathered", Trained: "trained"}.get(type(event), "evaluated")
            seconds[stage], begin = now - begin, now
    return seconds


def _part(collection: Dataset) -> Dataset:
    logged = collection.train.n_queries + collection.validation.n_queries
    share = min(1.0, QUERIES / logged)

    def first(split: Split) -> Split:
        return split.select(np.arange(max(1, round(share * split.n_queries))))

    return replace(
        collection,
        train=first(collection.train),
        validation=first(collection.validation),
        test=first(collection.test),
    )


def format_duration(seconds: float) -> str:
    """A duration in words.

    >>> [format_duration(seconds) for seconds in (20, 70, 95, 1500, 9000, 400_000)]
    ['under a minute', 'a minute', '2 minutes', '25 minutes', '2.5 hours', '4.6 days']
    """
    if seconds < MINUTE:
        return "under a minute"
    if seconds < 90:
        return "a minute"
    for size, name, most in ((60, "minutes", 90), (3600, "hours", 48)):
        if seconds / size < most:
            number = f"{seconds / size:.0f}" if name == "minutes" else f"{seconds / size:.1f}"
            return f"{number} {name}"
    return f"{seconds / 86400:.1f} days"
