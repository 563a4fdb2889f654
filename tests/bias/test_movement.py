"""Which ranks can be compared: by hand, and what is said of those that cannot."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import RankCounts, movement
from rankloop.errors import DataError
from tests.bias.counts_of import counts_of


def test_by_hand() -> None:
    displays = [[600, 400, 0], [300, 0, 900], [0, 0, 50]]
    clicks = [[300, 200, 0], [150, 0, 450], [0, 0, 25]]
    found = movement(RankCounts.of(counts_of(displays, clicks)))
    assert found.displays.tolist() == [900, 400, 950]
    assert found.clicks.tolist() == [450, 200, 475]
    assert found.items.tolist() == [[2, 1, 1], [1, 1, 0], [1, 0, 2]]
    first, second = 600 * 400 / 1000, 300 * 900 / 1200
    np.testing.assert_allclose(found.effective, [[900, first, second], [first, 400, 0], [second, 0, 950]])
    # All ranks are connected, so each is compared with both others; no item was at all three.
    np.testing.assert_allclose(found.moved, [first + second, first, second])
    # Half of 240 and of 225 effective displays are clicked, and 100 are needed.
    assert found.ranks == 3


def test_clicks_decide_how_much_displays_compare() -> None:
    found = movement(RankCounts.of(counts_of([[600, 600, 400]], [[300, 300, 100]])))
    # A quarter of 400 · 1200 / 1600 = 300 effective displays is clicked at rank 3.
    assert found.connected.tolist() == [True, True, False]
    assert found.refused == (
        "too little movement at rank 3: documents that were also shown at other ranks have about 75 clicks "
        "there that compare the ranks, and 100 are needed"
    )
    found = movement(RankCounts.of(counts_of([[600, 600, 400]], [[300, 300, 140]])))
    assert found.refused is None


def test_an_item_is_compared_with_all_connected_ranks_as_one() -> None:
    displays, clicks = [[400, 400, 800]], [[200, 200, 400]]
    found = movement(RankCounts.of(counts_of(displays, clicks)))
    np.testing.assert_allclose(found.moved, [400 * 1200 / 1600, 400 * 1200 / 1600, 800 * 800 / 1600])
    assert found.ranks == 3
    assert found.refused is None


def test_ranks_that_hardly_moved_get_no_number() -> None:
    displays = np.zeros((12, 10), int)
    displays[0, :6] = 2000
    displays[np.arange(6, 10), np.arange(6, 10)] = 5000  # always at the same rank
    displays[10, [0, 8]] = 50
    found = movement(RankCounts.of(counts_of(displays, displays // 2)))
    assert found.ranks == 6
    assert found.refused is not None
    assert found.refused.startswith("too little movement at ranks 7 to 10: documents that were also shown")
    assert "about 12 clicks" in found.refused  # 50 · 50 / 100 displays, half of them clicked


def test_ranks_below_one_that_hardly_moved_get_none_either() -> None:
    displays = [[900, 900, 0, 900], [0, 0, 900, 0]]
    found = movement(RankCounts.of(counts_of(displays, np.array(displays) // 2)))
    assert found.connected.tolist() == [True, True, False, True]
    assert found.ranks == 2
    assert found.refused is not None
    assert "at rank 3: " in found.refused
    assert found.refused.endswith("; no number either below, at rank 4")


def test_a_rank_may_be_connected_through_another() -> None:
    # Nothing was shown at both ranks 1 and 3.
    displays = [[900, 900, 0], [0, 900, 900]]
    found = movement(RankCounts.of(counts_of(displays, np.array(displays) // 3)))
    assert found.ranks == 3
    assert found.items[0, 2] == 0


@pytest.mark.parametrize(
    ("displays", "clicks", "said"),
    [
        ([[9000, 0], [0, 9000]], [[900, 0], [0, 900]], "always shown at the same rank"),
        ([[90, 90], [90, 90]], [[9, 9], [9, 9]], "too little movement between rank 1 and the others"),
        ([[9000, 9000]], [[0, 0]], "nothing was clicked"),
        ([[9000]], [[90]], "one rank"),
    ],
)
def test_hopeless_logs(displays: list[list[int]], clicks: list[list[int]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        movement(RankCounts.of(counts_of(displays, clicks)))


def test_ranks_where_all_is_clicked_say_little() -> None:
    # 1000 effective displays, but of 2000 at each rank only 20 were not clicked.
    with pytest.raises(DataError, match="too little movement"):
        movement(RankCounts.of(counts_of([[2000, 2000]], [[1980, 1980]])))
