"""The expected time of runs, extrapolated from a short measurement on a part of the data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankloop import online
from rankloop.experiments.baselines import random_ranker
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.setup import Environment
from rankloop.loop import Gathered, Loop, Trained
from rankloop.training import LEARNING
from rankloop.types import Dataset, Split

# How many training and validation queries to measure with: time is proportional to their number.
QUERIES = 200
# How many interactions to measure with: about a tenth of a second.
GATHERED, LEARNED_ONLINE = 100_000, {"coltr": 100}
LEARNED_ONLINE_BY_OTHERS = 2_000
# How many epochs one training takes before it stops early, of at most 50: the average over the runs of the
# quick preset.
EPOCHS = {"paper": 16, "robust": 25, "doubly-robust": 25}
# How many epochs the setup of a seed takes: the production ranker, the oracle and the supervised baseline.
SETUP_EPOCHS = 60


@dataclass(frozen=True)
class Costs:
    """Seconds on one core.

    Attributes:
        epoch: one pass over all training queries.
        phase: what comes with every training: exposures, weights and evaluation.
        impression: one logged query.
        interaction: one interaction that an online method learns from, by the method's name.
    """

    epoch: float
    phase: float
    impression: float
    interaction: Mapping[str, float]

    def run(self, job: Job) -> float:
        """The seconds of a run."""
        phases = len(job.spec.times) * self.phase
        if job.arm.is_online:
            return phases + job.spec.horizon * self.interaction[job.arm.learner]
        trained = len(job.spec.times) * EPOCHS[job.spec.learning] * self.epoch
        return phases + trained + job.spec.horizon * self.impression

    @property
    def setup(self) -> float:
        """The seconds of building the setup of one seed."""
        return SETUP_EPOCHS * self.epoch

    def total(self, jobs: Iterable[Job], seeds: Sequence[int], cores: int) -> float:
        """The seconds of all these runs, and of the setups of these seeds, on this many cores."""
        return (sum(map(self.run, jobs)) + len(seeds) * self.setup) / cores


def measure(environment: Environment, jobs: Sequence[Job]) -> Costs:
    """Measure, in a few seconds, what the jobs will spend their time on."""
    collection, users = environment.collection, environment.users
    part = _part(collection)
    part_users = replace(
        users,
        relevance=np.concatenate(
            [users.relevance[: part.train.n_docs],
             users.relevance[collection.train.n_docs :][: part.validation.n_docs]]
        ),
        offsets=online.Queries.of(part.train, part.validation).offsets,
    )  # fmt: skip
    more = (collection.train.n_docs + collection.validation.n_docs) / len(part_users.relevance)
    start = random_ranker(collection.n_features, np.random.default_rng(0))
    learning = LEARNING[jobs[0].spec.learning] if jobs else LEARNING["paper"]
    once = replace(learning, settings=replace(learning.settings, epochs=1))
    loop = Loop(part, part_users, start, GATHERED, learning=once)
    seconds = _seconds(loop)
    online_seconds = {}
    for learner in dict.fromkeys(job.arm.learner for job in jobs if job.arm.is_online):
        method = online.method(learner)
        number = LEARNED_ONLINE.get(method.name, LEARNED_ONLINE_BY_OTHERS)
        stages = _seconds(Loop(part, part_users, start, number, interventions="all", method=method))
        # The time of an interaction does not depend on the number of queries.
        online_seconds[learner] = stages["gathered"] / number
    return Costs(
        epoch=seconds["trained"] * more,
        phase=(seconds["evaluated"] + seconds["trained"]) * more,
        impression=seconds["gathered"] / GATHERED,
        interaction=online_seconds,
    )


def _seconds(loop: Loop) -> dict[str, float]:
    """The seconds of each stage, when everything has been compiled and loaded before."""
    for _ in range(2):
        seconds, begin = {}, time.perf_counter()
        for event in loop.run():
            now = time.perf_counter()
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

    >>> [format_duration(seconds) for seconds in (20, 95, 1500, 9000, 400_000)]
    ['under a minute', '2 minutes', '25 minutes', '2.5 hours', '4.6 days']
    """
    if seconds < 60:
        return "under a minute"
    for size, name, most in ((60, "minutes", 90), (3600, "hours", 48)):
        if seconds / size < most:
            number = f"{seconds / size:.0f}" if name == "minutes" else f"{seconds / size:.1f}"
            return f"{number} {name}"
    return f"{seconds / 86400:.1f} days"
