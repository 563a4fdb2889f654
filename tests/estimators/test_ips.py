"""IPS: unbiased without trust and selection bias, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import IPS
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias
from tests.estimators.worlds import (
    ALL_SHOWN,
    EXACT,
    MEASURABLE,
    NOISE_CLICKED_IF_NOT,
    NOISE_CLICKED_IF_RELEVANT,
    SELECTION,
    expected_weights,
)

UNCLIPPED = IPS(clip="off")


def statistics() -> Statistics:
    return Statistics.of_policy(
        "a",
        [0, 2],
        Exposure(*np.ones((3, 2))),
        query_counts=[100],
        displays_by_rank=[[60, 40, 0], [40, 60, 0]],
        clicks_by_rank=[[30, 5, 0], [10, 3, 0]],
    )


def test_weights_by_hand() -> None:
    bias = Bias(alpha=[0.8, 0.25, 0.1], beta=np.zeros(3), examination=[0.8, 0.25, 0.1])
    expected = [(30 / 0.8 + 5 / 0.25) / 100, (10 / 0.8 + 3 / 0.25) / 100]
    np.testing.assert_allclose(UNCLIPPED.weights(statistics(), bias), expected)


def test_clipping_bounds_the_examination() -> None:
    bias = Bias(alpha=[0.8, 0.25, 0.1], beta=np.zeros(3), examination=[0.8, 0.25, 0.1])
    expected = [(30 / 0.8 + 5 / 0.5) / 100, (10 / 0.8 + 3 / 0.5) / 100]
    np.testing.assert_allclose(IPS(clip=0.5).weights(statistics(), bias), expected)
    # 10 / √100 = 1: as few as a hundred interactions are left as they are.
    np.testing.assert_allclose(IPS().weights(statistics(), bias), [35 / 100, 13 / 100])


def test_a_rank_that_nobody_examines_is_as_good_as_not_shown() -> None:
    bias = Bias(alpha=[0.5, 0.0, 0.0], beta=np.zeros(3), examination=[0.5, 0.0, 0.0])
    for estimator in (UNCLIPPED, IPS(clip=0.1)):
        np.testing.assert_allclose(estimator.weights(statistics(), bias), [30 / 0.5 / 100, 10 / 0.5 / 100])


def test_unbiased_with_position_bias_alone() -> None:
    world = ALL_SHOWN["position"]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), world.flat_relevance, **EXACT)


def test_noise_that_is_the_same_at_every_rank_scales_and_shifts_all_items_alike() -> None:
    world = ALL_SHOWN["noise"]
    slope = NOISE_CLICKED_IF_RELEVANT - NOISE_CLICKED_IF_NOT
    expected = NOISE_CLICKED_IF_NOT + slope * world.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), expected, **EXACT)


@pytest.mark.parametrize("bias", ["position", "trust"])
def test_biased_under_item_selection(bias: str) -> None:
    world = SELECTION[bias]
    (period,) = world.periods
    chances, users = world.chances_by_rank(period), world.bias
    clicked = users.alpha * world.flat_relevance[:, None] + users.beta
    weights = expected_weights(UNCLIPPED, world)
    np.testing.assert_allclose(weights, (chances * clicked / users.examination).sum(axis=1), **EXACT)
    assert abs(weights - world.flat_relevance).max() > MEASURABLE


def test_biased_under_trust() -> None:
    world = ALL_SHOWN["trust"]
    (period,) = world.periods
    chances, users = world.chances_by_rank(period), world.bias
    clicked = users.alpha * world.flat_relevance[:, None] + users.beta
    weights = expected_weights(UNCLIPPED, world)
    np.testing.assert_allclose(weights, (chances * clicked / users.examination).sum(axis=1), **EXACT)
    # Not even up to a scale and a shift: the policy's order of the items remains in their weights.
    slope, shift = np.polyfit(world.flat_relevance, weights, 1)
    assert abs(weights - slope * world.flat_relevance - shift).max() > MEASURABLE
