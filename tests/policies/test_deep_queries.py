"""Queries with many documents and ranks: as the kernels for few ranks compute them, interruptible."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.kernels.expectations import expected_weights_of_queries, metrics_of_queries
from rankloop.objectives import expected_metric
from rankloop.policies import expected_rank_weights, plackett_luce, rank_marginals

OFFSETS = np.array([0, 80, 85, 170])
DOCUMENTS = 170


def scores_of(spread: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = spread * rng.normal(size=DOCUMENTS) ** 3
    scores[rng.choice(DOCUMENTS, 8, replace=False)] = -np.inf
    return scores


@pytest.mark.parametrize("spread", [0.0, 10.0, 300.0])
@pytest.mark.parametrize("ranks", [66, 200])
def test_weights_equal_those_of_the_kernels_for_few_ranks(spread: float, ranks: int) -> None:
    scores = scores_of(spread, ranks)
    weights = np.stack([1 / np.log2(np.arange(ranks) + 2), np.eye(ranks)[65], np.sin(np.arange(ranks))])
    expected = np.empty((DOCUMENTS, 3))
    expected_weights_of_queries(0, 3, OFFSETS, scores, weights, expected)
    found = expected_rank_weights(scores, OFFSETS, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_derivatives_equal_those_of_the_kernels_for_few_ranks(spread: float) -> None:
    scores, rng = scores_of(spread, 1), np.random.default_rng(2)
    weights, theta = rng.normal(size=DOCUMENTS), 1 / np.log2(np.arange(90) + 2)
    values, expected = np.empty(3), np.empty((3, DOCUMENTS))
    metrics_of_queries(0, 3, OFFSETS, scores, weights, theta, values, expected)
    found = expected_metric(scores, OFFSETS, weights, theta)
    np.testing.assert_allclose(found.values, values, rtol=1e-9)
    for one, other in zip((found.gradient, found.second, found.curvature), expected, strict=True):
        np.testing.assert_allclose(one, np.abs(other) if one is found.curvature else other, atol=1e-12)


def test_all_ranks_of_a_thousand_documents_are_taken() -> None:
    # With the weight k of each rank k, the sum over documents is that of all ranks.
    scores = 30.0 * np.random.default_rng(0).normal(size=1000)
    weights = np.arange(1.0, 1001.0)
    found = expected_rank_weights(scores, np.array([0, 1000]), weights)
    np.testing.assert_allclose(found.sum(), weights.sum(), rtol=1e-8)
    # The expected rank is one more than the chances of the others to be ahead.
    first = np.argmax(scores)
    ahead = 1 / (1 + np.exp(scores[first] - np.delete(scores, first)))
    np.testing.assert_allclose(found[first], 1 + ahead.sum(), rtol=1e-6)


def test_more_than_the_stated_cost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plackett_luce, "MOST_STEPS", 1e6)
    with pytest.raises(DataError, match="a query of 100 documents with 90 ranks would take hours"):
        rank_marginals(np.zeros(100), np.array([0, 100]), 90)


def test_control_c_ends_a_long_query_between_its_parts() -> None:
    # 6,000 documents take ten seconds; without parts, the signal would wait for the end.
    def interrupt() -> None:
        time.sleep(0.2)
        signal.raise_signal(signal.SIGINT)

    expected_rank_weights(np.zeros(70), np.array([0, 70]), np.ones(70))  # compiles it
    # A process that was started in the background ignores the signal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            expected_rank_weights(np.zeros(6_000), np.array([0, 6_000]), np.ones(6_000))
    finally:
        sender.join()
        signal.signal(signal.SIGINT, handler)
