"""Training objectives: against enumeration, against finite differences, and where they are concave."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.objectives import (
    TRAINING_OBJECTIVES,
    ExpectedMetric,
    LinearMetric,
    PairwiseLogistic,
    Softmax,
    TrainingObjective,
    expected_metric,
    training_objective,
)
from rankloop.rank_weights import dcg
from tests.enumeration import all_rankings, metric_gradient

RNG = np.random.default_rng(0)
OFFSETS = np.array([0, 1, 5, 7, 12])
SCORES = RNG.normal(size=12) * 2.0
WEIGHTS = RNG.normal(size=12)
ALL = [ExpectedMetric(), ExpectedMetric(ranks=4), LinearMetric(), PairwiseLogistic(), Softmax()]


def total(objective: TrainingObjective, scores: np.ndarray, weights: np.ndarray = WEIGHTS) -> float:
    return float(objective.value(scores, OFFSETS, weights, dcg(2)).values.sum())


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_the_gradient_is_that_of_finite_differences(objective: TrainingObjective) -> None:
    found = objective.value(SCORES, OFFSETS, WEIGHTS, dcg(2)).gradient
    step = 1e-5
    for d in range(len(SCORES)):
        there, back = SCORES.copy(), SCORES.copy()
        there[d] += step
        back[d] -= step
        slope = (total(objective, there) - total(objective, back)) / (2 * step)
        assert found[d] == pytest.approx(slope, abs=1e-6)


def test_the_linear_metric_is_the_expectation_over_all_rankings() -> None:
    scores, weights = SCORES[7:], WEIGHTS[7:]
    theta = np.array([4, 3, 2, 1, 0]) / 4
    rankings, log_probability = all_rankings(scores)
    value = np.exp(log_probability) @ (weights[rankings] @ theta)
    found = LinearMetric().value(scores, np.array([0, 5]), weights, [1.0])
    assert found.values[0] == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(found.gradient, metric_gradient(scores, weights, theta), atol=1e-12)


def test_the_linear_metric_agrees_with_the_exact_expectation_of_many_documents() -> None:
    n = 40
    scores, weights = RNG.normal(size=n) * 3.0, RNG.normal(size=n)
    theta = np.arange(n - 1, -1, -1.0) / (n - 1)
    offsets = np.array([0, n])
    slow = expected_metric(scores, offsets, weights, theta)
    fast = LinearMetric().value(scores, offsets, weights, [1.0])
    # 1e-6 is the relative error of the quadrature; the pairwise form has none.
    np.testing.assert_allclose(fast.values, slow.values, rtol=1e-5)
    np.testing.assert_allclose(fast.gradient, slow.gradient, atol=1e-5)


@pytest.mark.parametrize("objective", [LinearMetric(), Softmax()], ids=str)
def test_linear_in_the_weights(objective: TrainingObjective) -> None:
    """So an unbiased estimate of the weights is an unbiased estimate of the objective and its gradient."""
    other = RNG.normal(size=12)
    both = objective.value(SCORES, OFFSETS, 2.0 * WEIGHTS - other, dcg(2))
    one, two = (objective.value(SCORES, OFFSETS, w, dcg(2)) for w in (WEIGHTS, other))
    np.testing.assert_allclose(both.values, 2.0 * one.values - two.values, atol=1e-12)
    np.testing.assert_allclose(both.gradient, 2.0 * one.gradient - two.gradient, atol=1e-12)


def test_where_losses_are_concave() -> None:
    sums = np.add.reduceat(WEIGHTS, OFFSETS[:-1])
    # Some weights are negative, no query's sum is.
    positive = WEIGHTS + np.repeat(np.maximum(0.1 - sums, 0.0) / np.diff(OFFSETS), np.diff(OFFSETS))
    assert (positive < 0).any()
    for objective, weights in ((PairwiseLogistic(), WEIGHTS), (Softmax(), positive)):
        for _ in range(20):
            centre, direction = RNG.normal(size=(2, 12))
            ends = [total(objective, centre + t * direction, weights) for t in (-1.0, 0.0, 1.0)]
            assert ends[0] + ends[2] <= 2.0 * ends[1] + 1e-12


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_far_apart_scores_are_finite(objective: TrainingObjective) -> None:
    scores = np.array([1e6, -1e6, 0.0, 3.0])
    found = objective.value(scores, np.array([0, 4]), [1.0, -2.0, 0.5, 0.0], dcg(2))
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.gradient).all()


@pytest.mark.parametrize("objective", ALL, ids=str)
def test_shifting_all_scores_of_a_query_changes_nothing(objective: TrainingObjective) -> None:
    shifted = SCORES + np.repeat([3.0, -1.0, 7.0, 0.5], np.diff(OFFSETS))
    np.testing.assert_allclose(
        objective.value(shifted, OFFSETS, WEIGHTS, dcg(2)).gradient,
        objective.value(SCORES, OFFSETS, WEIGHTS, dcg(2)).gradient,
        atol=1e-7,
    )


def test_names_parse_back_and_bad_ones_are_refused() -> None:
    assert [training_objective(str(objective)) for objective in ALL] == ALL
    assert {objective.name for objective in ALL} == set(TRAINING_OBJECTIVES)
    with pytest.raises(RankloopError, match="ranks must be 0 or more"):
        training_objective("expected-metric(ranks=-1)")
    with pytest.raises(DataError, match="needs finite scores"):
        Softmax().value([0.0, -np.inf], np.array([0, 2]), [1.0, 0.0], dcg(2))
