"""The contribution of an impression and its sums, over every log of worlds small enough to list."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rankloop.estimators import InterventionAware
from rankloop.ragged import segment_sum
from rankloop.statistics import Statistics, of_impressions
from rankloop.value.contribution import Contribution, debias, unexplained
from tests.estimators.scenarios import CHANGING, EXACT, SELECTION, TWO_QUERIES, Scenario, every_log
from tests.value.brute import Impression, rows_of, terms

WORLDS = [*CHANGING.values(), *SELECTION.values(), *TWO_QUERIES.values()]


def lambdas_for(world: Scenario) -> np.ndarray:
    """λ of two policies: of either sign, and not in the order of relevance."""
    return np.random.default_rng(0).normal(size=(world.offsets[-1], 2))


def wrong_guess(world: Scenario) -> np.ndarray:
    """The more relevant a document is, the less relevant it is guessed to be; some are not probabilities."""
    return 1.3 - 2.0 * world.flat_relevance


@pytest.mark.parametrize("world", WORLDS)
def test_the_mean_of_x_is_the_value_for_any_guess(world: Scenario) -> None:
    """Over every arrival, ranking and click: E[1/T Σ_t x_t] = Σ_q P(q) Σ_d λ_d R_d, policies changing."""
    lambdas, chances = lambdas_for(world), np.array(world.periods[0].query_chances)
    truth = chances @ segment_sum(lambdas * world.flat_relevance[:, None], world.offsets)
    for guess in (wrong_guess(world), np.zeros(world.offsets[-1])):
        total = np.zeros(2)
        for probability, statistics in every_log(world):
            contribution = Contribution.of(statistics, world.bias, guess)
            total += probability * contribution.by_query(lambdas).sum(axis=0) / contribution.total
        np.testing.assert_allclose(total, truth, **EXACT)


def every_history(world: Scenario) -> list[list[Impression]]:
    """Every sequence of impressions, without its chance."""
    steps = [
        list(world.possible_impressions(period))
        for period in world.periods
        for _ in range(period.impressions)
    ]
    return [[impression for _, impression in logged] for logged in product(*steps)]


def statistics_of(world: Scenario, history: list[Impression]) -> Statistics:
    """The statistics of a sequence of impressions."""
    total, first = Statistics.empty(world.offsets, world.bias.positions), 0
    for number, period in enumerate(world.periods):
        own = history[first : first + period.impressions]
        first += period.impressions
        queries, rankings, clicks = (np.array(column) for column in zip(*own, strict=True))
        exposure = world.exposure(period)
        total += of_impressions(
            str(number), world.offsets, exposure, queries=queries, rankings=rankings, clicks=clicks
        )
    return total


@pytest.mark.parametrize("world", [CHANGING["trust"], TWO_QUERIES["trust"]])
def test_all_sums_are_those_of_plain_python(world: Scenario) -> None:
    """By document, by query and by impression, for a sample of all histories: the same numbers."""
    rng, lambdas, guess = np.random.default_rng(1), lambdas_for(world), wrong_guess(world)
    constant = rng.normal(size=(len(world.relevance), 2))
    histories = every_history(world)
    for number in rng.choice(len(histories), 60):
        history = histories[number]
        statistics = statistics_of(world, history)
        contribution = Contribution.of(statistics, world.bias, guess)
        # A query that did not come has no exposure, and no impression.
        factors = lambdas / np.where(contribution.alpha != 0.0, contribution.alpha, np.inf)[:, None]
        before = segment_sum(lambdas * guess[:, None], world.offsets) + constant
        brute = [terms(one, world.offsets, factors, world.bias, guess) for one in history]
        x, w = contribution.by_impression(lambdas, rows_of(history, world.offsets), world.bias, constant)
        np.testing.assert_allclose(x, [before[query] + e for query, e, _ in brute], **EXACT)
        np.testing.assert_allclose(w, [w for _, _, w in brute], **EXACT)
        expected = np.zeros((len(world.relevance), 2))
        for query, e, _ in brute:
            expected[query] += before[query] + e
        np.testing.assert_allclose(contribution.by_query(lambdas, constant), expected, **EXACT)
        by_document = contribution.by_document(lambdas)
        times = statistics.impressions_by_query[:, None]
        np.testing.assert_allclose(
            segment_sum(by_document, world.offsets) + times * constant, expected, **EXACT
        )


@pytest.mark.parametrize("world", WORLDS)
def test_the_sum_by_document_is_what_training_uses(world: Scenario) -> None:
    """With λ = 1, it is the intervention-aware estimator with a guess, up to the factor n/T."""
    estimator, guess = InterventionAware(clip="off", average="query", guess="model"), wrong_guess(world)
    for _, statistics in every_log(world):
        contribution = Contribution.of(statistics, world.bias, guess)
        weights = estimator.weights(statistics, world.bias, guess=guess)
        scale = statistics.n_queries / statistics.impressions
        np.testing.assert_allclose(
            contribution.by_document(np.ones(len(guess))) * scale, weights, rtol=1e-9, atol=1e-12
        )


def test_documents_below_the_support_count_as_guessed() -> None:
    contribution = Contribution(
        np.array([0, 3]), np.array([10]), np.array([0.5, 0.01, 0.0]), np.full(3, 0.2), np.ones(3), support=0.1
    )
    assert contribution.supported.tolist() == [True, False, False]
    np.testing.assert_allclose(contribution.factors(np.ones(3)), [2.0, 0.0, 0.0])
    np.testing.assert_allclose(contribution.by_document(np.ones(3)), [2.0 + 2.0, 2.0, 2.0])


def test_a_ratio_is_bounded_from_above_only() -> None:
    """A gain is never overestimated by a document that was hardly ever shown; a loss keeps its weight."""
    contribution = Contribution(
        np.array([0, 2]), np.array([1]), np.full(2, 0.001), np.zeros(2), np.zeros(2), largest_ratio=100.0
    )
    np.testing.assert_allclose(contribution.factors(np.array([1.0, -1.0])), [100.0, -1_000.0])


def test_the_two_formulas_by_hand() -> None:
    assert unexplained(np.array([7.0]), np.array([2.0]), np.array([10.0]), 0.3) == pytest.approx([2.0])
    np.testing.assert_allclose(debias(np.array([[1.0, 2.0]]), np.array([[0.5, 0.0]])), [[2.0, 0.0]])
