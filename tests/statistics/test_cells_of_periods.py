"""A document in two periods counts as two documents of the same query."""

from __future__ import annotations

import numpy as np

from rankloop.statistics import Counts
from rankloop.statistics.tables import CellTable


def test_cells_of_periods_by_hand() -> None:
    offsets = np.array([0, 2, 3])
    first = Counts.of_arrays(
        offsets,
        {"a": (np.array([3, 0]), np.array([[3, 0], [0, 3], [0, 0]]), np.array([[1, 0], [0, 2], [0, 0]]))},
    )
    second = Counts.of_arrays(
        offsets,
        {"b": (np.array([2, 1]), np.array([[0, 2], [2, 0], [1, 0]]), np.array([[0, 1], [0, 0], [1, 0]]))},
    )
    table = CellTable.of_periods([first, second])
    assert table.documents.tolist() == [0, 0, 1, 1, 2]
    assert table.queries.tolist() == [0, 0, 0, 0, 1]
    assert table.query_impressions.tolist() == [3.0, 2.0, 3.0, 2.0, 1.0]
    assert table.position.tolist() == [0, 1, 1, 0, 0]
    assert table.displays.tolist() == [3.0, 2.0, 3.0, 2.0, 1.0]
    assert table.clicks.tolist() == [1.0, 1.0, 2.0, 0.0, 1.0]
    # One period is the whole log.
    one, whole = CellTable.of_periods([first + second]), CellTable.of(first + second)
    for name in ("documents", "queries", "starts", "position", "displays", "clicks", "query_impressions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(whole, name))
    assert (first + second).of_policies(["b"]).cells.displays.sum() == second.cells.displays.sum()
