"""The intervention-oblivious estimator: unbiased under all three biases, while policies change or not."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import InterventionOblivious
from rankloop.statistics import Exposure, Statistics
from tests.estimators.worlds import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    MEASURABLE,
    QUERY_CHANCES,
    SELECTION,
    TURNING_TRAFFIC,
    TWO_QUERIES,
    World,
    expected_weights,
    trust,
)

UNCLIPPED = InterventionOblivious(clip="off")


def test_weights_by_hand() -> None:
    first = Statistics.of_policy(
        "first",
        [0, 1],
        Exposure([0.5], [0.2], [1.0]),
        query_counts=[10],
        displays_by_rank=[[10]],
        clicks_by_rank=[[6]],
    )
    second = Statistics.of_policy(
        "second",
        [0, 1],
        Exposure([0.1], [0.05], [0.2]),
        query_counts=[30],
        displays_by_rank=[[6]],
        clicks_by_rank=[[3]],
    )
    both = first + second
    expected = [((6 - 10 * 0.2) / 0.5 + (3 - 30 * 0.05) / 0.1) / 40]
    np.testing.assert_allclose(UNCLIPPED.weights(both, trust(1)), expected)
    clipped = [((6 - 10 * 0.2) / 0.5 + (3 - 30 * 0.05) / 0.25) / 40]
    np.testing.assert_allclose(InterventionOblivious(clip=0.25).weights(both, trust(1)), clipped)


@pytest.mark.parametrize("worlds", [ALL_SHOWN, SELECTION, CHANGING], ids=["shown", "selection", "changing"])
@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased(worlds: dict[str, World], bias: str) -> None:
    world = worlds[bias]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), world.flat_relevance, **EXACT)


def test_unbiased_over_random_arrivals() -> None:
    world = TWO_QUERIES["trust"]
    expected = 2 * np.repeat(QUERY_CHANCES, 2) * world.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), expected, **EXACT)


def test_unbiased_when_traffic_turns() -> None:
    world = TURNING_TRAFFIC
    # Query 0 comes with chances 0.7, 0.2 and 0.2 at the three timesteps, query 1 with the rest.
    frequency = np.array([0.7 + 0.2 + 0.2, 0.3 + 0.8 + 0.8]) / 3
    expected = 2 * np.repeat(frequency, 2) * world.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, world), expected, **EXACT)


def test_clipping_is_a_bias_towards_no_relevance() -> None:
    world = SELECTION["trust"]
    alpha = world.exposure(world.periods[0]).alpha
    bound = float(np.median(alpha))
    weights = expected_weights(InterventionOblivious(clip=bound), world)
    np.testing.assert_allclose(weights, world.flat_relevance * alpha / np.maximum(alpha, bound), **EXACT)
    assert abs(weights - world.flat_relevance).max() > MEASURABLE
