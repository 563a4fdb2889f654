"""The intervention-oblivious estimator: unbiased under all three biases, while policies change or not."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import InterventionOblivious
from tests.estimators.scenarios import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    MEASURABLE,
    QUERY_CHANCES,
    SELECTION,
    TURNING_TRAFFIC,
    TWO_QUERIES,
    Scenario,
    expected_weights,
    log_of_one_document,
    trust,
)

UNCLIPPED = InterventionOblivious(clip="off")


def test_weights_by_hand() -> None:
    both = log_of_one_document("first", (0.5, 0.2, 1.0), impressions=10, displays=10, clicks=6)
    both += log_of_one_document("second", (0.1, 0.05, 0.2), impressions=30, displays=6, clicks=3)
    expected = [((6 - 10 * 0.2) / 0.5 + (3 - 30 * 0.05) / 0.1) / 40]
    np.testing.assert_allclose(UNCLIPPED.weights(both, trust(1)), expected)
    clipped = [((6 - 10 * 0.2) / 0.5 + (3 - 30 * 0.05) / 0.25) / 40]
    np.testing.assert_allclose(InterventionOblivious(clip=0.25).weights(both, trust(1)), clipped)


@pytest.mark.parametrize(
    "scenarios", [ALL_SHOWN, SELECTION, CHANGING], ids=["shown", "selection", "changing"]
)
@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased(scenarios: dict[str, Scenario], bias: str) -> None:
    scenario = scenarios[bias]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), scenario.flat_relevance, **EXACT)


def test_unbiased_over_random_arrivals() -> None:
    scenario = TWO_QUERIES["trust"]
    expected = 2 * np.repeat(QUERY_CHANCES, 2) * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), expected, **EXACT)


def test_unbiased_when_traffic_turns() -> None:
    scenario = TURNING_TRAFFIC
    # Query 0 comes with chances 0.7, 0.2 and 0.2 at the three impressions, query 1 with the rest.
    frequency = np.array([0.7 + 0.2 + 0.2, 0.3 + 0.8 + 0.8]) / 3
    expected = 2 * np.repeat(frequency, 2) * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), expected, **EXACT)


def test_clipping_is_a_bias_towards_no_relevance() -> None:
    scenario = SELECTION["trust"]
    alpha = scenario.exposure(scenario.periods[0]).alpha
    bound = float(np.median(alpha))
    weights = expected_weights(InterventionOblivious(clip=bound), scenario)
    np.testing.assert_allclose(weights, scenario.flat_relevance * alpha / np.maximum(alpha, bound), **EXACT)
    assert abs(weights - scenario.flat_relevance).max() > MEASURABLE
