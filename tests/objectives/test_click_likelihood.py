"""The likelihood of clicks: its formula, finite differences, and its expectation over all clicks."""

from __future__ import annotations

from itertools import product

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


def test_at_the_truth_the_gradient_is_0_on_average_and_its_variance_is_the_curvature() -> None:
    """Over all clicks on documents that were shown three times: the likelihood leads to the truth."""
    truth = np.array([0.3, -1.0])
    chance = np.outer(1 / (1 + np.exp(-truth)), BIAS.alpha) + BIAS.beta
    shown = [(0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1)]  # document and rank
    mean, square, curvature = np.zeros(2), np.zeros(2), np.zeros(2)
    for clicked in product([0, 1], repeat=len(shown)):
        n, c, probability = np.zeros((2, 2)), np.zeros((2, 2)), 1.0
        for at, click in zip(shown, clicked, strict=True):
            n[at] += 1
            c[at] += click
            probability *= chance[at] if click else 1.0 - chance[at]
        counts = ClickCounts(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), n.ravel(), c.ravel())
        found = click_likelihood(truth, counts, BIAS)
        mean += probability * found.gradient
        square += probability * found.gradient**2
        curvature += probability * found.curvature
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(square, curvature, rtol=1e-12)
    assert curvature.min() > 0.05


def test_the_mean_score_explains_all_clicks(counts: ClickCounts) -> None:
    relevance = 1 / (1 + np.exp(-mean_score(counts, BIAS)))
    shown = np.array(DISPLAYS).sum(axis=0)
    assert shown @ (BIAS.alpha * relevance + BIAS.beta) == pytest.approx(4.0)


def test_another_number_of_scores_is_refused(counts: ClickCounts) -> None:
    with pytest.raises(DataError, match="3 items need as many scores"):
        click_likelihood([0.0], counts, BIAS)
