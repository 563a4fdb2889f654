"""Drawing queries anew."""

from __future__ import annotations

import numpy as np

from rankloop.bias import RankCounts
from rankloop.bias.bootstrap import resampled
from tests.bias.counts_of import counts_of


def test_queries_are_drawn_whole_and_as_many_as_there_are() -> None:
    displays = [[1, 2], [1, 1], [3, 3], [0, 0], [4, 4]]
    shown = RankCounts.of(counts_of(displays, np.zeros((5, 2)), sizes=[2, 1, 1, 1]))
    drawn, told = [], []

    def estimate(weights: np.ndarray) -> np.ndarray:
        drawn.append(weights)
        return weights[:1]

    found = resampled(estimate, shown, 400, np.random.default_rng(0), told.append)
    weights = np.array(drawn)
    # Items 0 and 1 are of one query; item 3 was never shown, and its query is not drawn.
    assert weights.shape == (400, 4)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, [0, 2, 3]].sum(axis=1) == 3).all()
    # Each has the mean 1 and the variance 2/3: five standard errors, one of two million cases.
    assert (np.abs(weights.mean(axis=0) - 1) < 5 * np.sqrt(2 / 3 / 400)).all()
    np.testing.assert_array_equal(found[:, 0], weights[:, 0])
    assert told[-1] == 1.0
