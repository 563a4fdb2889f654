"""Behaviour: validation of its probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.clicks import Behaviour
from rankloop.errors import RankloopError

HALF, NEVER = [0.5, 0.5], [0.0, 0.0]


def test_the_table_has_the_rows_in_the_order_of_the_fields() -> None:
    behaviour = Behaviour(*(np.full(2, value) for value in (0.1, 0.2, 0.3, 0.4, 0.5)))
    assert behaviour.table.tolist() == [[0.1] * 2, [0.2] * 2, [0.3] * 2, [0.4] * 2, [0.5] * 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            (HALF, [0.6, 0.5], NEVER, NEVER, NEVER),
            r"probability of a click .*must lie in \[0, 1\], got \[1.1",
        ),
        ((HALF, [np.nan, 0.5], NEVER, NEVER, NEVER), r"probability of a click .*got \[nan"),
        (([-0.5, 0.0], [0.4, 0.0], NEVER, NEVER, NEVER), "probability of a click"),
        ((HALF, HALF, [1.1, 0.0], NEVER, NEVER), "probability of stopping after a click"),
        ((HALF, HALF, HALF, [0.6, 0.0], NEVER), "probability of stopping after a click"),
        ((HALF, HALF, NEVER, NEVER, [0.0, 2.0]), "probability of stopping without a click"),
        ((HALF, HALF, NEVER, NEVER, [0.0]), r"stop_skipped must be numbers, one per rank.*\(1,\) and \(2,\)"),
        (([], [], [], [], []), "alpha must be numbers, one per rank"),
        ((0.5, 0.5, 0.5, 0.5, 0.5), "alpha must be numbers, one per rank"),
    ],
)
def test_invalid_probabilities_are_rejected(rows: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        Behaviour(*rows)  # type: ignore[arg-type]
