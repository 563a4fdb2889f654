"""A log as an object: it shows itself in a line, and travels to other processes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.offline import open_log
from rankloop.offline.log_check import PASSWORD
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


def test_the_next_command_names_the_engine_and_no_password(tmp_path: Path) -> None:
    check = simulated(tmp_path / "log", queries=20, impressions=500).log.check()
    assert check.command is not None
    assert "--engine" not in check.command
    there = replace(check, engine="spark", master="local[4]").command
    folder = f" {tmp_path / 'log'} "
    assert there == check.command.replace(folder, f"{folder}--engine spark --master 'local[4]' ")
    for given, told in (
        ("postgresql://me:secret@host:5432/logs", "postgresql://me@host:5432/logs"),
        ("postgresql://me@host:5432/logs", "postgresql://me@host:5432/logs"),
        ("spark://host:7077", "spark://host:7077"),
    ):
        assert PASSWORD.sub(r"\1", given) == told


def test_a_log_in_a_database_is_not_divided_by_time(tmp_path: Path) -> None:
    """Refused before the database is asked anything."""
    log = simulated(tmp_path / "log", queries=20, impressions=500).log
    there = replace(log, engine="postgres", master="postgresql://nobody@nowhere.invalid/logs")
    with pytest.raises(RankloopError, match="in PostgreSQL cannot be divided by time: hold out a share"):
        there.fit("linear", bias="paper@3", held_out="2024-05-01")
