"""Sampled gradients equal those of the authors' code and agree with the exact gradient on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import rank_weights
from rankloop.errors import DataError
from rankloop.objectives import expected_metric, pl_rank_gradient, reinforce_gradient
from rankloop.policies import sample_rankings

ESTIMATORS = {"reinforce": reinforce_gradient, "pl_rank_3": pl_rank_gradient}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_equals_the_published_code(name: str, golden: dict[str, Any]) -> None:
    for case in golden["sampled_gradients"]:
        offsets = np.array([0, len(case["scores"])])
        rankings = np.array(case["full_rankings"])[:, None, :]
        estimate = ESTIMATORS[name](
            case["scores"], offsets, case["doc_weights"], case["rank_weights"], rankings
        )
        np.testing.assert_allclose(estimate, case[f"{name}_gradient"], rtol=1e-9, atol=1e-12)


def test_pl_rank_2_is_pl_rank_3_on_rankings_truncated_at_k(golden: dict[str, Any]) -> None:
    for case in golden["sampled_gradients"]:
        offsets = np.array([0, len(case["scores"])])
        cut = np.array(case["full_rankings"])[:, None, : len(case["rank_weights"])]
        estimate = pl_rank_gradient(case["scores"], offsets, case["doc_weights"], case["rank_weights"], cut)
        np.testing.assert_allclose(estimate, case["pl_rank_2_gradient"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_drawn_rankings_average_to_the_exact_gradient(name: str, rng: np.random.Generator) -> None:
    offsets = np.array([0, 7, 9, 10])
    scores, weights = rng.normal(size=10), rng.normal(size=10)
    theta = rank_weights.dcg(3)
    exact = expected_metric(scores, offsets, weights, theta).gradient
    batches = np.array(
        [
            ESTIMATORS[name](
                scores, offsets, weights, theta, sample_rankings(scores, offsets, 3, rng, samples=200)
            )
            for _ in range(100)
        ]
    )
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    # Ten means of 100 batches, five standard errors each: fails by chance in about 1 of 40,000 seeds.
    assert (np.abs(batches.mean(axis=0) - exact) <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_result_does_not_overflow(name: str) -> None:
    offsets = np.array([0, 3])
    rankings = np.array([[[0, 1]], [[0, 2]]])
    for scale in (800.0, -800.0):
        gradient = ESTIMATORS[name](np.full(3, scale), offsets, [1.0, 2.0, 0.0], [1.0, 0.5], rankings)
        reference = ESTIMATORS[name](np.zeros(3), offsets, [1.0, 2.0, 0.0], [1.0, 0.5], rankings)
        np.testing.assert_allclose(gradient, reference, rtol=1e-12)


@pytest.mark.parametrize("distance", [1.0, 30.0, 700.0, 710.0, 5000.0])
def test_scores_that_are_far_apart(distance: float) -> None:
    """Before: PL-Rank gave NaN for score differences of 710 and more.

    Both rankings of two documents, weighted by their probabilities, give the exact gradient; in the limit,
    only the likely one is left.
    """
    scores, offsets, metrics = np.array([0.0, distance]), np.array([0, 2]), [1.0, 0.25]
    likely, unlikely = (
        pl_rank_gradient(scores, offsets, metrics, [1.0, 0.5], [[order]]) for order in ([1, 0], [0, 1])
    )
    assert np.isfinite(likely).all()
    assert np.isfinite(unlikely).all()
    p = 1.0 / (1.0 + np.exp(-distance))
    exact = expected_metric(scores, offsets, metrics, [1.0, 0.5]).gradient
    np.testing.assert_allclose(p * likely + (1.0 - p) * unlikely, exact, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_query_that_shows_nothing_has_no_gradient(name: str) -> None:
    """Before: PL-Rank gave NaN."""
    rankings = np.array([[[-1, -1], [1, 0]]])
    gradient = ESTIMATORS[name](
        [-np.inf, 0.0, 0.0], np.array([0, 1, 3]), [1.0, 0.5, 0.0], [1.0, 0.5], rankings
    )
    assert gradient[0] == 0.0
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_has_no_gradient_is_refused(name: str) -> None:
    offsets, scores = np.array([0, 3]), np.array([0.0, -np.inf, 1.0])
    for rankings in ([[[1, 0]]], [[[0, 2, 1]]]):
        with pytest.raises(
            DataError, match="query number 0: a ranking contains a document whose score is -inf"
        ):
            ESTIMATORS[name](scores, offsets, np.ones(3), np.ones(3), rankings)
    for weights, theta in (([1e308, -1e308, 0.0], [1.0]), ([1.0, 0.0, 0.0], [1e308])):
        with pytest.raises(DataError, match=r"must be finite and within ±1e\+100"):
            ESTIMATORS[name](np.zeros(3), offsets, weights, theta, [[[0]]])
    largest = ESTIMATORS[name](np.zeros(3), offsets, [1e100, -1e100, 0.0], [1e100], [[[0]]])
    assert np.isfinite(largest).all()
