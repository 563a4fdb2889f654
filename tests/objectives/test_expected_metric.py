"""The exact metric and its derivatives against enumeration and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop import rank_weights
from rankloop.errors import RankloopError
from rankloop.objectives import expected_metric
from rankloop.policies import expected_rank_weights
from tests.enumeration import marginals, metric_gradient


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("n", [1, 2, 4, 6])
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_value_and_gradient_equal_enumeration(spread: float, n: int, ranks: int) -> None:
    rng = np.random.default_rng(n * 100 + ranks)
    for _ in range(5):
        scores = spread * rng.uniform(-0.5, 0.5, size=n)
        weights, theta = rng.normal(size=n), rng.normal(size=ranks)
        metric = expected_metric(scores, np.array([0, n]), weights, theta)
        np.testing.assert_allclose(
            metric.value, weights @ marginals(scores, ranks) @ theta, rtol=1e-6, atol=1e-8
        )
        listed = metric_gradient(scores, weights, theta)
        assert np.linalg.norm(metric.gradient - listed) <= 1e-5 * np.linalg.norm(listed) + 1e-9


@pytest.mark.parametrize("gap", [0.5, 5.0, 20.0, 60.0, 100.0])
def test_the_gradient_is_precise_for_peaked_policies(gap: float) -> None:
    scores = gap * np.array([0.0, 2.0, 1.0, -2.0, -1.0])
    weights, theta = np.array([0.0, 1.0, 0.0, 0.5, 1.0]), rank_weights.dcg(3)
    listed = metric_gradient(scores, weights, theta)
    # Σ_y π(y) R(y) ∇ log π(y) itself loses everything below 1e-16; pairs that swap decide what is left.
    swap = np.exp(-gap)
    assert 0.01 * swap < np.linalg.norm(listed) < 10 * swap or gap > 30
    gradient = expected_metric(scores, np.array([0, 5]), weights, theta).gradient
    if gap <= 20:
        assert np.linalg.norm(gradient - listed) <= 1e-5 * np.linalg.norm(listed)
    # The leading pair swaps with probability e^-gap: document 1 (metric 1) and document 2 (metric 0) at ranks
    # 1 and 2, documents 2 and 0 have the same metric, and document 4 (metric 1) takes rank 3 from document 0
    # (metric 0).
    leading = np.zeros(5)
    leading[[1, 2]] = swap * (theta[0] - theta[1]) * np.array([1, -1])
    leading[[4, 0]] = swap * theta[2] * np.array([1, -1])
    if gap >= 20:
        np.testing.assert_allclose(gradient, leading, rtol=1e-6, atol=1e-6 * swap)


def test_the_second_derivative_is_the_second_difference(rng: np.random.Generator) -> None:
    n, step = 9, 1e-3
    scores, weights, theta = rng.normal(size=n), rng.normal(size=n), rank_weights.dcg(4)
    offsets = np.array([0, n])

    def value(at: np.ndarray) -> float:
        return expected_metric(at, offsets, weights, theta).value

    metric = expected_metric(scores, offsets, weights, theta)
    for d in range(n):
        move = step * np.eye(n)[d]
        second = (value(scores + move) - 2 * value(scores) + value(scores - move)) / step**2
        assert metric.second[d] == pytest.approx(second, abs=1e-6)


def test_curvature_bounds_the_gradient_and_is_the_sum_over_pairs(rng: np.random.Generator) -> None:
    scores, weights, theta = rng.normal(size=6), rng.normal(size=6), rank_weights.dcg(3)
    offsets = np.array([0, 6])
    metric = expected_metric(scores, offsets, weights, theta)
    # ω_di is the gradient on d of a metric for i alone, up to its sign.
    pairs = -np.array([expected_metric(scores, offsets, np.eye(6)[i], theta).gradient for i in range(6)]).T
    np.fill_diagonal(pairs, 0)
    listed = ((weights[:, None] + weights[None, :] - 2 * weights.min()) * pairs).sum(axis=1)
    np.testing.assert_allclose(metric.curvature, listed, rtol=1e-6)
    assert (metric.curvature >= np.abs(metric.gradient)).all()


def test_adding_a_constant_to_all_scores_changes_nothing(rng: np.random.Generator) -> None:
    offsets = np.array([0, 30, 31, 80])
    metric = expected_metric(3 * rng.normal(size=80), offsets, rng.normal(size=80), rank_weights.dcg(5))
    np.testing.assert_allclose(np.add.reduceat(metric.gradient, offsets[:-1]), 0, atol=1e-8)


def test_values_are_weighted_expectations(rng: np.random.Generator) -> None:
    offsets = np.array([0, 200, 203, 500])
    scores, weights, theta = rng.normal(size=500), rng.normal(size=500), rng.normal(size=12)
    expected = weights * expected_rank_weights(scores, offsets, theta)
    metric = expected_metric(scores, offsets, weights, theta)
    np.testing.assert_allclose(metric.values, np.add.reduceat(expected, offsets[:-1]), rtol=1e-9, atol=1e-12)


def test_a_wide_spread_of_scores_gives_finite_derivatives() -> None:
    scores = np.array([2000.0, 1000.0, 999.0, 0.0])
    metric = expected_metric(scores, np.array([0, 4]), np.ones(4), [1.0, 0.5])
    assert metric.value == pytest.approx(1.5, abs=1e-8)
    assert np.isfinite(metric.gradient).all()
    assert np.isfinite(metric.second).all()
    assert np.isfinite(metric.curvature).all()


def test_documents_never_shown_have_no_gradient() -> None:
    scores = np.array([0.0, -np.inf, 1.0, -np.inf])
    metric = expected_metric(scores, np.array([0, 3, 4]), [1.0, 5.0, 2.0, 3.0], [1.0])
    without = expected_metric(scores[[0, 2]], np.array([0, 2]), [1.0, 2.0], [1.0])
    np.testing.assert_allclose(metric.gradient, [without.gradient[0], 0, without.gradient[1], 0], rtol=1e-12)
    np.testing.assert_allclose(metric.values, [without.value, 0], rtol=1e-12)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 80, size=300))])
    scores, weights = rng.normal(size=offsets[-1]), rng.normal(size=offsets[-1])
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("RANKLOOP_THREADS", threads)
        results.append(expected_metric(scores, offsets, weights, rank_weights.dcg(5)))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].values, other.values)
        np.testing.assert_array_equal(results[0].gradient, other.gradient)
        np.testing.assert_array_equal(results[0].second, other.second)
        np.testing.assert_array_equal(results[0].curvature, other.curvature)


def test_invalid_weights_are_rejected() -> None:
    with pytest.raises(RankloopError, match="the weight of document 1 is nan"):
        expected_metric(np.zeros(2), np.array([0, 2]), [0.0, np.nan], [1.0])
    with pytest.raises(RankloopError, match="2 documents need 2 weights"):
        expected_metric(np.zeros(2), np.array([0, 2]), [0.0], [1.0])
