"""Deployment by evidence: cross-fitting, trust, and users whose clicks mean the opposite."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rankloop.clicks import bias_of, gather, users
from rankloop.data import synthetic
from rankloop.errors import RankloopError
from rankloop.evidence import ClickNoise, TrustRegion
from rankloop.loop.deployment import ENOUGH_IMPRESSIONS, Clicks, Deployment
from rankloop.models import Adam
from rankloop.policies import expected_rank_weights
from rankloop.ragged import segment_sum
from rankloop.rank_weights import dcg
from rankloop.statistics import Exposure, Statistics
from rankloop.training import ROBUST, LearningProblem, Settings, learn
from rankloop.types import Float64, Model, Split

DATA = synthetic(queries=80, features=6)
SPLITS = DATA.train, DATA.validation
FEATURES = np.concatenate([split.features for split in SPLITS])
OFFSETS = np.concatenate([SPLITS[0].offsets, SPLITS[0].n_documents + SPLITS[1].offsets[1:]])
RELEVANCE = np.concatenate([split.labels for split in SPLITS]) / 4.0
PAPER = users("paper@5")
BIAS = bias_of(PAPER)
LEARNING = replace(ROBUST, settings=Settings(Adam(rate=0.01), epochs=8, patience=4))
TIMES = (0, 300, 1_000, 3_000)


def few_labels() -> Model:
    few = replace(DATA, train=DATA.train.select(np.arange(4)))
    settings = Settings(Adam(rate=0.01), epochs=30, patience=10)
    problem = LearningProblem.from_labels(few, "ndcg@5")
    return learn("linear", problem, settings=settings, rng=np.random.default_rng(0)).model


START = few_labels()


def fit(splits: tuple[Split, Split], statistics: tuple[Statistics, Statistics]) -> Model:
    problem = LEARNING.problem(splits, statistics, BIAS)
    return learn(START, problem, settings=LEARNING.settings, rng=np.random.default_rng(0)).model


def logged(policy: Model, name: str, relevance: Float64, times: int, rng: np.random.Generator) -> Statistics:
    scores = policy.scores(FEATURES)
    counts = gather(scores, OFFSETS, relevance, PAPER, times, rng)
    return Statistics.of_policy(
        name,
        OFFSETS,
        Exposure.of_scores(scores, OFFSETS, BIAS),
        impressions_by_query=counts.impressions_by_query,
        displays_by_position=counts.displays_by_position,
        clicks_by_position=counts.clicks_by_position,
    )


def divided(statistics: Statistics) -> tuple[Statistics, Statistics]:
    numbers = np.arange(statistics.n_queries)
    return statistics.select(numbers[: DATA.train.n_queries]), statistics.select(
        numbers[DATA.train.n_queries :]
    )


def deployed_by(deployment: Deployment, relevance: Float64, seed: int) -> list[Model]:
    """Run a small loop, and return the policies that logged."""
    rng = np.random.default_rng(seed)
    statistics, policies = Statistics.empty(OFFSETS, BIAS.positions), [START]
    for look, (before, time) in enumerate(pairwise(TIMES), start=1):
        statistics += logged(policies[-1], f"policy {look}", relevance, time - before, rng)
        parts = divided(statistics)
        learned = fit(SPLITS, parts)
        step = deployment.step(
            START, learned, Clicks(SPLITS, parts, BIAS), dcg(5), look, learn=fit, deployed=policies[-1]
        )
        policies.append(step.policy(START, learned, policies[-1]))
    return policies


def values(policy: Model) -> Float64:
    """The true DCG of each query."""
    expected = expected_rank_weights(policy.scores(FEATURES), OFFSETS, dcg(5))
    result: Float64 = segment_sum(RELEVANCE * expected, OFFSETS)
    return result


def test_honest_clicks_lead_away_from_the_start() -> None:
    policies = deployed_by(Deployment(ClickNoise(looks=3)), RELEVANCE, seed=0)
    assert values(policies[-1]).mean() > values(START).mean() + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_inverted_clicks_cost_no_more_than_the_bound(seed: int) -> None:
    """Evidence that comes from the same clicks is fooled; the trust region is not.

    NDCG per query is bounded by 1 − ε_q times that of the start, and the mean of ε_q by the tightest width.
    """
    region = TrustRegion(tightest=0.1)
    policies = deployed_by(Deployment(ClickNoise(looks=3), region), 1.0 - RELEVANCE, seed)
    most = values(START).max()  # Σ_q ε_q · value_q ≤ mean ε · the largest value
    for policy in policies:
        assert values(START).mean() - values(policy).mean() <= region.tightest * most
        assert values(policy).mean() >= 0.97 * values(START).mean()
    free = deployed_by(Deployment(ClickNoise(looks=3), None), 1.0 - RELEVANCE, seed)
    assert min(values(policy).mean() for policy in free) < 0.9 * values(START).mean()


def test_cross_fitting_learns_without_the_queries_it_judges_by() -> None:
    statistics = divided(logged(START, "start", RELEVANCE, 500, np.random.default_rng(0)))
    seen: list[set[str]] = []

    def watched(splits: tuple[Split, Split], parts: tuple[Statistics, Statistics]) -> Model:
        seen.append(set(splits[0].query_ids.tolist()))
        assert parts[0].n_queries == splits[0].n_queries
        return START

    deployment = Deployment(folds=3)
    deployment.step(START, START, Clicks(SPLITS, statistics, BIAS), dcg(5), 1, learn=watched)
    assert len(seen) == 3
    everything = set(DATA.train.query_ids.tolist())
    left_out = [everything - part for part in seen]
    assert set.union(*left_out) == everything
    assert sum(len(part) for part in left_out) == len(everything)


def test_enough_held_out_impressions_need_no_cross_fitting() -> None:
    statistics = divided(logged(START, "start", RELEVANCE, 40_000, np.random.default_rng(0)))
    assert statistics[1].impressions >= ENOUGH_IMPRESSIONS

    def refused(*_: object) -> Model:
        raise AssertionError("nothing is to be learned again")

    step = Deployment().step(START, START, Clicks(SPLITS, statistics, BIAS), dcg(5), 1, learn=refused)
    assert step.share == 0.0


def test_guesses_of_each_split_are_used() -> None:
    statistics = divided(logged(START, "start", RELEVANCE, 500, np.random.default_rng(0)))
    guess = RELEVANCE[: DATA.train.n_documents], RELEVANCE[DATA.train.n_documents :]
    clicks = Clicks(SPLITS, statistics, BIAS, guess)
    np.testing.assert_array_equal(clicks.debiased(1).guess, guess[1])
    queries = np.array([2, 5])
    rows = np.concatenate([np.arange(*DATA.train.offsets[[q, q + 1]]) for q in queries])
    np.testing.assert_array_equal(clicks.debiased(0, queries).guess, guess[0][rows])


def test_at_least_one_fold() -> None:
    with pytest.raises(RankloopError, match="at least 1"):
        Deployment(folds=0)
