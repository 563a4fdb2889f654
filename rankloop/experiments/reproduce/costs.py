"""How long runs will take: a short measurement on a part of the data, and what follows from it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankloop import online
from rankloop.experiments.baselines import random_ranker
from rankloop.experiments.reproduce.schedule import Job
from rankloop.loop import Gathered, Loop, Trained
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.training import LEARNING
from rankloop.types import Dataset, Split

# Of the queries that are logged from, training and validation together: time grows with their number.
QUERIES = 200
# Interactions to be measured with: what is gathered in about a tenth of a second.
GATHERED, LEARNED_ONLINE = 100_000, {"coltr": 100}
LEARNED_ONLINE_BY_OTHERS = 2_000
# How many epochs a training takes before it is stopped, as far as one can say beforehand: about this many on
# average over a run of the quick preset, of at most 50.
EPOCHS = {"paper": 16, "robust": 25}
# The two bounds of a seed, and its production ranker: epochs of Adam, on all queries.
BOUND_EPOCHS = 60


@dataclass(frozen=True)
class Costs:
    """Seconds on one core.

    Attributes:
        epoch: of one pass over all training queries.
        phase: of what comes with every training: exposures, weights, and measuring.
        impression: of one logged query.
        interaction: of one that an online method learns from, by its name.
    """

    epoch: float
    phase: float
    impression: float
    interaction: Mapping[str, float]

    def run(self, job: Job) -> float:
        """What a run takes."""
        phases = len(job.spec.times) * self.phase
        if job.arm.is_online:
            return phases + job.spec.horizon * self.interaction[job.arm.learner]
        trained = len(job.spec.times) * EPOCHS[job.spec.learning] * self.epoch
        return phases + trained + job.spec.horizon * self.impression

    @property
    def seed_setups(self) -> float:
        """What the production ranker and the bounds of one seed take."""
        return BOUND_EPOCHS * self.epoch

    def together(self, jobs: Sequence[Job], seeds: Iterable[int], cores: int) -> float:
        """What all runs, and setting up some seeds, take on so many cores."""
        return (sum(map(self.run, jobs)) + len(list(seeds)) * self.seed_setups) / cores


def measure(collection: Dataset, users: SimulatedUsers, jobs: Sequence[Job]) -> Costs:
    """Measure what the jobs will spend their time on, in a few seconds."""
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
        took = _seconds(Loop(part, part_users, start, number, interventions="all", method=method))
        # The traffic of a part is the same to one interaction as that of the whole.
        online_seconds[learner] = took["gathered"] / number
    return Costs(
        epoch=seconds["trained"] * more,
        phase=(seconds["evaluated"] + seconds["trained"]) * more,
        impression=seconds["gathered"] / GATHERED,
        interaction=online_seconds,
    )


def _seconds(loop: Loop) -> dict[str, float]:
    """The time of each stage, when everything has been compiled and touched before."""
    for _ in range(2):
        taken, begun = {}, time.perf_counter()
        for event in loop.run():
            now = time.perf_counter()
            stage = {Gathered: "gathered", Trained: "trained"}.get(type(event), "evaluated")
            taken[stage], begun = now - begun, now
    return taken


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


def in_words(seconds: float) -> str:
    """A time as people say it.

    >>> [in_words(seconds) for seconds in (20, 95, 1500, 9000, 400_000)]
    ['under a minute', '2 minutes', '25 minutes', '2.5 hours', '4.6 days']
    """
    if seconds < 60:
        return "under a minute"
    for size, name, most in ((60, "minutes", 90), (3600, "hours", 48)):
        if seconds / size < most:
            number = f"{seconds / size:.0f}" if name == "minutes" else f"{seconds / size:.1f}"
            return f"{number} {name}"
    return f"{seconds / 86400:.1f} days"
