"""Two policies on a log: what is not supported, what it can do to an estimate, and users of another bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.relevance import mean_relevance
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, Lines
from rankloop.value.contribution import Contribution
from rankloop.value.valuation import SUPPORT_SCALE, LoggedMetric, Valuation
from tests.value.brute import shown

BIAS = Bias(alpha=np.array([0.5]), beta=np.array([0.2]), examination=np.array([1.0]))
DCG = LoggedMetric.of("dcg@1", BIAS)


def two_policies() -> Statistics:
    # Two queries of two documents; the second query came under the second policy alone.
    parts = (
        ("first", [[3], [1], [0], [0]], [[2], [0], [0], [0]], [0.375, 0.125, 0.4, 0.1], [4, 0]),
        ("second", [[0], [4], [8], [0]], [[0], [3], [4], [0]], [0.0, 0.5, 0.5, 0.0], [4, 8]),
    )
    total = Statistics.empty([0, 2, 4], 1)
    for name, displays, clicks, alpha, came in parts:
        exposure = Exposure(np.array(alpha), np.array(alpha) * 0.4, np.array(alpha) * 2)
        total = total + Statistics.of_policy(
            name,
            [0, 2, 4],
            exposure,
            impressions_by_query=came,
            displays_by_position=displays,
            clicks_by_position=clicks,
        )
    return total


def test_expected_alpha_is_averaged_over_the_impressions_of_the_query() -> None:
    policies = shown(np.ones(4), 2), shown(np.zeros(4), 2)
    valuation = Valuation(two_policies(), BIAS, DCG, policies, Valuation.usual_support(16))
    contribution = valuation.contribution
    np.testing.assert_allclose(contribution.alpha, [0.375 / 2, (0.125 + 0.5) / 2, 0.5, 0.0])
    assert valuation.support == pytest.approx(SUPPORT_SCALE / np.sqrt(16))
    assert valuation.mean == pytest.approx((9 - 16 * 0.2) / (16 * 0.5))
    assert contribution.supported.tolist() == [True, True, True, False]


def with_alpha(alpha: list[float], came: list[int], mean: float, **options: object) -> Valuation:
    """A valuation whose documents have these expected α, and a mean relevance."""
    statistics = two_policies()
    policies = options.pop("policies")
    valuation = Valuation(statistics, BIAS, DCG, policies, **options)  # type: ignore[arg-type]
    contribution = Contribution(
        statistics.offsets,
        np.array(came),
        np.array(alpha),
        np.full(4, mean),
        np.zeros(4),
        support=valuation.support,
    )
    vars(valuation).update(contribution=contribution, mean=mean)
    return valuation


def test_what_is_not_supported_is_average_and_may_be_anything() -> None:
    new = shown([1.0, 0.5, 0.6, 0.0], 2, elsewhere=[0.0, 0.4])
    old = shown([0.5, 1.0, 0.0, 0.6], 2, elsewhere=[0.2, 0.0])
    valuation = with_alpha([0.4, 0.0, 0.1, 0.3], [3, 1], 0.25, support=0.2, policies=(new, old))
    np.testing.assert_allclose(valuation.before, [[0.25 * 1.5, 0.25 * 1.7], [0.25 * 1.0, 0.25 * 0.6]])
    np.testing.assert_allclose(
        valuation.contribution.factors(valuation.lambdas), [[2.5, 1.25], [0, 0], [0, 0], [0, 2.0]]
    )
    unseen = valuation.bounds()
    outside = np.array([0.75 * 0.5 + 0.25 * 0.6 + 0.25 * 0.4, 0.75 * 1.0 + 0.75 * 0.2])
    total = np.array([0.75 * 1.5 + 0.25 * 1.0, 0.75 * 1.7 + 0.25 * 0.6])
    np.testing.assert_allclose(unseen.shares, outside / total)
    np.testing.assert_allclose(unseen.nothing, -0.25 * outside)
    np.testing.assert_allclose(unseen.everything, 0.75 * outside)
    # The first query's second document is the old policy's by 0.5; the others are the new one's, and each
    # has documents elsewhere.
    more, less = 0.25 * 0.6 + 0.25 * 0.4, 0.75 * 0.5 + 0.75 * 0.2
    assert unseen.worst == pytest.approx(-0.25 * more - 0.75 * less)
    assert unseen.best == pytest.approx(0.75 * more + 0.25 * less)


def test_bounds_are_those_of_every_relevance() -> None:
    """With every combination of relevances 0 and 1 tried out."""
    rng = np.random.default_rng(0)
    new, old = shown(rng.random(4), 2), shown(rng.random(4), 2)
    valuation = with_alpha([0.0] * 4, [1, 4], 0.3, support=0.0, policies=(new, old))
    unseen = valuation.bounds()
    delta = np.repeat([0.2, 0.8], 2) * (new.placed - old.placed)[:, 0]
    changes = [float(delta @ (np.array(relevance) - 0.3)) for relevance in np.ndindex(2, 2, 2, 2)]
    assert (unseen.worst, unseen.best) == pytest.approx((min(changes), max(changes)))


def test_mean_relevance_of_nothing_is_nothing() -> None:
    assert mean_relevance(Statistics.empty([0, 2], 1).totals_by_position(), BIAS) == 0.0


def test_users_of_the_same_bias_give_the_same_values() -> None:
    policies = shown([1.0, 0.5, 0.6, 0.1], 2), shown([0.5, 1.0, 0.3, 0.2], 2)
    valuation = Valuation(two_policies(), BIAS, DCG, policies, 0.0)
    shares = valuation.contribution.alpha[:, None] / BIAS.alpha
    again = valuation.by_query_with(Lines(BIAS.alpha, BIAS.beta), shares, np.ones(2))
    np.testing.assert_allclose(again, valuation.by_query)
    # If users are twice as eager, relevance is half of it: the same clicks follow from it.
    eager = valuation.by_query_with(Lines(2 * BIAS.alpha, BIAS.beta), shares, np.ones(2))
    np.testing.assert_allclose(eager, valuation.by_query / 2)


def test_clicks_do_not_depend_on_the_scale_of_relevance() -> None:
    """The metric `clicks` is in the units of the log: half the relevance and twice the α give the same."""
    clicks = LoggedMetric.of("clicks", BIAS)
    policies = shown([1.0, 0.5, 0.6, 0.1], 2), shown([0.5, 1.0, 0.3, 0.2], 2)
    valuation = Valuation(two_policies(), BIAS, clicks, policies, 0.0)
    shares = valuation.contribution.alpha[:, None] / BIAS.alpha
    for scale in (0.5, 2.0):
        other = valuation.by_query_with(Lines(scale * BIAS.alpha, BIAS.beta), shares, np.ones(2))
        np.testing.assert_allclose(other, valuation.by_query)


def test_policies_that_differ_by_rounding_rank_alike() -> None:
    first = shown([1.0, 0.5, 0.6, 0.1], 2)
    valuation = Valuation(two_policies(), BIAS, DCG, (first, first), 0.0)
    assert valuation.alike(1e-6)
    nudged = replace(first, placed=first.placed + 1e-9)
    assert replace(valuation, policies=(first, nudged)).alike(1e-6)
    assert not replace(valuation, policies=(first, replace(first, placed=first.placed + 1e-3))).alike(1e-6)
    strangers = replace(first, elsewhere=np.full((2, 1), 0.1))
    assert not replace(valuation, policies=(strangers, strangers)).alike(1e-6)
