"""The log that measures how commands scale, and the table of its measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from experiments.scale import CANDIDATES, RANKS, measure, table, write
from rankloop.logs import ImportOptions, import_columns
from rankloop.offline import open_log

ROWS = 20_000


def test_the_log_is_what_it_says(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    options = ImportOptions(features=tmp_path / "features.parquet")
    import_columns(tmp_path / "rows.parquet", tmp_path / "log", options=options)
    counts = open_log(tmp_path / "log").count()
    assert counts.rows == ROWS
    assert counts.policy_ids in (("new", "old"), ("old", "new"))
    assert counts.impressions == ROWS / RANKS
    assert np.diff(counts.offsets).max() == CANDIDATES
    # The most frequent query comes much more often than most.
    by_query = counts.impressions_by_query
    assert by_query.max() > 10 * np.median(by_query)
    before = pq.read_table(tmp_path / "rows.parquet")
    (tmp_path / "features.parquet").unlink()
    write(tmp_path, ROWS)
    assert pq.read_table(tmp_path / "rows.parquet").equals(before)


def test_a_command_is_measured_and_ended_if_it_takes_too_much(tmp_path: Path) -> None:
    done = measure(["--version"], tmp_path / "version.txt", limit_gb=10.0)
    assert done["result"] == 0
    assert done["cpu"] > 0
    assert 0.01 < done["peak_gb"] < 10.0
    assert (tmp_path / "version.txt").read_text().strip()
    # Python alone needs more.
    ended = measure(["--version"], tmp_path / "version.txt", limit_gb=0.001)
    assert ended["result"] == "too much memory"


def test_the_table_has_a_line_per_command() -> None:
    small = {"rows": 1_000, "command": "check", "seconds": 2.0, "cpu": 1.0, "peak_gb": 0.5, "result": 0}
    large = {**small, "rows": 10_000, "seconds": 9.0, "cpu": 4.0}
    failed = {**large, "command": "fit", "result": "too much memory"}
    lines = table([small, large, failed]).splitlines()
    assert lines[0] == "| command | 1,000 rows | 10,000 rows | growth |"
    assert lines[2] == "| check | 2 s, CPU 1 s, 0.5 GB | 9 s, CPU 4 s, 0.5 GB | 4.0 times |"
    assert lines[3] == "| fit | – | 9 s, CPU 4 s, 0.5 GB (too much memory) | – |"
