"""What a log says nothing of, and what that can do to an estimate."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators.intervention_aware import mean_relevance
from rankloop.offline.control_variate import SUPPORT_SCALE, ControlVariate
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias
from tests.offline.brute import shown

BIAS = Bias(alpha=np.array([0.5]), beta=np.array([0.2]), examination=np.array([1.0]))


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
            name, [0, 2, 4], exposure, query_counts=came, displays_by_rank=displays, clicks_by_rank=clicks
        )
    return total


def test_expected_alpha_is_averaged_over_the_impressions_of_the_query() -> None:
    variate = ControlVariate.of(two_policies(), BIAS, np.array([True, True]))
    np.testing.assert_allclose(variate.alpha, [0.375 / 2, (0.125 + 0.5) / 2, 0.5, 0.0])
    np.testing.assert_allclose(variate.frequencies, [0.5, 0.5])
    assert variate.support == pytest.approx(SUPPORT_SCALE / np.sqrt(16))
    assert variate.guess == pytest.approx((9 - 16 * 0.2) / (16 * 0.5))
    assert variate.supported.tolist() == [True, True, True, False]


def test_queries_that_are_not_used_count_for_nothing() -> None:
    statistics = two_policies()
    variate = ControlVariate.of(statistics, BIAS, np.array([False, True]), support=0.0)
    assert variate.frequencies.tolist() == [0.0, 1.0]
    assert variate.guess == mean_relevance(statistics.select([1]), BIAS)
    policies = shown(np.ones(4), 2), shown(np.ones(4), 2)
    np.testing.assert_allclose(variate.factors(policies)[:, 0], [0, 0, 1 / 0.5, 0])


def test_what_is_not_supported_is_average_and_may_be_anything() -> None:
    variate = ControlVariate(
        guess=0.25,
        alpha=np.array([0.4, 0.0, 0.1, 0.3]),
        support=0.2,
        frequencies=np.array([0.75, 0.25]),
        offsets=np.array([0, 2, 4]),
    )
    new = shown([1.0, 0.5, 0.6, 0.0], 2, elsewhere=[0.0, 0.4], always=[0.1, 0.2])
    old = shown([0.5, 1.0, 0.0, 0.6], 2, elsewhere=[0.2, 0.0])
    np.testing.assert_allclose(
        variate.before((new, old)), [[0.25 * 1.5 + 0.1, 0.25 * 1.7], [0.25 * 1.0 + 0.2, 0.25 * 0.6]]
    )
    np.testing.assert_allclose(variate.factors((new, old)), [[2.5, 1.25], [0, 0], [0, 0], [0, 2.0]])
    unseen = variate.bounds((new, old))
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
    guess, often = 0.3, np.array([0.2, 0.8])
    variate = ControlVariate(guess, np.zeros(4), 0.0, often, np.array([0, 2, 4]))
    new, old = shown(rng.random(4), 2), shown(rng.random(4), 2)
    unseen = variate.bounds((new, old))
    delta = np.repeat(often, 2) * (new.weights - old.weights)
    changes = [float(delta @ (np.array(relevance) - guess)) for relevance in np.ndindex(2, 2, 2, 2)]
    assert (unseen.worst, unseen.best) == pytest.approx((min(changes), max(changes)))


def test_mean_relevance_of_nothing_is_nothing() -> None:
    assert mean_relevance(Statistics.empty([0, 2], 1), BIAS) == 0.0
