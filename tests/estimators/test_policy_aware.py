"""The policy-aware estimator: unbiased without trust bias, whatever is selected."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import PolicyAware
from rankloop.statistics import Exposure, Statistics
from tests.estimators.worlds import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    MEASURABLE,
    NOISE_CLICKED_IF_NOT,
    NOISE_CLICKED_IF_RELEVANT,
    QUERY_CHANCES,
    SELECTION,
    TWO_QUERIES,
    World,
    expected_weights,
    position,
)

UNCLIPPED = PolicyAware(clip="off")


def test_weights_by_hand() -> None:
    # Ten times under one policy, thirty under another, each corrected by its own.
    first = Statistics.of_policy(
        "first",
        [0, 1],
        Exposure([0.0], [0.0], [0.5]),
        query_counts=[10],
        displays_by_rank=[[5]],
        clicks_by_rank=[[4]],
    )
    second = Statistics.of_policy(
        "second",
        [0, 1],
        Exposure([0.0], [0.0], [0.1]),
        query_counts=[30],
        displays_by_rank=[[3]],
        clicks_by_rank=[[2]],
    )
    both = first + second
    np.testing.assert_allclose(UNCLIPPED.weights(both, position(1)), [(4 / 0.5 + 2 / 0.1) / 40])
    np.testing.assert_allclose(PolicyAware(clip=0.2).weights(both, position(1)), [(4 / 0.5 + 2 / 0.2) / 40])


@pytest.mark.parametrize("worlds", [ALL_SHOWN, SELECTION, CHANGING])
def test_unbiased_without_trust(worlds: dict[str, World]) -> None:
    world = worlds["position"]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), world.flat_relevance, **EXACT)
    noisy = worlds["noise"]
    slope = NOISE_CLICKED_IF_RELEVANT - NOISE_CLICKED_IF_NOT
    expected = NOISE_CLICKED_IF_NOT + slope * noisy.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, noisy), expected, **EXACT)


def test_unbiased_over_random_arrivals() -> None:
    world = TWO_QUERIES["position"]
    expected = 2 * np.repeat(QUERY_CHANCES, 2) * world.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), expected, **EXACT)


@pytest.mark.parametrize("worlds", [ALL_SHOWN, SELECTION])
def test_biased_under_trust(worlds: dict[str, World]) -> None:
    world = worlds["trust"]
    exposure = world.exposure(world.periods[0])
    weights = expected_weights(UNCLIPPED, world)
    clicked = exposure.alpha * world.flat_relevance + exposure.beta
    np.testing.assert_allclose(weights, clicked / exposure.examination, **EXACT)
    slope, shift = np.polyfit(world.flat_relevance, weights, 1)
    assert abs(weights - slope * world.flat_relevance - shift).max() > MEASURABLE
