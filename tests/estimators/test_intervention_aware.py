"""The intervention-aware estimator: unbiased under all three biases and any change of policies.

The two averages differ in what they take for random. ``all`` is unbiased over the arrivals of queries, if
these do not change; ``query`` is unbiased given any arrivals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.estimators import InterventionAware, InterventionOblivious
from rankloop.statistics import Exposure, Statistics
from tests.estimators.scenarios import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    MEASURABLE,
    QUERY_CHANCES,
    SELECTION,
    TURNING_TRAFFIC,
    TWO_QUERIES,
    Period,
    Scenario,
    every_log,
    expected_weights,
    plackett_luce,
    trust,
)

Average = Literal["all", "query"]
UNCLIPPED = InterventionAware(clip="off")
UNCLIPPED_BY_QUERY = InterventionAware(clip="off", average="query")

# A guess of the relevance that is right for no document.
GUESSED = InterventionAware(clip="off", guess=0.4)
GUESSED_BY_QUERY = InterventionAware(clip="off", average="query", guess=0.4)

both_averages = pytest.mark.parametrize("estimator", [UNCLIPPED, UNCLIPPED_BY_QUERY], ids=str)
with_and_without_guess = pytest.mark.parametrize(
    "estimator", [UNCLIPPED, UNCLIPPED_BY_QUERY, GUESSED, GUESSED_BY_QUERY], ids=str
)


# Query 0 came 10 and 10 times, query 1 came 0 and 20 times; one document each.
FIRST = Statistics.of_policy(
    "first",
    [0, 1, 2],
    Exposure([0.5, 0.4], [0.2, 0.3], [1.0, 1.0]),
    impressions_by_query=[10, 0],
    displays_by_position=[[10], [0]],
    clicks_by_position=[[6], [0]],
)
SECOND = Statistics.of_policy(
    "second",
    [0, 1, 2],
    Exposure([0.1, 0.2], [0.04, 0.1], [0.2, 0.3]),
    impressions_by_query=[10, 20],
    displays_by_position=[[2], [6]],
    clicks_by_position=[[1], [5]],
)
BOTH = FIRST + SECOND


def test_weights_by_hand_with_the_average_over_all_impressions() -> None:
    # The first policy logged 10 of 40 impressions.
    alpha = [0.25 * 0.5 + 0.75 * 0.1, 0.25 * 0.4 + 0.75 * 0.2]
    beta = [0.25 * 0.2 + 0.75 * 0.04, 0.25 * 0.3 + 0.75 * 0.1]
    expected = [(7 - 20 * beta[0]) / alpha[0] / (40 / 2), (5 - 20 * beta[1]) / alpha[1] / (40 / 2)]
    np.testing.assert_allclose(UNCLIPPED.weights(BOTH, trust(1)), expected)
    clipped = [(7 - 20 * beta[0]) / 0.225 / (40 / 2), (5 - 20 * beta[1]) / alpha[1] / (40 / 2)]
    np.testing.assert_allclose(InterventionAware(clip=0.225).weights(BOTH, trust(1)), clipped)


def test_weights_by_hand_with_the_average_over_the_querys_own_impressions() -> None:
    # The first policy logged 10 of the 20 times that query 0 came, and none of query 1's.
    expected = [
        (7 - 20 * (0.2 + 0.04) / 2) / ((0.5 + 0.1) / 2) / (40 / 2),
        (5 - 20 * 0.1) / 0.2 / (40 / 2),
    ]
    np.testing.assert_allclose(UNCLIPPED_BY_QUERY.weights(BOTH, trust(1)), expected)


@both_averages
def test_a_query_that_never_came_weighs_nothing(estimator: InterventionAware) -> None:
    expected = [(6 - 10 * 0.2) / 0.5 / (10 / 2), 0.0]
    np.testing.assert_allclose(estimator.weights(FIRST, trust(1)), expected)


@with_and_without_guess
@pytest.mark.parametrize(
    "scenarios", [ALL_SHOWN, SELECTION, CHANGING], ids=["shown", "selection", "changing"]
)
@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased(estimator: InterventionAware, scenarios: dict[str, Scenario], bias: str) -> None:
    scenario = scenarios[bias]
    np.testing.assert_allclose(expected_weights(estimator, scenario), scenario.flat_relevance, **EXACT)


@with_and_without_guess
def test_unbiased_over_random_arrivals(estimator: InterventionAware) -> None:
    scenario = TWO_QUERIES["trust"]
    expected = 2 * np.repeat(QUERY_CHANCES, 2) * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(estimator, scenario), expected, **EXACT)


@with_and_without_guess
def test_unbiased_on_the_queries_of_a_split(estimator: InterventionAware) -> None:
    # Given that a query of the split came at all: without any there is nothing to estimate from.
    scenario = TWO_QUERIES["trust"]
    weights, chance = np.zeros(2), 0.0
    for probability, log in every_log(scenario):
        split = log.select([0])
        if split.impressions:
            weights += probability * estimator.weights(split, scenario.bias)
            chance += probability
    assert chance == pytest.approx(1 - QUERY_CHANCES[1] ** 3)
    np.testing.assert_allclose(weights / chance, scenario.relevance[0], **EXACT)


def given_arrivals(estimator: InterventionAware, scenario: Scenario) -> list[tuple[Statistics, np.ndarray]]:
    """The mean weights for each way in which the queries can have come."""
    groups: dict[bytes, tuple[float, Statistics, np.ndarray]] = {}
    for probability, log in every_log(scenario):
        came = np.stack([p.impressions_by_query for p in log.policies.values()]).tobytes()
        chance, _, total = groups.get(came, (0.0, log, np.zeros(log.n_documents)))
        weights = estimator.weights(log, scenario.bias)
        groups[came] = (chance + probability, log, total + probability * weights)
    return [(log, total / chance) for chance, log, total in groups.values()]


def test_the_querys_own_average_is_unbiased_given_any_arrivals() -> None:
    scenario = TWO_QUERIES["trust"]
    for estimator in (UNCLIPPED_BY_QUERY, GUESSED_BY_QUERY):
        for log, weights in given_arrivals(estimator, scenario):
            came = log.per_document(log.impressions_by_query) / log.impressions
            np.testing.assert_allclose(weights, 2 * came * scenario.flat_relevance, **EXACT)


def test_the_average_over_all_impressions_is_not() -> None:
    scenario = TWO_QUERIES["trust"]
    off = [
        abs(
            weights
            - 2 * log.per_document(log.impressions_by_query) / log.impressions * scenario.flat_relevance
        ).max()
        for log, weights in given_arrivals(UNCLIPPED, scenario)
    ]
    assert max(off) > MEASURABLE
    # With arrivals in proportion to the policies' impressions both averages are one.
    np.testing.assert_allclose(min(off), 0.0, atol=1e-10)


def test_traffic_that_turns_biases_the_average_over_all_impressions_alone() -> None:
    scenario = TURNING_TRAFFIC
    first, second = (scenario.exposure(period) for period in scenario.periods)
    # Expected arrivals of each document's query: one impression under the first policy, two under the second.
    came = np.repeat([[0.7, 0.3], [2 * 0.2, 2 * 0.8]], 2, axis=1)
    truth = 2 * came.sum(axis=0) / 3 * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED_BY_QUERY, scenario), truth, **EXACT)

    alpha, beta = (first.alpha + 2 * second.alpha) / 3, (first.beta + 2 * second.beta) / 3
    clicks = sum(
        n * (exposure.alpha * scenario.flat_relevance + exposure.beta)
        for n, exposure in zip(came, (first, second), strict=True)
    )
    weights = expected_weights(UNCLIPPED, scenario)
    np.testing.assert_allclose(weights, 2 / 3 * (clicks - came.sum(axis=0) * beta) / alpha, **EXACT)
    assert abs(weights - truth).max() > MEASURABLE


def policy_that_drops_a_document() -> Scenario:
    # Two of the documents are shown; the second policy never shows document 2.
    always = ((0.5, (0, 1)), (0.5, (1, 0)))
    some = plackett_luce([0.0, 0.4, -0.5], ranks=2)
    periods = (Period((some,), impressions=1), Period((always,), impressions=1))
    return Scenario(trust(2), ((0.25, 1.0, 0.5),), periods)


@with_and_without_guess
def test_no_single_policy_need_show_a_document(estimator: InterventionAware) -> None:
    scenario = policy_that_drops_a_document()
    np.testing.assert_allclose(expected_weights(estimator, scenario), scenario.flat_relevance, **EXACT)
    # The oblivious estimator learns nothing of the document in the second half of the log.
    oblivious = expected_weights(InterventionOblivious(clip="off"), scenario)
    np.testing.assert_allclose(oblivious, [0.25, 1.0, 0.5 / 2], **EXACT)


def test_the_querys_own_average_needs_a_policy_that_showed_the_document_when_the_query_came() -> None:
    drop = policy_that_drops_a_document()
    periods = tuple(Period((p.policy[0], ((1.0, (0,)),)), 1, (0.5, 0.5)) for p in drop.periods)
    scenario = Scenario(drop.bias, (*drop.relevance, (1.0,)), periods)
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), scenario.flat_relevance, **EXACT)
    # In 1 of 4 logs the query came under the second policy alone, once. Then nothing is known of document 2,
    # and n/T · 1 = 2/2 times its relevance is missing.
    expected = [0.25, 1.0, 0.5 * (1 - 1 / 4), 1.0]
    np.testing.assert_allclose(expected_weights(UNCLIPPED_BY_QUERY, scenario), expected, **EXACT)


def variance(estimator: InterventionAware | InterventionOblivious, scenario: Scenario) -> np.ndarray:
    mean = expected_weights(estimator, scenario)
    return sum(p * (estimator.weights(log, scenario.bias) - mean) ** 2 for p, log in every_log(scenario))  # type: ignore[no-any-return]


def test_less_variance_than_the_oblivious_estimator_when_policies_change() -> None:
    scenario = CHANGING["trust"]
    aware = variance(UNCLIPPED, scenario)
    assert (aware < variance(InterventionOblivious(clip="off"), scenario)).all()


def test_guess_and_strength_by_hand() -> None:
    # Query 0 came 20 times, its document was shown 12 times; query 1 came 20 times, its document was shown 6
    # times.
    alpha, beta = trust(1).alpha[0], trust(1).beta[0]
    expected = [
        (20 * 0.4 + (7 - 12 * (0.4 * alpha + beta)) / ((0.5 + 0.1) / 2 + 5 / 20)) / (40 / 2),
        (20 * 0.4 + (5 - 6 * (0.4 * alpha + beta)) / (0.2 + 5 / 20)) / (40 / 2),
    ]
    cautious = InterventionAware(clip="off", average="query", guess=0.4, strength=5.0)
    np.testing.assert_allclose(cautious.weights(BOTH, trust(1)), expected)


@pytest.mark.parametrize("average", ["all", "query"])
@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased_for_any_guess_per_document(average: Average, bias: str) -> None:
    """Doubly robust with strength 0: the guesses are wrong on purpose, and every log is listed."""
    guided = InterventionAware(clip="off", average=average, guess="model")
    for worlds in (ALL_SHOWN, SELECTION, CHANGING):
        world = worlds[bias]
        wrong = np.linspace(-0.5, 1.5, len(world.flat_relevance))
        expected = sum(
            chance * guided.weights(log, world.bias, guess=wrong) for chance, log in every_log(world)
        )
        np.testing.assert_allclose(expected, world.flat_relevance, **EXACT)


@pytest.mark.parametrize("average", ["all", "query"])
@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased_when_chance_decides_which_policy_serves(average: Average, bias: str) -> None:
    """Exploration in a share of the impressions: every way in which two impressions can be served."""
    guided = InterventionAware(clip="off", average=average, guess="model")
    scenario, share = CHANGING[bias], 0.3
    wrong = np.linspace(-0.5, 1.5, len(scenario.flat_relevance))
    served = {(2, 0): (1 - share) ** 2, (1, 1): 2 * share * (1 - share), (0, 2): share**2}
    expected = np.zeros(len(wrong))
    for times, chance in served.items():
        periods = tuple(
            replace(period, impressions=n) for period, n in zip(scenario.periods, times, strict=True) if n
        )
        for probability, log in every_log(replace(scenario, periods=periods)):
            expected += chance * probability * guided.weights(log, scenario.bias, guess=wrong)
    np.testing.assert_allclose(expected, scenario.flat_relevance, **EXACT)


def test_equal_guesses_are_a_number_as_guess() -> None:
    guided = InterventionAware(clip="off", average="query", guess="model", strength=5.0)
    number = InterventionAware(clip="off", average="query", guess=0.4, strength=5.0)
    np.testing.assert_allclose(
        guided.weights(BOTH, trust(1), guess=np.full(2, 0.4)),
        number.weights(BOTH, trust(1)),
        rtol=1e-12,
    )


def test_a_guess_that_is_missing_or_superfluous_is_refused() -> None:
    guided = InterventionAware(clip="off", guess="model")
    with pytest.raises(RankloopError, match="needs a guess of each document's relevance"):
        guided.weights(BOTH, trust(1))
    with pytest.raises(RankloopError, match="2 documents need as many finite guesses"):
        guided.weights(BOTH, trust(1), guess=np.zeros(3))
    with pytest.raises(RankloopError, match="does not take a guess"):
        UNCLIPPED.weights(BOTH, trust(1), guess=np.zeros(2))


def test_the_mean_as_guess_is_the_relevance_that_explains_all_clicks() -> None:
    # 18 displays and 12 clicks in all.
    mean = (12 - 18 * trust(1).beta[0]) / (18 * trust(1).alpha[0])
    by_mean, by_number = (InterventionAware(guess=guess) for guess in ("mean", mean))  # type: ignore[arg-type]
    np.testing.assert_allclose(by_mean.weights(BOTH, trust(1)), by_number.weights(BOTH, trust(1)), rtol=1e-12)


@pytest.mark.parametrize("bias", ["position", "trust"])
def test_guess_lowers_the_variance_where_documents_are_shown_by_chance(bias: str) -> None:
    scenario = SELECTION[bias]
    plain, guessed = variance(UNCLIPPED, scenario), variance(GUESSED, scenario)
    assert guessed.sum() < 0.9 * plain.sum()


def test_a_strength_pulls_towards_the_guess_and_lets_go_as_the_log_grows() -> None:
    log = BOTH
    cautious = InterventionAware(clip="off", guess=0.4, strength=20.0)

    def distances(times: int) -> tuple[np.ndarray, np.ndarray]:
        many = sum([log] * (times - 1), start=log)
        free, pulled = GUESSED.weights(many, trust(1)), cautious.weights(many, trust(1))
        return abs(free - 0.4), abs(pulled - 0.4)

    free, pulled = distances(1)
    assert (pulled < 0.5 * free).all()
    free, pulled = distances(300)
    np.testing.assert_allclose(pulled, free, rtol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guess": "median"}, "'guess' of the estimator 'intervention-aware': expected 'off', 'mean'"),
        ({"guess": float("nan")}, "'guess'"),
        ({"strength": 10.0}, "'strength' of the estimator 'intervention-aware': .* only with a guess"),
        ({"guess": "mean", "strength": -1.0}, "'strength'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        InterventionAware(**options)  # type: ignore[arg-type]
