"""The naive estimator: what it gives, and that it is biased under every bias."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import Naive
from rankloop.statistics import Exposure, Statistics
from tests.estimators.scenarios import (
    ALL_SHOWN,
    CHANGING,
    EXACT,
    MEASURABLE,
    SELECTION,
    expected_weights,
    trust,
)


def test_weights_by_hand() -> None:
    # Two queries that came 3 + 1 times; clicks at any rank count alike.
    statistics = Statistics.of_policy(
        "a",
        [0, 2, 3],
        Exposure(*np.ones((3, 3))),
        impressions_by_query=[3, 1],
        displays_by_position=[[2, 1], [1, 2], [1, 0]],
        clicks_by_position=[[2, 1], [0, 1], [1, 0]],
    )
    expected = np.array([3, 1, 1]) / (4 / 2)
    np.testing.assert_allclose(Naive().weights(statistics, trust(2)), expected)


@pytest.mark.parametrize("scenario", [*ALL_SHOWN.values(), *SELECTION.values()])
def test_it_estimates_the_chance_of_a_click_which_is_not_relevance(scenario) -> None:  # type: ignore[no-untyped-def]
    (period,) = scenario.periods
    exposure = scenario.exposure(period)
    weights = expected_weights(Naive(), scenario)
    np.testing.assert_allclose(weights, exposure.alpha * scenario.flat_relevance + exposure.beta, **EXACT)
    assert abs(weights - scenario.flat_relevance).max() > MEASURABLE


def test_a_change_of_policies_is_averaged_over() -> None:
    scenario = CHANGING["trust"]
    clicked = [
        scenario.exposure(period).alpha * scenario.flat_relevance + scenario.exposure(period).beta
        for period in scenario.periods
    ]
    np.testing.assert_allclose(expected_weights(Naive(), scenario), (clicked[0] + clicked[1]) / 2, **EXACT)
