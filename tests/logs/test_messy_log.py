"""What was planted in a log is found, all of it and nothing else, and repaired: the log is as if clean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from examples.messy_log import USERS, Messy, write
from rankloop.clicks import bias_of
from rankloop.logs import ImportOptions, ImportReport, import_ubi, write_simulated
from rankloop.offline import open_log
from tests.statistics.equality import assert_same

SIZES = {"impressions": 1_500, "queries": 25}


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Messy:
    return write(tmp_path_factory.mktemp("shop"), **SIZES, seed=3)


@pytest.fixture(scope="module")
def report(messy: Messy) -> ImportReport:
    queries, events = messy.folder / "ubi_queries.jsonl", messy.folder / "ubi_events.jsonl"
    options = ImportOptions(features=messy.folder / "features.parquet")
    return import_ubi([queries, events], messy.folder / "log", options=options)


def test_what_was_planted_is_found(messy: Messy, report: ImportReport) -> None:
    assert {problem.name: problem.count for problem in report.problems} == messy.planted.problems
    assert report.aside == messy.planted.aside
    assert (report.impressions, report.rows, report.clicks) == (
        messy.planted.impressions,
        messy.planted.rows,
        messy.planted.clicks,
    )
    # Many kinds, and of most more than one.
    assert len(messy.planted.problems) >= 15
    assert sum(count > 1 for count in messy.planted.problems.values()) >= 13


def test_what_is_left_is_the_clean_log(messy: Messy, report: ImportReport, tmp_path: Path) -> None:
    """Statistics, exposures and features are those of the simulation, to the last bit."""
    bias = bias_of(USERS)
    clean = open_log(write_simulated(tmp_path / "clean", messy.split, messy.gathered))
    log = open_log(report.log)
    expected, found = clean.statistics(bias), log.statistics(bias)
    assert found.notes == expected.notes == ()
    assert found.query_ids.tolist() == expected.query_ids.tolist()
    assert_same(found.statistics, expected.statistics)
    np.testing.assert_array_equal(log.split().features, clean.split().features)


def test_the_log_has_two_policies_that_draw_from_their_scores(report: ImportReport) -> None:
    """With other seeds, the right scores would raise an alarm in one of a million logs."""
    found = open_log(report.log).check()
    assert [policy.policy_id for policy in found.policies] == ["production", "production-2"]
    assert [policy.explores for policy in found.policies] == [1.0, 1.0]
    assert found.warnings == ()
    assert [problem.name for problem in found.problems] == ["missing_times"]


def test_the_truth_is_beside_it(messy: Messy) -> None:
    truth = messy.folder / "truth"
    relevance = pq.read_table(truth / "relevance.parquet").to_pydict()
    assert relevance["relevance"] == (messy.split.labels / 4).tolist()
    assert messy.split.doc_ids is not None
    assert relevance["doc_id"] == messy.split.doc_ids.tolist()
    assert json.loads((truth / "users.json").read_text())["alpha"] == bias_of(USERS).alpha.tolist()
    assert json.loads((truth / "planted.json").read_text())["problems"] == messy.planted.problems


def test_the_same_seed_gives_the_same_files(messy: Messy, tmp_path: Path) -> None:
    write(tmp_path, **SIZES, seed=3)
    for name in ("ubi_queries.jsonl", "ubi_events.jsonl", "features.parquet", "truth/planted.json"):
        assert (tmp_path / name).read_bytes() == (messy.folder / name).read_bytes()
