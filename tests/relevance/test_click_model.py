"""The click model: its formula, finite differences, expectations over all clicks, and effects of queries."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from rankloop.errors import DataError
from rankloop.relevance import ClickModel
from rankloop.statistics import CellTable, Exposure, Statistics
from rankloop.types import Bias

BIAS = Bias(alpha=[0.35, 0.53], beta=[0.4, 0.2], examination=[1.0, 0.8])
DISPLAYS, CLICKS = [[4, 1], [0, 3], [0, 0]], [[3, 0], [0, 1], [0, 0]]


@pytest.fixture
def counts() -> CellTable:
    exposure = Exposure([0.2] * 3, [0.1] * 3, [0.3] * 3)
    return CellTable.of_statistics(
        Statistics.of_policy(
            "a",
            [0, 3],
            exposure,
            impressions_by_query=[4],
            displays_by_position=DISPLAYS,
            clicks_by_position=CLICKS,
        )
    )


def test_the_value_is_the_formula(counts: CellTable) -> None:
    scores = np.array([0.3, -1.0, 2.0])
    chance = BIAS.alpha / (1 + np.exp(-scores[:, None])) + BIAS.beta
    n, c = np.array(DISPLAYS), np.array(CLICKS)
    expected = (c * np.log(chance) + (n - c) * np.log(1 - chance)).sum(axis=1)
    np.testing.assert_allclose(ClickModel(counts, BIAS).at(scores).values, expected)


def test_the_gradient_is_that_of_the_value(counts: CellTable) -> None:
    scores, step = np.array([0.3, -1.0, 2.0]), 1e-6
    found = ClickModel(counts, BIAS).at(scores)
    higher, lower = (ClickModel(counts, BIAS).at(scores + side).values for side in (step, -step))
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
        counts = CellTable.of_cells(np.array([0, 2, 4]), np.array([0, 1, 0, 1]), n.ravel(), c.ravel())
        found = ClickModel(counts, BIAS).at(truth)
        mean += probability * found.gradient
        square += probability * found.gradient**2
        curvature += probability * found.curvature
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(square, curvature, rtol=1e-12)
    assert curvature.min() > 0.05


def test_the_mean_score_explains_all_clicks(counts: CellTable) -> None:
    relevance = 1 / (1 + np.exp(-ClickModel(counts, BIAS).mean_score))
    shown = np.array(DISPLAYS).sum(axis=0)
    assert shown @ (BIAS.alpha * relevance + BIAS.beta) == pytest.approx(4.0)


def test_another_number_of_scores_is_refused(counts: CellTable) -> None:
    with pytest.raises(DataError, match="3 documents need as many scores"):
        ClickModel(counts, BIAS).at([0.0])


VARIANCE = 4.0
SCORES = np.array([0.3, -0.2, 0.1, -1.0])


def of_three_queries(variance: float = VARIANCE) -> ClickModel:
    """Three queries of two documents, the second of which came at both ranks; the last query never came."""
    counts = CellTable.of_cells(
        [0, 1, 3, 4, 6], [0, 0, 1, 1, 0, 1], [4, 2, 3, 5, 1, 2], [3, 2, 1, 0, 0, 1], [0, 0, 1, 1]
    )
    bias = Bias(alpha=[0.8, 0.5], beta=[0.1, 0.1], examination=[1.0, 0.7])
    return ClickModel(replace(counts, n_queries=3), bias, variance)


def likelihood_of_query(model: ClickModel, query: int, effect: float) -> float:
    inside = np.flatnonzero(model.cells.queries == query)
    return model.select(inside).at(SCORES[inside] + effect).value - effect**2 / (2.0 * VARIANCE)


def test_effects_are_the_most_probable_ones() -> None:
    model = of_three_queries()
    expected = [
        minimize_scalar(lambda effect, q=query: -likelihood_of_query(model, q, effect)).x for query in (0, 1)
    ]
    np.testing.assert_allclose(model.effects(SCORES), [*expected, 0.0], atol=1e-4)


def test_the_value_is_nearly_the_integral_over_effects() -> None:
    model = of_three_queries()
    grid = np.linspace(-15.0, 15.0, 4001)
    integrals = [
        np.log(
            np.trapezoid([np.exp(likelihood_of_query(model, query, u)) for u in grid], grid)
            / np.sqrt(2.0 * np.pi * VARIANCE)
        )
        for query in (0, 1)
    ]
    np.testing.assert_allclose(model.values(SCORES), [*integrals, 0.0], atol=0.2)


def test_without_variance_there_are_no_effects() -> None:
    model = of_three_queries(0.0)
    plain = model.at(SCORES)
    found, effects = model.step(SCORES, np.zeros(3))
    np.testing.assert_array_equal(found.gradient, plain.gradient)
    np.testing.assert_array_equal(found.curvature, plain.curvature)
    assert not effects.any()
    assert model.values(SCORES).sum() == pytest.approx(plain.value)


def test_effects_keep_up_with_the_scores() -> None:
    """One step per call: after some calls the gradient is that of the most probable effects."""
    model, effects = of_three_queries(), np.zeros(3)
    for _ in range(20):
        found, effects = model.step(SCORES, effects)
    expected = model.at(SCORES, model.effects(SCORES)).gradient
    np.testing.assert_allclose(found.gradient, expected, atol=1e-6)


def test_a_shift_of_a_whole_query_is_absorbed() -> None:
    """With a wide prior, the gradient is that of scores that were not shifted."""
    model = of_three_queries(1e4)
    gradients = [model.at(SCORES + shift, model.effects(SCORES + shift)).gradient for shift in (0.0, 1.0)]
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-2)
    assert np.abs(model.at(SCORES + 1.0).gradient - gradients[1]).max() > 0.1
