"""The gradient that networks are trained with, against the kernel with all derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.kernels.expectations import gradient_workspace, metric_of_query
from rankloop.kernels.metric_gradient import SEVERAL_RANKS, gradient_scratch, metric_gradient
from rankloop.kernels.quadrature import workspace
from rankloop.policies import expected_rank_weights


def fast(scores, document_weights, rank_weights):
    n = len(scores)
    gradient = np.empty(n)
    race = workspace(n, len(rank_weights))
    metric_gradient(scores, document_weights, rank_weights, race, *gradient_scratch(n), gradient)
    return gradient


def exact(scores, document_weights, rank_weights):
    n = len(scores)
    gradient, unused = np.empty(n), np.empty(n)
    work = gradient_workspace(n, len(rank_weights))
    metric_of_query(scores, document_weights, rank_weights, work, gradient, unused, unused)
    return gradient


@pytest.mark.parametrize("ranks", [1, 3, 5, 6, SEVERAL_RANKS])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 24, 130])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_equals_the_kernel_with_all_derivatives(n, ranks, spread):
    rng = np.random.default_rng([n, ranks, int(spread)])
    scores, document_weights = rng.normal(scale=spread, size=n), rng.normal(size=n)
    rank_weights = rng.uniform(size=ranks)
    gradient = fast(scores, document_weights, rank_weights)
    assert gradient == pytest.approx(exact(scores, document_weights, rank_weights), abs=1e-7)
    assert gradient.sum() == pytest.approx(0.0, abs=1e-12)


def test_more_documents_than_a_block_of_nodes_has_room_for():
    rng = np.random.default_rng(0)
    scores, document_weights, rank_weights = rng.normal(size=3001), rng.normal(size=3001), np.ones(5)
    # 15,005 documents and ranks leave room for 17 nodes per block, which is not a whole number of vectors.
    gradient = fast(scores, document_weights, rank_weights)
    assert gradient == pytest.approx(exact(scores, document_weights, rank_weights), abs=1e-7)


def test_equals_finite_differences():
    rng = np.random.default_rng(1)
    scores, document_weights, theta = rng.normal(size=6), rng.normal(size=6), np.array([1.0, 0.6, 0.5])
    offsets, step = np.array([0, 6]), 1e-4

    def value(at):
        return document_weights @ expected_rank_weights(at, offsets, theta)

    moves = step * np.eye(6)
    slopes = [(value(scores + move) - value(scores - move)) / (2 * step) for move in moves]
    assert fast(scores, document_weights, theta) == pytest.approx(np.array(slopes), abs=1e-6)
