"""A log as an object: it shows itself in a line, and travels to other processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from rankloop.offline import open_log
from tests.offline.worlds_of_logs import simulated


def test_a_pickled_log_is_opened_again_with_the_same_settings(tmp_path: Path) -> None:
    log = open_log(simulated(tmp_path / "log", queries=5, impressions=200).log.folder, exposure="displays")
    counts = log.count()
    copy = pickle.loads(pickle.dumps(log))
    assert (copy.folder, copy.tables, copy.exposure, copy.engine) == (
        log.folder,
        log.tables,
        "displays",
        "duckdb",
    )
    # The order of cells is the engine's.
    assert copy.fingerprint == counts.fingerprint
    np.testing.assert_array_equal(copy.count().displays_of(0), counts.displays_of(0))


def test_a_log_shows_itself_in_one_line(tmp_path: Path) -> None:
    log = simulated(tmp_path / "log", queries=5, impressions=200).log
    assert repr(log) == f"Log({str(tmp_path / 'log')!r}: impressions, candidates, features)"
