"""Rankings and what is left of the weight at each of their ranks."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.random_streams import seed_stream
from rankloop.kernels.ranking_samples import draw_ranking, log_remaining, shown_length


def test_remaining_weights_are_sums_over_what_is_not_placed() -> None:
    weights = np.array([1.0, 2.0, 4.0, 8.0, 0.0])
    with np.errstate(divide="ignore"):
        scores = np.log(weights)
    ranking = np.array([2, 0, 3, -1])
    placed, out = np.empty(5, np.bool_), np.full(5, np.nan)
    log_remaining(scores, ranking, 3, placed, out)
    np.testing.assert_allclose(np.exp(out[:4]), [15.0, 15.0 - 4.0, 15.0 - 4.0 - 1.0, 2.0], rtol=1e-14)
    assert np.isnan(out[4])
    assert placed.tolist() == [True, False, True, True, False]


def test_nothing_remains_after_a_full_ranking() -> None:
    out = np.empty(3)
    log_remaining(np.zeros(2), np.array([1, 0]), 2, np.empty(2, np.bool_), out)
    np.testing.assert_allclose(out, [np.log(2.0), 0.0, -np.inf])


def test_lengths_are_those_of_what_is_shown() -> None:
    assert shown_length(np.array([3, 0, -1])) == 2
    assert shown_length(np.array([3, 0, 1])) == 3
    assert shown_length(np.array([-1])) == 0
    ranking = np.empty(3, np.int64)
    drawn = draw_ranking(np.array([0.0, -np.inf, 5.0]), seed_stream(np.int64(0), 0), np.empty(3), ranking)
    assert drawn == shown_length(ranking) == 2
    assert sorted(ranking.tolist()) == [-1, 0, 2]
