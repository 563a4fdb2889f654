"""The likelihood of clicks: against its formula, and its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.objectives.click_likelihood import mean_score
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias

BIAS = Bias(alpha=[0.35, 0.53], beta=[0.4, 0.2], examination=[1.0, 0.8])
DISPLAYS, CLICKS = [[4, 1], [0, 3], [0, 0]], [[3, 0], [0, 1], [0, 0]]


@pytest.fixture
def counts() -> ClickCounts:
    exposure = Exposure([0.2] * 3, [0.1] * 3, [0.3] * 3)
    return ClickCounts.of(
        Statistics.of_policy(
            "a", [0, 3], exposure, query_counts=[4], displays_by_rank=DISPLAYS, clicks_by_rank=CLICKS
        )
    )


def test_the_value_is_the_formula(counts: ClickCounts) -> None:
    scores = np.array([0.3, -1.0, 2.0])
    chance = BIAS.alpha / (1 + np.exp(-scores[:, None])) + BIAS.beta
    n, c = np.array(DISPLAYS), np.array(CLICKS)
    expected = (c * np.log(chance) + (n - c) * np.log(1 - chance)).sum(axis=1)
    np.testing.assert_allclose(click_likelihood(scores, counts, BIAS).values, expected)


def test_the_gradient_is_that_of_the_value(counts: ClickCounts) -> None:
    scores, step = np.array([0.3, -1.0, 2.0]), 1e-6
    found = click_likelihood(scores, counts, BIAS)
    higher, lower = (click_likelihood(scores + side, counts, BIAS).values for side in (step, -step))
    np.testing.assert_allclose(found.gradient, (higher - lower) / (2 * step), atol=1e-7)
    assert found.gradient[2] == found.curvature[2] == 0.0  # never shown


def test_the_mean_score_explains_all_clicks(counts: ClickCounts) -> None:
    relevance = 1 / (1 + np.exp(-mean_score(counts, BIAS)))
    shown = np.array(DISPLAYS).sum(axis=0)
    assert shown @ (BIAS.alpha * relevance + BIAS.beta) == pytest.approx(4.0)


def test_another_number_of_scores_is_refused(counts: ClickCounts) -> None:
    with pytest.raises(DataError, match="3 items need as many scores"):
        click_likelihood([0.0], counts, BIAS)
