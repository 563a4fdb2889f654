"""Policies within periods: what changes between the periods favours neither; users make intervals wider."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.statistics import Counts, Exposure, Statistics
from rankloop.types import Bias, Float64
from rankloop.value.uncertainty import (
    CONTRASTS,
    BiasSpread,
    Moments,
    PeriodValues,
    QueryValues,
    UnitSums,
)
from rankloop.value.valuation import LoggedMetric, PolicyRanking, SupportBounds, Valuation

BIAS = Bias(alpha=[0.8, 0.4], beta=[0.0, 0.0], examination=[1.0, 0.5])
OFFSETS = np.array([0, 2])
METRIC = LoggedMetric.of("dcg@2", BIAS)


def ranking(first: int) -> PolicyRanking:
    """A policy that puts one of two documents first."""
    assert METRIC.discounts is not None
    placed = METRIC.discounts[[0, 1] if first == 0 else [1, 0]][:, None]
    return PolicyRanking(f"{first} first", "sorted", placed, np.zeros((1, 1)), np.ones(1, bool))


def shown(policy: str, first: int, demand: float) -> Statistics:
    """The expected counts of 100 impressions; a policy puts a document first in 80 of them.

    Both documents are clicked with probability 0.5 · α · demand.
    """
    displays = np.array([[80, 20], [20, 80]])[[0, 1] if first == 0 else [1, 0]]
    clicks = np.round(displays * BIAS.alpha * 0.5 * demand).astype(np.int64)
    exposure = Exposure(displays @ BIAS.alpha / 100, np.zeros(2), displays @ BIAS.examination / 100)
    return Statistics.of_policy(
        policy,
        OFFSETS,
        exposure,
        impressions_by_query=[100],
        displays_by_position=displays,
        clicks_by_position=clicks,
    )


def difference(*parts: Statistics) -> float:
    """The document that the later policy preferred first, against the other one first."""
    values = [
        QueryValues.of(Valuation(part, BIAS, METRIC, (ranking(1), ranking(0)), support=0.0)) for part in parts
    ]
    return float(PeriodValues(tuple(values)).values[-1])


def test_demand_that_changes_with_the_policy_favours_it_only_if_clicks_are_pooled() -> None:
    """The estimate is linear in counts, so that of expected counts is its expectation."""
    early, late = shown("a", 0, 1.0), shown("b", 1, 1.5)
    gap = 1.0 - 1.0 / np.log2(3.0)
    # Clicks over expected α: 36 + 36 of 120 for the one, 24 + 54 for the other.
    assert difference(early + late) == pytest.approx((78 / 120 - 72 / 120) * gap)
    assert difference(early, late) == pytest.approx(0.0, abs=1e-12)
    assert difference(early + shown("b", 1, 1.0)) == pytest.approx(0.0, abs=1e-12)


def values_of(table: Float64, times: Float64) -> QueryValues:
    return QueryValues(times.astype(np.int64), table, np.zeros_like(table))


def nothing(queries: int) -> Moments:
    return Moments.of_table(np.zeros((queries, len(Moments.COLUMNS))))


def test_periods_count_by_their_precision() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 400, 2)) * np.array([1.0, 3.0])[:, None, None]
    parts = tuple(values_of(part, np.ones(400)) for part in noise)
    both = PeriodValues(parts)
    variances = np.array([part.query_variances[-1] for part in parts])
    assert both.weights == pytest.approx((1 / variances) / (1 / variances).sum())
    assert both.values == pytest.approx(both.weights @ np.stack([part.values for part in parts]))
    # Periods of independent queries: 1 / Σ 1/variance.
    assert both.query_variances[-1] == pytest.approx(1.0 / (1 / variances).sum(), rel=0.2)


def test_queries_are_the_same_in_all_periods() -> None:
    """What queries differ in does not average out over periods: the interval is that of one period."""
    rng = np.random.default_rng(1)
    worth = rng.normal(size=(500, 2))
    one = PeriodValues((values_of(worth, np.ones(500)),))
    two = PeriodValues((values_of(worth, np.ones(500)), values_of(worth, np.ones(500))))
    widths = []
    for values in (one, two):
        count = len(values.parts)
        *_, gain = values.intervals([nothing(500)] * count, np.random.default_rng(0))
        widths.append(gain.high - gain.low)
    assert widths[1] == pytest.approx(widths[0])


def test_a_period_whose_queries_are_not_drawn_has_no_weight() -> None:
    times = np.zeros(30)
    times[0] = 1.0
    rare, usual = (
        values_of(np.ones((30, 2)) * times[:, None], times),
        values_of(np.ones((30, 2)), np.ones(30)),
    )
    drawn = PeriodValues((usual, rare)).resampled(np.random.default_rng(0))
    np.testing.assert_allclose(drawn, [[1.0, 1.0, 0.0]] * len(drawn))


def test_users_widen_the_interval_by_what_their_impressions_share() -> None:
    """100 users with 10 impressions each, which are all alike: as much as 100 impressions."""
    rng = np.random.default_rng(2)
    of_user = rng.normal(size=(100, 2))
    x = np.repeat(of_user, 10, axis=0)
    query = rng.permutation(np.repeat(np.arange(50), 20))
    sums = np.stack([np.bincount(query, column) for column in x.T], axis=1)
    squares = np.stack([np.bincount(query, column**2) for column in x.T], axis=1)
    product = np.bincount(query, x[:, 0] * x[:, 1])
    moments = Moments(squares, product, squares, squares)
    values = PeriodValues((values_of(sums, np.full(50, 20)),))
    units = UnitSums(10 * of_user, np.full(100, 10.0))
    expected = np.var(of_user @ CONTRASTS.T, axis=0, ddof=1) / 100
    assert values.unit_variances([units]) == pytest.approx(expected)
    alone = values.intervals([moments], np.random.default_rng(0))
    with_users = values.intervals([moments], np.random.default_rng(0), None, [units])
    for before, after, variance, by_query in zip(
        alone, with_users, expected, values.query_variances, strict=True
    ):
        assert after.value == before.value
        assert after.error == pytest.approx(np.sqrt(variance))
        wider = np.sqrt(1.0 + (variance - before.error**2) / by_query)
        assert after.high - after.low == pytest.approx(wider * (before.high - before.low))


def test_users_with_one_impression_each_change_nothing() -> None:
    rng = np.random.default_rng(3)
    x, query = rng.normal(size=(2_000, 2)), np.repeat(np.arange(100), 20)
    sums = np.stack([np.bincount(query, column) for column in x.T], axis=1)
    squares = np.stack([np.bincount(query, column**2) for column in x.T], axis=1)
    moments = Moments(squares, np.bincount(query, x[:, 0] * x[:, 1]), squares, squares)
    values = PeriodValues((values_of(sums, np.full(100, 20)),))
    alone, with_users = (
        values.intervals([moments], np.random.default_rng(0), BiasSpread(np.ones(3), np.zeros(3)), units)
        for units in (None, [UnitSums(x, np.ones(2_000))])
    )
    for before, after in zip(alone, with_users, strict=True):
        assert after == pytest.approx(before, abs=1e-9)


def test_bounds_of_periods_are_weighted() -> None:
    one = SupportBounds(np.array([0.1, 0.2]), np.array([-1.0, 0.0]), np.ones(2), -0.3, 0.4)
    other = SupportBounds(np.zeros(2), np.zeros(2), np.zeros(2), 0.0, 0.0)
    mean = SupportBounds.mean([one, other], np.array([0.25, 0.75]))
    assert mean.shares == pytest.approx([0.025, 0.05])
    assert (mean.worst, mean.best) == pytest.approx((-0.075, 0.1))


def test_counts_of_policies_are_a_part_of_the_whole() -> None:
    counts = Counts.of_arrays(
        OFFSETS,
        {name: (np.array([2]), np.array([[2, 0], [0, 2]]), np.array([[1, 0], [0, 0]])) for name in "ab"},
    )
    part = counts.of_policies(("b",))
    assert part.policy_ids == ("b",)
    assert part.impressions == 2
    assert (part.displays_of(0) == counts.displays_of(1)).all()
