"""Which ranks can be compared: examples by hand, and messages about ranks that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import measure_movement
from rankloop.errors import DataError
from rankloop.statistics import CellTable
from tests.bias.counts_of import counts_of


def test_by_hand() -> None:
    displays = [[600, 400, 0], [300, 0, 900], [0, 0, 50]]
    clicks = [[300, 200, 0], [150, 0, 450], [0, 0, 25]]
    found = measure_movement(CellTable.of(counts_of(displays, clicks)))
    assert found.displays.tolist() == [900, 400, 950]
    assert found.clicks.tolist() == [450, 200, 475]
    assert found.documents.tolist() == [[2, 1, 1], [1, 1, 0], [1, 0, 2]]
    first, second = 600 * 400 / 1000, 300 * 900 / 1200
    np.testing.assert_allclose(found.effective, [[900, first, second], [first, 400, 0], [second, 0, 950]])
    # All ranks are connected, so each is compared with both others. No document was shown at all three.
    np.testing.assert_allclose(found.moved, [first + second, first, second])
    # Half of the 240 and 225 effective displays are clicked, and 100 clicks are needed.
    assert found.positions == 3


def test_movement_is_counted_in_clicks() -> None:
    found = measure_movement(CellTable.of(counts_of([[600, 600, 400]], [[300, 300, 100]])))
    # At rank 3, a quarter of 400 · 1200 / 1600 = 300 effective displays are clicked.
    assert found.connected.tolist() == [True, True, False]
    assert found.missing_positions == (
        "too little movement at rank 3: documents that were also shown at other ranks have about 75 "
        "effective clicks there, and 100 are needed"
    )
    found = measure_movement(CellTable.of(counts_of([[600, 600, 400]], [[300, 300, 140]])))
    assert found.missing_positions is None


def test_all_connected_ranks_of_a_document_are_pooled() -> None:
    displays, clicks = [[400, 400, 800]], [[200, 200, 400]]
    found = measure_movement(CellTable.of(counts_of(displays, clicks)))
    np.testing.assert_allclose(found.moved, [400 * 1200 / 1600, 400 * 1200 / 1600, 800 * 800 / 1600])
    assert found.positions == 3
    assert found.missing_positions is None


def test_ranks_with_little_movement_get_no_estimate() -> None:
    displays = np.zeros((12, 10), int)
    displays[0, :6] = 2000
    displays[np.arange(6, 10), np.arange(6, 10)] = 5000  # always at the same rank
    displays[10, [0, 8]] = 50
    found = measure_movement(CellTable.of(counts_of(displays, displays // 2)))
    assert found.positions == 6
    assert found.missing_positions is not None
    assert found.missing_positions.startswith(
        "too little movement at ranks 7 to 10: documents that were also shown"
    )
    assert "about 12 effective clicks" in found.missing_positions  # half of 50 · 50 / 100 effective displays


def test_ranks_below_an_unconnected_rank_get_no_estimate() -> None:
    displays = [[900, 900, 0, 900], [0, 0, 900, 0]]
    found = measure_movement(CellTable.of(counts_of(displays, np.array(displays) // 2)))
    assert found.connected.tolist() == [True, True, False, True]
    assert found.positions == 2
    assert found.missing_positions is not None
    assert "at rank 3: " in found.missing_positions
    assert found.missing_positions.endswith("; this also leaves out rank 4")


def test_a_rank_may_be_connected_through_another() -> None:
    # No document was shown at both ranks 1 and 3.
    displays = [[900, 900, 0], [0, 900, 900]]
    found = measure_movement(CellTable.of(counts_of(displays, np.array(displays) // 3)))
    assert found.positions == 3
    assert found.documents[0, 2] == 0


@pytest.mark.parametrize(
    ("displays", "clicks", "message"),
    [
        ([[9000, 0], [0, 9000]], [[900, 0], [0, 900]], "always shown at the same rank"),
        ([[90, 90], [90, 90]], [[9, 9], [9, 9]], "too little movement between rank 1 and the others"),
        ([[9000, 9000]], [[0, 0]], "the log has no clicks"),
        ([[9000]], [[90]], "one rank"),
    ],
)
def test_logs_without_enough_movement(
    displays: list[list[int]], clicks: list[list[int]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        measure_movement(CellTable.of(counts_of(displays, clicks)))


def test_ranks_where_nearly_all_displays_are_clicked_count_displays_without_a_click() -> None:
    # There are 1000 effective displays, but only 20 of 2000 displays per rank have no click.
    with pytest.raises(DataError, match="too little movement"):
        measure_movement(CellTable.of(counts_of([[2000, 2000]], [[1980, 1980]])))
