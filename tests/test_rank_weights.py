"""What each rank is worth, against the paper's numbers and arithmetic by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from rankloop import rank_weights
from rankloop.errors import RankloopError
from rankloop.types import Float64

ALL = [
    rank_weights.dcg,
    rank_weights.precision,
    rank_weights.reciprocal,
    rank_weights.examination,
    rank_weights.relevant_clicks,
]
every_vector = pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)

# The paper's table of the trust bias of its simulated users, top five ranks.
PAPER_ALPHA = [0.35, 0.53, 0.55, 0.54, 0.52]
PAPER_BETA = [0.65, 0.26, 0.15, 0.11, 0.08]


def test_values_by_hand() -> None:
    np.testing.assert_allclose(rank_weights.dcg(3), [1, 1 / math.log2(3), 1 / 2], rtol=1e-13)
    np.testing.assert_array_equal(rank_weights.precision(4), [1 / 4] * 4)
    np.testing.assert_array_equal(rank_weights.reciprocal(3), [1, 1 / 2, 1 / 3])
    third = 0.35 / 3 + 0.65 / (1 + 0.05 * 2)
    assert rank_weights.examination(3)[2] == pytest.approx(third, rel=1e-13)
    assert rank_weights.relevant_clicks(3)[2] == pytest.approx(third / (1 + 0.005 * 2), rel=1e-13)


def test_relevant_clicks_are_the_papers_alpha_plus_beta() -> None:
    # Both are printed with two digits, so that their sum may be off by 0.01.
    np.testing.assert_allclose(rank_weights.relevant_clicks(5), np.add(PAPER_ALPHA, PAPER_BETA), atol=0.01)


@every_vector
def test_one_positive_number_a_rank_that_never_grows(make: Callable[[int], Float64]) -> None:
    for cutoff in (1, 2, 50):
        weights = make(cutoff)
        assert weights.shape == (cutoff,)
        assert weights.dtype == np.float64
        assert (weights > 0).all()
        assert (np.diff(weights) <= 0).all()
        if make is not rank_weights.precision:
            np.testing.assert_array_equal(weights, make(99)[:cutoff])


@every_vector
@pytest.mark.parametrize("cutoff", [0, -1])
def test_ranks_count_from_one(make: Callable[[int], Float64], cutoff: int) -> None:
    with pytest.raises(RankloopError, match=f"the cut-off must be at least 1, got {cutoff}"):
        make(cutoff)
