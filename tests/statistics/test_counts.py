"""Simulated counts agree with the counts of a log in files."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.logs import write_simulated
from rankloop.offline import open_log
from rankloop.statistics import CellTable, Counts
from tests.bias.counts_of import counts_of
from tests.logs.logs_of import simulated


def test_against_a_log_in_files(tmp_path: Path) -> None:
    split, gathered = simulated()
    counts = open_log(write_simulated(tmp_path / "log", split, gathered)).count()
    made = reduce(add, [part.impressions.counts(split.offsets, part.policy) for part in gathered])
    one, other = CellTable.of(counts), CellTable.of(made)
    for name in ("documents", "queries", "query_impressions", "starts", "position", "displays", "clicks"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_policies_are_summed_and_ranks_are_limited() -> None:
    displays, clicks = [[3, 0, 2], [0, 4, 0], [0, 0, 7]], [[1, 0, 2], [0, 3, 0], [0, 0, 7]]
    part = counts_of(displays, clicks)
    both = CellTable.of(part, ranks=2)
    assert both.documents.tolist() == [0, 1]
    assert both.position.tolist() == [0, 1]
    assert both.clicks.tolist() == [1.0, 3.0]
    chosen = CellTable.of(part).select(np.array([2, 0]))
    assert chosen.documents.tolist() == [2, 0]
    assert chosen.displays.tolist() == [7.0, 3.0, 2.0]
    with pytest.raises(DataError, match="same 4 documents"):
        Counts.of_arrays(np.array([0, 4]), {})
