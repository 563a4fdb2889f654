"""Estimates over impressions: unbiased, with the variance that they have, in worlds small enough to list."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from rankloop.offline.bias_resamples import BiasSpread
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.impression_sums import ImpressionSums
from rankloop.offline.intervals import AGAINST, DIFFERENCE, NEW, QUANTILE, ImpressionSample
from rankloop.ragged import segment_sum
from tests.estimators.scenarios import (
    CHANGING,
    EXACT,
    TWO_QUERIES,
    Period,
    Scenario,
    every_log,
    plackett_luce,
    trust,
)
from tests.offline.brute import shown, sums_of

# Right for no item of any world.
GUESS = 0.4
CONTRASTS = {"new": NEW, "against": AGAINST, "difference": DIFFERENCE}

# Two queries of three items, of which two are shown; both policies of a comparison show each item otherwise.
ONE_POLICY = Scenario(
    trust(2),
    ((0.25, 1.0, 0.5), (0.0, 0.75, 1.0)),
    (
        Period(
            (plackett_luce([0.5, 0.0, -1.0], 2), plackett_luce([0.0, 1.0, 0.3], 2)),
            timesteps=2,
            query_chances=(0.7, 0.3),
        ),
    ),
)
TWO_POLICIES = Scenario(
    ONE_POLICY.bias,
    ONE_POLICY.relevance,
    (
        Period(ONE_POLICY.periods[0].policy, 1, (0.7, 0.3)),
        Period(
            (plackett_luce([-1.0, 0.5, 1.0], 2), plackett_luce([1.0, 0.0, -0.5], 2)),
            timesteps=1,
            query_chances=(0.7, 0.3),
        ),
    ),
)
LAMBDAS = (np.array([1.0, 0.0, 0.6, 0.0, 0.6, 1.0]), np.array([0.3, 0.7, 0.5, 0.9, 0.4, 0.2]))


@pytest.mark.parametrize("by_item", [False, True], ids=["one guess", "a guess per item"])
@pytest.mark.parametrize("worlds", [CHANGING, TWO_QUERIES], ids=["changing", "arrivals"])
def test_the_estimate_is_unbiased_whatever_the_guess(worlds: dict[str, Scenario], *, by_item: bool) -> None:
    """Over every arrival, ranking and click: E[V̂] = Σ_q P(q) Σ_d λ_d R_d, policies changing on the way.

    The guesses are wrong on purpose: the more relevant a document is, the less relevant it is guessed to be,
    and some guesses are not even probabilities.
    """
    world = worlds["trust"]
    rng = np.random.default_rng(0)
    guesses = 1.3 - 2.0 * world.flat_relevance if by_item else None
    n_queries = len(world.relevance)
    policies = (
        shown(rng.uniform(size=world.offsets[-1]), n_queries, always=0.25),
        shown(rng.uniform(size=world.offsets[-1]), n_queries),
    )
    chances = np.array(world.periods[0].query_chances)
    total = np.zeros(2)
    for probability, statistics in every_log(world):
        used = statistics.query_counts > 0
        variate = replace(
            ControlVariate.of(statistics, world.bias, used, support=0.0), guess=GUESS, item_guesses=guesses
        )
        shown_at = statistics.displays_by_rank
        unexplained = (
            statistics.clicks - (shown_at @ world.bias.alpha) * variate.relevance - shown_at @ world.bias.beta
        )
        first = segment_sum(variate.factors(policies) * unexplained[:, None], statistics.offsets)
        nothing = np.zeros((n_queries, 2))
        sums = ImpressionSums(first, nothing, nothing[:, 0], nothing, nothing)
        impressions = ImpressionSample(statistics.query_counts, variate.before(policies), sums)
        total += probability * np.array([impressions.value(NEW), impressions.value(AGAINST)])
    by_query = [
        segment_sum(policy.weights * world.flat_relevance, world.offsets) + policy.always
        for policy in policies
    ]
    np.testing.assert_allclose(total, [chances @ values for values in by_query], **EXACT)


def every_estimate(world: Scenario) -> list[tuple[float, ImpressionSample]]:
    """What every log of a world gives, with its chance; exposures are those of the whole world."""
    chances = np.array(world.periods[0].query_chances)
    alpha = sum(period.timesteps / world.timesteps * world.exposure(period).alpha for period in world.periods)
    variate = ControlVariate(GUESS, np.asarray(alpha), 0.0, chances, world.offsets)
    policies = (shown(LAMBDAS[0], 2), shown(LAMBDAS[1], 2))
    factors, before = variate.factors(policies), variate.before(policies)
    steps = [list(world.impressions(period)) for period in world.periods for _ in range(period.timesteps)]
    result = []
    for logged in product(*steps):
        probability = float(np.prod([p for p, _ in logged]))
        happened = [impression for _, impression in logged]
        sums = sums_of(happened, world.offsets, factors, world.bias, variate.relevance)
        times = np.bincount([query for query, _, _ in happened], minlength=2)
        result.append((probability, ImpressionSample(times, before, sums)))
    assert sum(p for p, _ in result) == pytest.approx(1.0)
    return result


def moments(world: Scenario, contrast: tuple[float, float]) -> tuple[float, float, float]:
    """The mean and the variance of the estimate over every log, and the mean of its squared error."""
    logs = every_estimate(world)
    p = np.array([chance for chance, _ in logs])
    values = np.array([log.value(contrast) for _, log in logs])
    squares = np.array([log.error(contrast) ** 2 for _, log in logs])
    mean = float(p @ values)
    return mean, float(p @ (values - mean) ** 2), float(p @ squares)


@pytest.mark.parametrize("contrast", CONTRASTS.values(), ids=CONTRASTS)
def test_the_squared_error_is_the_variance(contrast: tuple[float, float]) -> None:
    """With one policy impressions are alike and independent: on average the squared error is exact."""
    mean, variance, squared_error = moments(ONE_POLICY, contrast)
    lambdas = np.stack(LAMBDAS, axis=1) @ np.array(contrast)
    truth = np.array([0.7, 0.3]) @ segment_sum(lambdas * ONE_POLICY.flat_relevance, ONE_POLICY.offsets)
    assert mean == pytest.approx(truth, abs=1e-10)
    assert squared_error == pytest.approx(variance, rel=1e-10)
    assert variance > 0.01


@pytest.mark.parametrize("contrast", CONTRASTS.values(), ids=CONTRASTS)
def test_with_several_policies_the_squared_error_is_not_below_the_variance(
    contrast: tuple[float, float],
) -> None:
    """That policies differ in what they show counts as chance, which it is not: a little too large."""
    _, variance, squared_error = moments(TWO_POLICIES, contrast)
    assert variance < squared_error < 1.2 * variance


def two_queries(times: tuple[int, int] = (3, 1)) -> ImpressionSample:
    sums = ImpressionSums(
        first=np.array([[0.6, 0.3], [-0.2, 0.0]]),
        squares=np.array([[0.5, 0.2], [0.04, 0.0]]),
        product=np.array([0.1, 0.0]),
        importance=np.array([[3.0, 3.0], [1.0, 0.5]]),
        importance_squares=np.array([[4.0, 3.0], [1.0, 0.25]]),
    )
    return ImpressionSample(np.array(times), np.array([[1.0, 0.5], [2.0, 0.5]]), sums)


def test_an_interval_by_hand() -> None:
    impressions = two_queries()
    mean = (3 * 1.0 + 0.6 + 2.0 - 0.2) / 4
    squares = (3 * (1.0 - mean) ** 2 + 2 * (1.0 - mean) * 0.6 + 0.5) + (
        (2.0 - mean) ** 2 + 2 * (2.0 - mean) * -0.2 + 0.04
    )
    new, _, _ = impressions.intervals(np.random.default_rng(0))
    assert new.value == pytest.approx(mean)
    assert new.error == pytest.approx(np.sqrt(squares / 3 / 4))
    assert (new.same_low, new.same_high) == pytest.approx(
        (mean - QUANTILE * new.error, mean + QUANTILE * new.error)
    )
    assert pytest.approx(1.6449, abs=1e-4) == QUANTILE
    # Of two queries the one or the other, or both, are drawn; so few queries need a wide interval.
    drawn = np.array([3.6 / 3, 1.8])
    assert impressions.widening == pytest.approx(np.sqrt(2) * 6.3138 / QUANTILE, rel=1e-4)
    assert (new.low, new.high) == pytest.approx(tuple(mean + impressions.widening * (drawn - mean)))


def test_many_queries_need_no_wider_interval() -> None:
    nothing = np.zeros((5_000, 2))
    sums = ImpressionSums(nothing, nothing, nothing[:, 0], nothing, nothing)
    assert ImpressionSample(np.full(5_000, 3), nothing, sums).widening == pytest.approx(1.0, abs=1e-3)


def test_an_uncertain_bias_widens_both_intervals() -> None:
    """The uncertainty of the bias was left out, and only a note said so."""
    impressions = two_queries()
    given = impressions.intervals(np.random.default_rng(0))
    spread = BiasSpread(np.array([1.5, 1.0, 2.0]), np.array([0.3, 0.0, 0.4]))
    found = impressions.intervals(np.random.default_rng(0), spread)
    for before, after, stretch, deviation in zip(given, found, *spread, strict=True):
        assert after.value == before.value
        assert after.high - after.low == pytest.approx(stretch * (before.high - before.low))
        assert after.error == pytest.approx(np.hypot(before.error, deviation))


def test_effective_impressions_by_hand() -> None:
    assert two_queries().effective() == pytest.approx(((3.0 + 1.0) ** 2 / 5.0, 3.5**2 / 3.25))


def test_the_same_policy_twice_has_no_difference() -> None:
    column = np.array([[0.3], [0.1]]).repeat(2, axis=1)
    sums = ImpressionSums(column, column, column[:, 0], column, column)
    impressions = ImpressionSample(np.array([2, 2]), column, sums)
    *_, difference = impressions.intervals(np.random.default_rng(0))
    assert difference == (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_resampling_widens_with_what_queries_differ_in() -> None:
    """1,000 queries that came 10 times each, worth 0 or 1 each without noise: an error of √(1/4 / 1000)."""
    worth = np.arange(1_000) % 2.0
    before, nothing = np.stack([worth, worth], axis=1), np.zeros((1_000, 2))
    sums = ImpressionSums(nothing, nothing, nothing[:, 0], nothing, nothing)
    impressions = ImpressionSample(np.full(1_000, 10), before, sums)
    new, *_ = impressions.intervals(np.random.default_rng(1))
    # 1,000 resamples know a quantile to 5 %: a false alarm is four deviations away.
    assert (new.high - new.low) / 2 == pytest.approx(QUANTILE * np.sqrt(0.25 / 1_000), rel=0.2)
    assert new.error == pytest.approx(np.sqrt(0.25 / 10_000), rel=1e-3)
