"""The affine estimator: unbiased without item selection, under any trust."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.estimators import Affine
from rankloop.types import Bias
from tests.estimators.scenarios import (
    ALL_SHOWN,
    EXACT,
    MEASURABLE,
    SELECTION,
    expected_weights,
    log_of_two_documents,
)

UNCLIPPED = Affine(clip="off")
USERS = Bias(alpha=[0.5, 0.4], beta=[0.3, 0.1], examination=[1.0, 0.5])
STATISTICS = log_of_two_documents([[60, 40], [40, 0]], [[30, 14], [20, 0]])


def test_weights_by_hand() -> None:
    expected = [
        ((30 - 0.3 * 60) / 0.5 + (14 - 0.1 * 40) / 0.4) / 100,
        ((20 - 0.3 * 40) / 0.5) / 100,  # not shown at rank 2: nothing to correct there
    ]
    np.testing.assert_allclose(UNCLIPPED.weights(STATISTICS, USERS), expected)


def test_clipping_bounds_alpha_alone() -> None:
    expected = [
        ((30 - 0.3 * 60) / 0.5 + (14 - 0.1 * 40) / 0.45) / 100,
        ((20 - 0.3 * 40) / 0.5) / 100,
    ]
    np.testing.assert_allclose(Affine(clip=0.45).weights(STATISTICS, USERS), expected)


@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_unbiased_if_everything_is_shown(bias: str) -> None:
    scenario = ALL_SHOWN[bias]
    np.testing.assert_allclose(expected_weights(UNCLIPPED, scenario), scenario.flat_relevance, **EXACT)


@pytest.mark.parametrize("bias", ["position", "noise", "trust"])
def test_biased_under_document_selection_by_the_chance_of_being_shown(bias: str) -> None:
    scenario = SELECTION[bias]
    (period,) = scenario.periods
    shown = scenario.chances_by_position(period).sum(axis=1)
    weights = expected_weights(UNCLIPPED, scenario)
    np.testing.assert_allclose(weights, shown * scenario.flat_relevance, **EXACT)
    assert abs(weights - scenario.flat_relevance).max() > MEASURABLE
