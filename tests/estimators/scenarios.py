"""Small scenarios in which every log can be listed: expectation is a finite sum.

What is random: at each impression a query (with the chances of that period, independently of all else), the
ranking that the period's policy shows, and a click or none on each shown document. What is not: the policies,
the order in which they log, and how many impressions each of them logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product

import numpy as np
import pytest
from numpy.typing import NDArray

from rankloop.estimators import Estimator
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias
from tests.enumeration import all_rankings

Rankings = tuple[tuple[float, tuple[int, ...]], ...]

# The paper's users. Position bias alone: every examined relevant document is clicked, and nothing else is.
# Noise: clicks on examined documents that do not depend on the rank, but are not relevance itself either.
NOISE_CLICKED_IF_RELEVANT, NOISE_CLICKED_IF_NOT = 0.9, 0.2
_EXAMINATION = np.array([1.0, 0.8, 0.6, 0.5, 0.4])


def trust(ranks: int) -> Bias:
    return Bias(
        alpha=np.array([0.35, 0.53, 0.55, 0.54, 0.52])[:ranks],
        beta=np.array([0.65, 0.26, 0.15, 0.11, 0.08])[:ranks],
        examination=_EXAMINATION[:ranks],
    )


def position(ranks: int) -> Bias:
    examined = _EXAMINATION[:ranks]
    return Bias(alpha=examined, beta=np.zeros(ranks), examination=examined)


def noise(ranks: int) -> Bias:
    examined = _EXAMINATION[:ranks]
    return Bias(
        alpha=examined * (NOISE_CLICKED_IF_RELEVANT - NOISE_CLICKED_IF_NOT),
        beta=examined * NOISE_CLICKED_IF_NOT,
        examination=examined,
    )


def plackett_luce(scores: list[float], ranks: int) -> Rankings:
    """Every top-k ranking with its chance."""
    rankings, log_probability = all_rankings(np.array(scores, dtype=np.float64))
    chances = sorted(
        (tuple(map(int, ranking[:ranks])), float(p))
        for ranking, p in zip(rankings, np.exp(log_probability), strict=True)
    )
    return tuple(
        (sum(p for _, p in group), top) for top, group in groupby(chances, key=lambda chance: chance[0])
    )


@dataclass(frozen=True, eq=False)
class Period:
    """A stretch of impressions under one policy.

    Attributes:
        policy: for each query, every ranking it may show, with its chance.
        impressions: how many.
        query_chances: how likely each query is to come.
    """

    policy: tuple[Rankings, ...]
    impressions: int
    query_chances: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, eq=False)
class Scenario:
    """Queries with relevant documents, users, and policies that log one after the other."""

    bias: Bias
    relevance: tuple[tuple[float, ...], ...]
    periods: tuple[Period, ...]

    @property
    def offsets(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum([len(documents) for documents in self.relevance])])

    @property
    def flat_relevance(self) -> NDArray[np.float64]:
        return np.concatenate([np.array(documents) for documents in self.relevance])

    @property
    def impressions(self) -> int:
        return sum(period.impressions for period in self.periods)

    def chances_by_position(self, period: Period) -> NDArray[np.float64]:
        """How likely each document is at each rank, documents × ranks."""
        chances = np.zeros((self.offsets[-1], self.bias.positions))
        for q, rankings in enumerate(period.policy):
            for probability, ranking in rankings:
                for k, document in enumerate(ranking):
                    chances[self.offsets[q] + document, k] += probability
        return chances

    def exposure(self, period: Period) -> Exposure:
        by_rank = np.stack([self.bias.alpha, self.bias.beta, self.bias.examination])
        return Exposure(*(by_rank @ self.chances_by_position(period).T))

    def possible_impressions(
        self, period: Period
    ) -> Iterator[tuple[float, tuple[int, tuple[int, ...], tuple[bool, ...]]]]:
        """Everything that can happen at one impression: chance, and query, ranking and clicks."""
        for q, rankings in enumerate(period.policy):
            for shown_chance, ranking in rankings:
                relevance = np.array(self.relevance[q])[list(ranking)]
                ranks = len(ranking)
                click = self.bias.alpha[:ranks] * relevance + self.bias.beta[:ranks]
                for clicks in product([False, True], repeat=ranks):
                    clicks_chance = np.prod(np.where(clicks, click, 1.0 - click))
                    padding = self.bias.positions - ranks
                    yield (
                        period.query_chances[q] * shown_chance * float(clicks_chance),
                        (q, ranking + (-1,) * padding, clicks + (False,) * padding),
                    )


def log_of_one_document(
    policy: str, exposure: tuple[float, float, float], *, impressions: int, displays: int, clicks: int
) -> Statistics:
    """A log of one query with one document and one rank; the exposure is its α, β and examination."""
    return Statistics.of_policy(
        policy,
        [0, 1],
        Exposure(*([value] for value in exposure)),
        impressions_by_query=[impressions],
        displays_by_position=[[displays]],
        clicks_by_position=[[clicks]],
    )


def log_of_two_documents(
    displays_by_position: list[list[int]], clicks_by_position: list[list[int]]
) -> Statistics:
    """A log of one query with two documents that came 100 times; for estimators that do not read exposure."""
    return Statistics.of_policy(
        "a",
        [0, 2],
        Exposure(*np.ones((3, 2))),
        impressions_by_query=[100],
        displays_by_position=displays_by_position,
        clicks_by_position=clicks_by_position,
    )


@cache
def every_log(scenario: Scenario) -> list[tuple[float, Statistics]]:
    """Every log of the scenario with its chance, as statistics."""
    logs = [(1.0, Statistics.empty(scenario.offsets, scenario.bias.positions))]
    for number, period in enumerate(scenario.periods):
        exposure = scenario.exposure(period)
        gathered = []
        possible = [(p, happened) for p, happened in scenario.possible_impressions(period) if p > 0.0]
        for steps in product(possible, repeat=period.impressions):
            queries, rankings, clicks = zip(*(happened for _, happened in steps), strict=True)
            statistics = of_impressions(
                f"policy {number}",
                scenario.offsets,
                exposure,
                queries=queries,
                rankings=rankings,
                clicks=clicks,
            )
            gathered.append((float(np.prod([p for p, _ in steps])), statistics))
        logs = [(p * more_p, log + more) for p, log in logs for more_p, more in gathered]
    np.testing.assert_allclose(sum(p for p, _ in logs), 1.0, rtol=1e-12)
    return logs


def expected_weights(estimator: Estimator, scenario: Scenario) -> NDArray[np.float64]:
    """The mean of an estimator's weights over every log."""
    total = np.zeros(scenario.offsets[-1])
    for probability, statistics in every_log(scenario):
        total += probability * estimator.weights(statistics, scenario.bias)
    return total


# Four documents, all of them shown; the policy likes the irrelevant one best.
def all_shown(bias: Bias) -> Scenario:
    policy = plackett_luce([1.0, -1.0, 2.5, 0.0], ranks=4)
    return Scenario(bias, ((0.25, 1.0, 0.0, 0.5),), (Period((policy,), impressions=1),))


# Five documents, of which two are shown; again the policy likes the irrelevant one best.
def selection(bias: Bias) -> Scenario:
    policy = plackett_luce([1.0, -1.0, 2.5, 0.0, -0.5], ranks=2)
    return Scenario(bias, ((0.25, 1.0, 0.0, 0.5, 0.75),), (Period((policy,), impressions=1),))


# Three documents, of which two are shown, first by one policy and then by another.
def changing(bias: Bias) -> Scenario:
    first, second = plackett_luce([0.0, 0.4, -1.0], ranks=2), plackett_luce([2.0, -1.0, 0.3], ranks=2)
    return Scenario(
        bias, ((0.25, 1.0, 0.5),), (Period((first,), impressions=1), Period((second,), impressions=1))
    )


QUERY_CHANCES = (0.7, 0.3)


# Two queries, one more frequent, of two documents each; one is shown; a policy changes after the first
# impression.
def two_queries(bias: Bias, later_chances: tuple[float, float] = QUERY_CHANCES) -> Scenario:
    first = (plackett_luce([0.0, 0.8], 1), plackett_luce([1.2, 0.0], 1))
    second = (plackett_luce([1.5, 0.0], 1), plackett_luce([0.0, 0.6], 1))
    periods = (Period(first, 1, QUERY_CHANCES), Period(second, 2, later_chances))
    return Scenario(bias, ((0.25, 1.0), (0.75, 0.0)), periods)


ALL_SHOWN = {bias.__name__: all_shown(bias(4)) for bias in (position, noise, trust)}
SELECTION = {bias.__name__: selection(bias(2)) for bias in (position, noise, trust)}
CHANGING = {bias.__name__: changing(bias(2)) for bias in (position, noise, trust)}
TWO_QUERIES = {bias.__name__: two_queries(bias(1)) for bias in (position, trust)}
# Traffic that turns round: the rare query becomes the frequent one.
TURNING_TRAFFIC = two_queries(trust(1), later_chances=(0.2, 0.8))

# Everything shown; some documents never shown; and two policies that show some documents.
every_kind_of_selection = pytest.mark.parametrize(
    "scenarios", [ALL_SHOWN, SELECTION, CHANGING], ids=["shown", "selection", "changing"]
)

# Enumeration is exact up to rounding.
EXACT = {"rtol": 0.0, "atol": 1e-10}
# What counts as a measurable bias, on a scale of relevance from 0 to 1.
MEASURABLE = 0.05
