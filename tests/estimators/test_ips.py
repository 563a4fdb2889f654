"""IPS: unbiased without trust and selection bias, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rankloop.estimators import IPS
from rankloop.types import Bias
from tests.estimators.scenarios import (
    ALL_SHOWN,
    EXACT,
    MEASURABLE,
    NOISE_CLICKED_IF_NOT,
    NOISE_CLICKED_IF_RELEVANT,
    SELECTION,
    Scenario,
    expected_weights,
    log_of_two_documents,
)

UNCLIPPED = IPS(clip="off")
STATISTICS = log_of_two_documents([[60, 40, 0], [40, 60, 0]], [[30, 5, 0], [10, 3, 0]])


def test_weights_by_hand() -> None:
    bias = Bias(alpha=[0.8, 0.25, 0.1], beta=np.zeros(3), examination=[0.8, 0.25, 0.1])
    expected = [(30 / 0.8 + 5 / 0.25) / 100, (10 / 0.8 + 3 / 0.25) / 100]
    np.testing.assert_allclose(UNCLIPPED.weights(STATISTICS, bias), expected)


def test_clipping_bounds_the_examination() -> None:
    bias = Bias(alpha=[0.8, 0.25, 0.1], beta=np.zeros(3), examination=[0.8, 0.25, 0.1])
    expected = [(30 / 0.8 + 5 / 0.5) / 100, (10 / 0.8 + 3 / 0.5) / 100]
    np.testing.assert_allclose(IPS(clip=0.5).weights(STATISTICS, bias), expected)
    # 10 / √100 = 1: as few as a hundred impressions are left as they are.
    np.testing.assert_allclose(IPS().weights(STATISTICS, bias), [35 / 100, 13 / 100])


def test_a_rank_that_nobody_examines_is_as_good_as_not_shown() -> None:
    bias = Bias(alpha=[0.5, 0.0, 0.0], beta=np.zeros(3), examination=[0.5, 0.0, 0.0])
    for estimator in (UNCLIPPED, IPS(clip=0.1)):
        np.testing.assert_allclose(estimator.weights(STATISTICS, bias), [30 / 0.5 / 100, 10 / 0.5 / 100])


def clicks_per_examination(scenario: Scenario) -> NDArray[np.float64]:
    """What IPS estimates: the sum over ranks of the chance of a click over that of examination."""
    (period,) = scenario.periods
    chances, users = scenario.chances_by_position(period), scenario.bias
    clicked = users.alpha * scenario.flat_relevance[:, None] + users.beta
    total: NDArray[np.float64] = (chances * clicked / users.examination).sum(axis=1)
    return total


def test_unbiased_with_position_bias_alone() -> None:
    scenario = ALL_SHOWN["position"]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), scenario.flat_relevance, **EXACT)


def test_noise_that_is_the_same_at_every_rank_scales_and_shifts_all_documents_equally() -> None:
    scenario = ALL_SHOWN["noise"]
    slope = NOISE_CLICKED_IF_RELEVANT - NOISE_CLICKED_IF_NOT
    expected = NOISE_CLICKED_IF_NOT + slope * scenario.flat_relevance
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), expected, **EXACT)


@pytest.mark.parametrize("bias", ["position", "trust"])
def test_biased_under_document_selection(bias: str) -> None:
    scenario = SELECTION[bias]
    weights = expected_weights(UNCLIPPED, scenario)
    np.testing.assert_allclose(weights, clicks_per_examination(scenario), **EXACT)
    assert abs(weights - scenario.flat_relevance).max() > MEASURABLE


def test_biased_under_trust() -> None:
    scenario = ALL_SHOWN["trust"]
    weights = expected_weights(UNCLIPPED, scenario)
    np.testing.assert_allclose(weights, clicks_per_examination(scenario), **EXACT)
    # Not even up to a scale and a shift: the policy's order of the documents remains in their weights.
    slope, shift = np.polyfit(scenario.flat_relevance, weights, 1)
    assert abs(weights - slope * scenario.flat_relevance - shift).max() > MEASURABLE
