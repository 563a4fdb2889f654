"""LambdaRank against a loop over all pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rankloop.objectives import lambda_rank
from rankloop.ragged import ranks


def test_every_pair_by_hand() -> None:
    rng = np.random.default_rng(0)
    offsets = np.array([0, 5, 6, 13])
    scores, weights, theta = rng.normal(size=13), rng.normal(size=13), np.array([1.0, 0.6, 0.5])
    at = np.append(theta, np.zeros(20))[ranks(scores, offsets) - 1]
    gradient, curvature = np.zeros(13), np.zeros(13)
    for first, last in pairwise(offsets):
        for i in range(first, last):
            for j in range(first, last):
                gain = weights[i] - weights[j]
                wrong = 1.0 / (1.0 + np.exp(np.sign(gain) * (scores[i] - scores[j])))
                swap = abs(gain) * abs(at[i] - at[j])
                gradient[i] += np.sign(gain) * swap * wrong
                curvature[i] += swap * wrong * (1.0 - wrong)
    found = lambda_rank(scores, offsets, weights, theta)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-12)
    np.testing.assert_allclose(found.curvature, curvature, atol=1e-12)


def test_scores_far_apart_do_not_overflow() -> None:
    found = lambda_rank([0.0, 1e3], np.array([0, 2]), [1.0, 0.0], [1.0])
    np.testing.assert_allclose(found.gradient, [1.0, -1.0])
