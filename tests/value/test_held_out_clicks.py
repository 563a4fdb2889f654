"""Gains from clicks: their expectation and their variance over every log of small worlds, and z-scores."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import comb

from rankloop.clicks import bias_of, gather, users
from rankloop.errors import DataError
from rankloop.policies import expected_rank_weights
from rankloop.rank_weights import dcg
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias
from rankloop.value import HeldOutClicks, calibrated_gain
from rankloop.value.held_out_clicks import Gain, combine
from tests.estimators.scenarios import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    SELECTION,
    TWO_QUERIES,
    Scenario,
    every_log,
    log_of_one_document,
)

ONE_QUERY = [*ALL_SHOWN.values(), *SELECTION.values(), *CHANGING.values()]


def difference_for(scenario: Scenario) -> np.ndarray:
    """Some difference of expected rank weights: of either sign, and not in the order of relevance."""
    return np.random.default_rng(0).normal(size=scenario.offsets[-1])


def over_all_logs(scenario: Scenario, guess: np.ndarray) -> tuple[float, float, float]:
    """The mean and the variance of the estimated gain, and the mean of its estimated variance."""
    difference = difference_for(scenario)
    chances, values, variances = [], [], []
    for chance, statistics in every_log(scenario):
        clicks = HeldOutClicks.measure(statistics, scenario.bias, guess)
        chances.append(chance)
        values.append(clicks.gain(difference).value)
        variances.append(clicks.observed_variance(difference))
    mean = np.dot(chances, values)
    return mean, np.dot(chances, (np.array(values) - mean) ** 2), np.dot(chances, variances)


@pytest.mark.parametrize("scenario", ONE_QUERY)
def test_gain_is_unbiased_for_any_guess(scenario: Scenario) -> None:
    truth = scenario.flat_relevance @ difference_for(scenario)
    for guess in (scenario.flat_relevance, 1.0 - scenario.flat_relevance, np.full(scenario.offsets[-1], 3.0)):
        np.testing.assert_allclose(over_all_logs(scenario, guess)[0], truth, **EXACT)


@pytest.mark.parametrize("scenario", ONE_QUERY)
def test_variance_is_that_over_all_logs_if_the_guess_is_right(scenario: Scenario) -> None:
    _, variance, estimated = over_all_logs(scenario, scenario.flat_relevance)
    assert variance > 1e-3
    np.testing.assert_allclose(estimated, variance, **EXACT)


def test_variance_is_not_too_small_if_the_guess_is_wrong_and_one_document_is_shown() -> None:
    for scenario in TWO_QUERIES.values():
        # Of the logs in which each query came as often as in this one: the estimate is conditional on that.
        guess = 1.0 - scenario.flat_relevance
        difference = difference_for(scenario)
        same = [
            (chance, HeldOutClicks.measure(log, scenario.bias, guess))
            for chance, log in every_log(scenario)
            if [tuple(p.impressions_by_query) for p in log.policies.values()] == [(1, 0), (1, 1)]
        ]
        chances = np.array([chance for chance, _ in same]) / sum(chance for chance, _ in same)
        values = np.array([clicks.gain(difference).value for _, clicks in same])
        estimates = np.array([clicks.observed_variance(difference) for _, clicks in same])
        variance = chances @ (values - chances @ values) ** 2
        assert chances @ estimates >= variance - 1e-10


def simulated(
    seed: int, impressions: int = 3_000, queries: int = 60
) -> tuple[Statistics, Bias, np.ndarray, np.ndarray, np.ndarray]:
    """A log of a soft policy, the relevance, and what two other policies expect to show."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 8 * queries + 1, 8)
    relevance, scores = rng.random(offsets[-1]), rng.normal(size=offsets[-1])
    paper = users("paper@5")
    bias = bias_of(paper)
    counts = gather(scores, offsets, relevance, paper, impressions, rng)
    statistics = Statistics.of_policy(
        "a",
        offsets,
        Exposure.of_scores(scores, offsets, bias),
        impressions_by_query=counts.impressions_by_query,
        displays_by_position=counts.displays_by_position,
        clicks_by_position=counts.clicks_by_position,
    )
    old, new = (
        expected_rank_weights(scores + extra, offsets, dcg(5))
        for extra in (0.0, rng.normal(size=offsets[-1]))
    )
    return statistics, bias, relevance, old, new


def z_scores(calibrated: bool, guess_error: float) -> np.ndarray:
    found = []
    for seed in range(300):
        statistics, bias, relevance, old, new = simulated(seed, impressions=800, queries=40)
        guess = relevance + guess_error * np.random.default_rng(seed).normal(size=len(relevance))
        clicks = HeldOutClicks.measure(statistics, bias, guess)
        gain = calibrated_gain(clicks, new, old) if calibrated else clicks.gain(new - old)
        truth = (clicks.impressions_of * relevance) @ (new - old) / clicks.total
        found.append((gain.value - truth) / gain.click_error)
    return np.array(found)


@pytest.mark.parametrize("calibrated", [False, True])
def test_errors_are_as_large_as_the_standard_error_says(calibrated: bool) -> None:
    """300 z-scores: their variance is within 1 ± 0.3 and their mean within ± 0.25.

    For normal z-scores the variance of 300 has a standard error of 0.082 and the mean one of 0.058: each
    bound is exceeded with a probability below 3e-4.
    """
    z = z_scores(calibrated, guess_error=0.0)
    assert abs(z.mean()) < 0.25
    assert 0.7 < z.var() < 1.3


def test_noise_that_documents_did_not_show_is_expected_all_the_same() -> None:
    """The first document is hardly ever shown, and was not: no click made noise, but the error is large."""
    log = Statistics.of_policy(
        "a",
        [0, 1, 2],
        Exposure([0.001, 0.5], [0.0, 0.0], [0.001, 0.5]),
        impressions_by_query=[100, 100],
        displays_by_position=[[0], [100]],
        clicks_by_position=[[0], [30]],
    )
    bias = Bias(alpha=[0.5], beta=[0.0], examination=[0.5])
    gain = HeldOutClicks.measure(log, bias, np.array([0.5, 0.6])).gain(np.array([1.0, 0.0]))
    assert gain.observed_error == 0.0
    # √(N ᾱ v) / ᾱ / T with v = Σ squared residuals / Σ α = (30 · 0.7² + 70 · 0.3²) / 50
    assert gain.click_error == pytest.approx(np.sqrt(100 / 0.001 * (30 * 0.49 + 70 * 0.09) / 50) / 200)


def test_capping_never_raises_the_expected_gain_and_lowers_the_noise() -> None:
    statistics, bias, relevance, old, new = simulated(0)
    clicks = HeldOutClicks.measure(statistics, bias, relevance)
    difference = new - old
    capped = clicks.capped(difference, caution=3.0)
    assert (capped <= difference).all()
    np.testing.assert_array_equal(capped[difference < 0.0], difference[difference < 0.0])
    before, after = clicks.gain(difference), clicks.gain(capped)
    assert after.by_guess - 3.0 * after.click_error >= before.by_guess - 3.0 * before.click_error


def test_documents_that_were_never_exposed_make_the_error_infinite() -> None:
    log = log_of_one_document("a", (0.0, 0.0, 0.0), impressions=5, displays=0, clicks=0)
    clicks = HeldOutClicks.measure(log, Bias(alpha=[0.5], beta=[0.1], examination=[1.0]), np.array([0.5]))
    assert clicks.gain(np.array([0.1])).click_error == np.inf
    assert clicks.gain(np.array([0.0])).value == 0.0


def test_queries_that_never_came_say_nothing() -> None:
    statistics, bias, relevance, old, new = simulated(1, impressions=20, queries=60)
    assert (statistics.impressions_by_query == 0).any()
    came = np.flatnonzero(statistics.impressions_by_query)
    documents = np.repeat(statistics.impressions_by_query > 0, np.diff(statistics.offsets))
    whole = HeldOutClicks.measure(statistics, bias, relevance)
    part = HeldOutClicks.measure(statistics.select(came), bias, relevance[documents])
    for name in ("value", "click_error", "observed_error", "query_error"):
        expected = getattr(part.gain((new - old)[documents]), name)
        assert getattr(whole.gain(new - old), name) == pytest.approx(expected, rel=1e-12)
        expected = getattr(calibrated_gain(part, new[documents], old[documents]), name)
        assert getattr(calibrated_gain(whole, new, old), name) == pytest.approx(expected, rel=1e-9)


def test_calibration_corrects_a_guess_that_favours_the_new_policy() -> None:
    """The guess is off in the direction of what was learned: it promises a gain that is not there."""
    statistics, bias, relevance, old, new = simulated(2, impressions=200_000)
    promised = relevance + 2.0 * (new - old)
    clicks = HeldOutClicks.measure(statistics, bias, promised)
    truth = (clicks.impressions_of * relevance) @ (new - old) / clicks.total
    gain = calibrated_gain(clicks, new, old)
    assert gain.by_guess > truth + 20.0 * gain.error
    assert abs(gain.value - truth) < 5.0 * gain.error  # exceeded with probability 6e-7


def test_calibration_is_unbiased_if_errors_of_the_guess_are_linear_in_what_policies_show() -> None:
    """Over all clicks on two queries of three documents, each shown once or twice at its rank."""
    bias = Bias(alpha=[0.6, 0.5, 0.4], beta=[0.3, 0.2, 0.1], examination=[1.0, 0.8, 0.6])
    old, new = np.array([0.9, 0.5, 0.1, 0.7, 0.2, 0.6]), np.array([0.2, 0.6, 0.7, 0.3, 0.8, 0.4])
    relevance = np.array([0.7, 0.3, 0.5, 0.2, 0.6, 0.4])
    level = np.repeat([0.1, -0.2], 3)  # one error per query, which no order of documents depends on
    guess = (relevance - level - 0.1 * old + 0.3 * new) / 1.2
    displays = np.tile(np.diag([2, 1, 1]), (2, 1))
    exposure = Exposure(*np.full((3, 6), 0.5))
    outcomes = [range(int(n) + 1) for n in displays.sum(axis=1)]
    chance = bias.alpha[[0, 1, 2] * 2] * relevance + bias.beta[[0, 1, 2] * 2]
    expected = 0.0
    for clicked in product(*outcomes):
        n, c = displays.sum(axis=1), np.array(clicked)
        probability = np.prod(comb(n, c) * chance**c * (1 - chance) ** (n - c))
        log = Statistics.of_policy(
            "a",
            [0, 3, 6],
            exposure,
            impressions_by_query=[3, 5],
            displays_by_position=displays,
            clicks_by_position=np.tile(np.eye(3, dtype=int), (2, 1)) * c[:, None],
        )
        expected += probability * calibrated_gain(HeldOutClicks.measure(log, bias, guess), new, old).value
    counts = np.repeat([3, 5], 3)
    truth = (counts * relevance) @ (new - old) / 8
    by_guess = (counts * guess) @ (new - old) / 8
    assert abs(by_guess - truth) > 0.01
    assert expected == pytest.approx(truth, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_a_guess_that_is_the_same_for_all_documents_is_no_column_of_its_own(scale: float) -> None:
    """All that is left of it after centring are rounding errors, which must not count as information."""
    statistics, bias, relevance, old, new = simulated(3, impressions=20_000)
    constant, other = (
        calibrated_gain(HeldOutClicks.measure(statistics, bias, guess), new, old)
        for guess in (np.full(len(relevance), scale / 3.0), np.full(len(relevance), 0.5))
    )
    assert constant.value == pytest.approx(other.value, abs=1e-9)
    assert constant.error < 0.05


def test_without_a_difference_in_what_was_shown_nothing_can_be_calibrated() -> None:
    log = log_of_one_document("a", (0.5, 0.0, 0.5), impressions=5, displays=3, clicks=1)
    clicks = HeldOutClicks.measure(log, Bias(alpha=[0.5], beta=[0.1], examination=[1.0]), np.array([0.5]))
    assert calibrated_gain(clicks, np.array([0.4]), np.array([0.3])).error == np.inf


def test_combined_gains_are_weighted() -> None:
    parts = [Gain(1.0, 0.1, 0.1, 0.2, 0.5), Gain(4.0, 0.3, 0.3, 0.3, 0.2)]
    both = combine(parts, [2.0, 1.0])
    assert both.value == pytest.approx(2.0)
    assert both.by_guess == pytest.approx((2 * 0.5 + 0.2) / 3)
    assert both.click_error == pytest.approx(np.hypot(2 * 0.1, 0.3) / 3)


@pytest.mark.parametrize("guess", [np.zeros(2), np.array([np.nan])])
def test_guess_must_fit(guess: np.ndarray) -> None:
    log = log_of_one_document("a", (0.5, 0.0, 0.5), impressions=5, displays=3, clicks=1)
    with pytest.raises(DataError, match="1 documents need as many finite guesses"):
        HeldOutClicks.measure(log, Bias(alpha=[0.5], beta=[0.1], examination=[1.0]), guess)
