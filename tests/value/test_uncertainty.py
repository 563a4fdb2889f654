"""Estimates over impressions: unbiased, with the variance that they have, in worlds small enough to list."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rankloop.ragged import segment_sum
from rankloop.statistics.intervals import few_units_widening, normal_quantile
from rankloop.value.uncertainty import CONTRASTS, BiasSpread, Moments, PeriodValues, QueryValues
from tests.estimators.scenarios import Period, Scenario, plackett_luce, trust
from tests.value.brute import terms

# Right for no document of any world.
GUESS = 0.4

# Two queries of three documents, of which two are shown; both policies of a comparison show each document
# otherwise.
ONE_POLICY = Scenario(
    trust(2),
    ((0.25, 1.0, 0.5), (0.0, 0.75, 1.0)),
    (
        Period(
            (plackett_luce([0.5, 0.0, -1.0], 2), plackett_luce([0.0, 1.0, 0.3], 2)),
            impressions=2,
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
            impressions=1,
            query_chances=(0.7, 0.3),
        ),
    ),
)
LAMBDAS = (np.array([1.0, 0.0, 0.6, 0.0, 0.6, 1.0]), np.array([0.3, 0.7, 0.5, 0.9, 0.4, 0.2]))


def every_estimate(world: Scenario) -> list[tuple[float, QueryValues, Moments]]:
    """What every log of a world gives, with its chance; exposures are those of the whole world."""
    alpha = sum(
        period.impressions / world.impressions * world.exposure(period).alpha for period in world.periods
    )
    lambdas, guess = np.stack(LAMBDAS, axis=1), np.full(world.offsets[-1], GUESS)
    factors = lambdas / np.asarray(alpha)[:, None]
    before = segment_sum(lambdas * guess[:, None], world.offsets)
    steps = [
        list(world.possible_impressions(period))
        for period in world.periods
        for _ in range(period.impressions)
    ]
    result = []
    for logged in product(*steps):
        probability = float(np.prod([p for p, _ in logged]))
        sums, table, times = np.zeros((2, 2)), np.zeros((2, len(Moments.COLUMNS))), np.zeros(2, np.int64)
        for _, impression in logged:
            query, e, w = terms(impression, world.offsets, factors, world.bias, guess)
            sums[query] += before[query] + e
            table[query] += [*e**2, e[0] * e[1], *w, *w**2]
            times[query] += 1
        result.append((probability, QueryValues(times, sums, before), Moments.of_table(table)))
    assert sum(p for p, *_ in result) == pytest.approx(1.0)
    return result


def spreads(world: Scenario, contrast: int) -> tuple[float, float, float]:
    """The mean and the variance of the estimate over every log, and the mean of its squared error."""
    logs = every_estimate(world)
    p = np.array([chance for chance, *_ in logs])
    values = np.array([log.values[contrast] for _, log, _ in logs])
    squares = np.array([log.errors(moments)[contrast] ** 2 for _, log, moments in logs])
    mean = float(p @ values)
    return mean, float(p @ (values - mean) ** 2), float(p @ squares)


@pytest.mark.parametrize("contrast", [0, 1, 2], ids=["new", "against", "difference"])
def test_the_squared_error_is_the_variance(contrast: int) -> None:
    """With one policy impressions are alike and independent: on average the squared error is exact."""
    mean, variance, squared_error = spreads(ONE_POLICY, contrast)
    lambdas = np.stack(LAMBDAS, axis=1) @ CONTRASTS[contrast]
    truth = np.array([0.7, 0.3]) @ segment_sum(lambdas * ONE_POLICY.flat_relevance, ONE_POLICY.offsets)
    assert mean == pytest.approx(truth, abs=1e-10)
    assert squared_error == pytest.approx(variance, rel=1e-10)
    assert variance > 0.01


@pytest.mark.parametrize("contrast", [0, 1, 2], ids=["new", "against", "difference"])
def test_with_several_policies_the_squared_error_is_not_below_the_variance(
    contrast: int,
) -> None:
    """That policies differ in what they show counts as chance, which it is not: a little too large."""
    _, variance, squared_error = spreads(TWO_POLICIES, contrast)
    assert variance < squared_error < 1.2 * variance


MOMENTS = Moments(
    squares=np.array([[0.5, 0.2], [0.04, 0.0]]),
    product=np.array([0.1, 0.0]),
    importance=np.array([[3.0, 3.0], [1.0, 0.5]]),
    importance_squares=np.array([[4.0, 3.0], [1.0, 0.25]]),
)


def two_queries() -> QueryValues:
    times, before = np.array([3, 1]), np.array([[1.0, 0.5], [2.0, 0.5]])
    return QueryValues(times, times[:, None] * before + [[0.6, 0.3], [-0.2, 0.0]], before)


def nothing(queries: int) -> Moments:
    """Impressions that say nothing beyond their queries."""
    return Moments.of_table(np.zeros((queries, len(Moments.COLUMNS))))


def test_an_interval_by_hand() -> None:
    values = two_queries()
    mean = (3 * 1.0 + 0.6 + 2.0 - 0.2) / 4
    squares = (3 * (1.0 - mean) ** 2 + 2 * (1.0 - mean) * 0.6 + 0.5) + (
        (2.0 - mean) ** 2 + 2 * (2.0 - mean) * -0.2 + 0.04
    )
    new, _, _ = PeriodValues((values,)).intervals([MOMENTS], np.random.default_rng(0))
    assert new.value == pytest.approx(mean)
    assert new.error == pytest.approx(np.sqrt(squares / 3 / 4))
    assert (new.same_low, new.same_high) == pytest.approx(
        (mean - normal_quantile() * new.error, mean + normal_quantile() * new.error)
    )
    # Of two queries the one or the other, or both, are drawn; so few queries need a wide interval.
    drawn = np.array([3.6 / 3, 1.8])
    wider = few_units_widening(values.times)
    assert (new.low, new.high) == pytest.approx(tuple(mean + wider * (drawn - mean)))


def test_an_uncertain_bias_widens_both_intervals() -> None:
    values = two_queries()
    known = PeriodValues((values,)).intervals([MOMENTS], np.random.default_rng(0))
    spread = BiasSpread(np.array([1.5, 1.0, 2.0]), np.array([0.3, 0.0, 0.4]))
    uncertain = PeriodValues((values,)).intervals([MOMENTS], np.random.default_rng(0), spread)
    for before, after, stretch, deviation in zip(known, uncertain, *spread, strict=True):
        assert after.value == before.value
        assert after.high - after.low == pytest.approx(stretch * (before.high - before.low))
        assert after.error == pytest.approx(np.hypot(before.error, deviation))


def test_effective_impressions_by_hand() -> None:
    assert MOMENTS.effective() == pytest.approx(((3.0 + 1.0) ** 2 / 5.0, 3.5**2 / 3.25))


def test_the_same_policy_twice_has_no_difference() -> None:
    column = np.array([[0.3], [0.1]]).repeat(2, axis=1)
    moments = Moments(column, column[:, 0], column, column)
    values = QueryValues(np.array([2, 2]), 3 * column, column)
    *_, difference = PeriodValues((values,)).intervals([moments], np.random.default_rng(0))
    assert difference == (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_resampling_widens_with_what_queries_differ_in() -> None:
    """1,000 queries that came 10 times each, worth 0 or 1 each without noise: an error of √(1/4 / 1000)."""
    gained = np.arange(1_000) % 2.0
    before = np.stack([gained, gained], axis=1)
    values = QueryValues(np.full(1_000, 10), 10 * before, before)
    new, *_ = PeriodValues((values,)).intervals([nothing(1_000)], np.random.default_rng(1))
    # 1,000 resamples know a quantile to 5 %: a false alarm is four deviations away.
    assert (new.high - new.low) / 2 == pytest.approx(normal_quantile() * np.sqrt(0.25 / 1_000), rel=0.2)
    assert new.error == pytest.approx(np.sqrt(0.25 / 10_000), rel=1e-3)
