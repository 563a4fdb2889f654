"""Cells of displays and rows of impressions: what loops and formulas take."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.statistics import Exposure, of_impressions

OFFSETS = np.array([0, 3, 4])
SEEN = Exposure(*np.ones((3, 4)))


def test_counts_by_hand() -> None:
    statistics = of_impressions(
        "a",
        OFFSETS,
        SEEN,
        queries=[0, 1, 0],
        rankings=[[2, 0], [0, -1], [2, 1]],
        clicks=[[True, False], [True, False], [False, True]],
    )
    np.testing.assert_array_equal(statistics.impressions_by_query, [2, 1])
    np.testing.assert_array_equal(statistics.displays_by_position, [[0, 1], [0, 1], [2, 0], [1, 0]])
    np.testing.assert_array_equal(statistics.clicks_by_position, [[0, 0], [0, 1], [1, 0], [1, 0]])
    np.testing.assert_array_equal(statistics.policies["a"].clicks, [0, 1, 1, 1])
    assert statistics.impressions == 3


def test_no_impressions_are_no_counts() -> None:
    nothing = np.zeros((0, 2), np.int64)
    statistics = of_impressions("a", OFFSETS, SEEN, queries=[], rankings=nothing, clicks=nothing)
    assert statistics.impressions == 0
    assert list(statistics.policies) == ["a"]


@pytest.mark.parametrize(
    ("queries", "rankings", "clicks", "message"),
    [
        ([0, 2], [[0, 1], [0, 1]], [[0, 0], [0, 0]], "number 1, of query number 2: there are 2 queries"),
        ([0, -1], [[0, 1], [0, 1]], [[0, 0], [0, 0]], "number 1, of query number -1: there are 2 queries"),
        ([0, 1], [[0, 1], [0, 1]], [[0, 0], [0, 0]], "number 1, of query number 1: no such document"),
        ([0], [[0, -2]], [[0, 0]], "number 0, of query number 0: no such document"),
        ([0], [[1, 1]], [[0, 0]], "a document is shown twice"),
        ([1], [[0, -1]], [[0, 1]], "a click where nothing was shown"),
        ([0, 0], [[0, 1]], [[0, 0]], r"got shapes \(2,\), \(1, 2\) and \(1, 2\)"),
        ([0], [[0, 1]], [[0]], r"and \(1, 1\)"),
    ],
)
def test_impressions_that_cannot_be_are_refused_with_their_place(
    queries: list[int], rankings: list[list[int]], clicks: list[list[int]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        of_impressions("a", OFFSETS, SEEN, queries=queries, rankings=rankings, clicks=clicks)


def test_offsets_and_exposure_must_fit() -> None:
    with pytest.raises(DataError, match="offsets must be"):
        of_impressions("a", np.array([0, 3]), SEEN, queries=[0], rankings=[[0]], clicks=[[0]])
