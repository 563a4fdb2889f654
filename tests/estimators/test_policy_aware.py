"""The policy-aware estimator: unbiased without trust bias, under any item selection."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import PolicyAware
from tests.estimators.scenarios import (
    ALL_SHOWN,
    EXACT,
    MEASURABLE,
    NOISE_CLICKED_IF_NOT,
    NOISE_CLICKED_IF_RELEVANT,
    QUERY_CHANCES,
    SELECTION,
    TWO_QUERIES,
    Scenario,
    every_kind_of_selection,
    expected_weights,
    log_of_one_document,
    position,
)

UNCLIPPED = PolicyAware(clip="off")


def test_weights_by_hand() -> None:
    # Ten times under one policy, thirty under another, each corrected by its own.
    both = log_of_one_document("first", (0.0, 0.0, 0.5), impressions=10, displays=5, clicks=4)
    both += log_of_one_document("second", (0.0, 0.0, 0.1), impressions=30, displays=3, clicks=2)
    np.testing.assert_allclose(UNCLIPPED.weights(both, position(1)), [(4 / 0.5 + 2 / 0.1) / 40])
    np.testing.assert_allclose(PolicyAware(clip=0.2).weights(both, position(1)), [(4 / 0.5 + 2 / 0.2) / 40])


@every_kind_of_selection
def test_unbiased_without_trust(scenarios: dict[str, Scenario]) -> None:
    scenario = scenarios["position"]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), scenario.flat_relevance, **EXACT)
    noisy = scenarios["noise"]
    slope = NOISE_CLICKED_IF_RELEVANT - NOISE_CLICKED_IF_NOT
    expected = NOISE_CLICKED_IF_NOT + slope * noisy.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, noisy), expected, **EXACT)


def test_unbiased_over_random_arrivals() -> None:
    scenario = TWO_QUERIES["position"]
    expected = 2 * np.repeat(QUERY_CHANCES, 2) * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), expected, **EXACT)


@pytest.mark.parametrize("scenarios", [ALL_SHOWN, SELECTION])
def test_biased_under_trust(scenarios: dict[str, Scenario]) -> None:
    scenario = scenarios["trust"]
    exposure = scenario.exposure(scenario.periods[0])
    weights = expected_weights(UNCLIPPED, scenario)
    clicked = exposure.alpha * scenario.flat_relevance + exposure.beta
    np.testing.assert_allclose(weights, clicked / exposure.examination, **EXACT)
    slope, shift = np.polyfit(scenario.flat_relevance, weights, 1)
    assert abs(weights - slope * scenario.flat_relevance - shift).max() > MEASURABLE
