"""Resampling of queries."""

from __future__ import annotations

import numpy as np

from rankloop.bias import RankCounts
from rankloop.bias.bootstrap import bootstrap
from rankloop.progress import Update
from tests.bias.counts_of import counts_of


def test_resamples_keep_queries_whole_and_their_number() -> None:
    displays = [[1, 2], [1, 1], [3, 3], [0, 0], [4, 4]]
    shown = RankCounts.of(counts_of(displays, np.zeros((5, 2)), sizes=[2, 1, 1, 1]))
    drawn: list[np.ndarray] = []
    updates: list[Update] = []

    def estimate(weights: np.ndarray) -> np.ndarray:
        drawn.append(weights)
        return weights[:1]

    found = bootstrap(estimate, shown, 400, np.random.default_rng(0), updates.append)
    weights = np.array(drawn)
    # Items 0 and 1 belong to one query. Item 3 was never shown, so its query is not resampled.
    assert weights.shape == (400, 4)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, [0, 2, 3]].sum(axis=1) == 3).all()
    # Each weight has mean 1 and variance 2/3; five standard errors fail in one of two million cases.
    assert (np.abs(weights.mean(axis=0) - 1) < 5 * np.sqrt(2 / 3 / 400)).all()
    np.testing.assert_array_equal(found[:, 0], weights[:, 0])
    assert updates[-1] == Update("resampling queries", 1.0)
