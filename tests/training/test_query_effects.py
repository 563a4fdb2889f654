"""Effects of queries: what all documents of a query share is not left to their scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.training.query_effects import ClicksWithQueryEffects
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias

BIAS = Bias(alpha=[0.8, 0.5], beta=[0.1, 0.1], examination=[1.0, 0.7])
VARIANCE = 4.0


@pytest.fixture
def shown() -> ShownDocuments:
    """Three queries of two documents, the second of which came at both ranks; the last query never came."""
    counts = ClickCounts(
        np.array([0, 1, 3, 4, 6]),
        np.array([0, 0, 1, 1, 0, 1]),
        np.array([4.0, 2.0, 3.0, 5.0, 1.0, 2.0]),
        np.array([3.0, 2.0, 1.0, 0.0, 0.0, 1.0]),
    )
    return ShownDocuments(np.zeros((4, 1), np.float32), counts, np.array([0, 0, 1, 1]), 3)


SCORES = np.array([0.3, -0.2, 0.1, -1.0])


def likelihood_of_query(shown: ShownDocuments, query: int, effect: float) -> float:
    inside = np.flatnonzero(shown.queries == query)
    found = click_likelihood(SCORES[inside] + effect, shown.counts.select(inside), BIAS)
    return found.value - effect**2 / (2.0 * VARIANCE)


def test_effects_are_the_most_probable_ones(shown: ShownDocuments) -> None:
    clicks = ClicksWithQueryEffects(shown, BIAS, VARIANCE)
    for _ in range(10):
        clicks.value(SCORES)
    expected = [
        minimize_scalar(lambda effect, q=query: -likelihood_of_query(shown, q, effect)).x for query in (0, 1)
    ]
    np.testing.assert_allclose(clicks.effects, [*expected, 0.0], atol=1e-4)


def test_the_value_is_nearly_the_integral_over_effects(shown: ShownDocuments) -> None:
    clicks = ClicksWithQueryEffects(shown, BIAS, VARIANCE)
    for _ in range(10):
        value = clicks.value(SCORES)
    grid = np.linspace(-15.0, 15.0, 4001)
    integrals = [
        np.log(
            np.trapezoid([np.exp(likelihood_of_query(shown, query, u)) for u in grid], grid)
            / np.sqrt(2.0 * np.pi * VARIANCE)
        )
        for query in (0, 1)
    ]
    assert value * shown.counts.displays.sum() == pytest.approx(sum(integrals), abs=0.3)


def test_without_variance_there_are_no_effects(shown: ShownDocuments) -> None:
    clicks = ClicksWithQueryEffects(shown, BIAS, 0.0)
    plain = click_likelihood(SCORES, shown.counts, BIAS)
    gradient, curvature = clicks.derivatives(SCORES)
    np.testing.assert_array_equal(gradient, plain.gradient)
    np.testing.assert_array_equal(curvature, plain.curvature)
    assert clicks.value(SCORES) == plain.value / shown.counts.displays.sum()


def test_effects_keep_up_with_the_scores(shown: ShownDocuments) -> None:
    """One step per call: after some calls the gradient is that of the most probable effects."""
    clicks, settled = (ClicksWithQueryEffects(shown, BIAS, VARIANCE) for _ in range(2))
    for _ in range(20):
        gradient, _ = clicks.derivatives(SCORES)
        settled.value(SCORES)
    expected = click_likelihood(SCORES + settled.effects[shown.queries], shown.counts, BIAS).gradient
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_a_shift_of_a_whole_query_is_absorbed(shown: ShownDocuments) -> None:
    """With a wide prior, the gradient is that of scores that were not shifted."""
    gradients = []
    for shift in (0.0, 1.0):
        clicks = ClicksWithQueryEffects(shown, BIAS, 1e4)
        for _ in range(30):
            gradient, _ = clicks.derivatives(SCORES + shift)
        gradients.append(gradient)
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-2)
    assert np.abs(click_likelihood(SCORES + 1.0, shown.counts, BIAS).gradient - gradients[1]).max() > 0.1
