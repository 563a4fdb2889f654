"""What a log is said to hold, and what it is warned of."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.clicks import gather_log, users
from rankloop.errors import DataError
from rankloop.logs import Columns, LogWriter, PolicyTraffic, import_columns, write_simulated
from rankloop.logs.defects import DefectFinder
from rankloop.logs.engines import engine
from rankloop.logs.problems import ProblemCounter
from rankloop.offline import open_log
from rankloop.progress import Update
from rankloop.types import Split
from tests.logs.logs_of import Row, write_rows

SECOND = 10**6


def deterministic(impressions: int) -> list[Row]:
    """A policy that always shows the same."""
    return [
        Row(i, "q", "fixed", position, document, i % 2 == position, i * SECOND)
        for i in range(impressions)
        for position, document in ((1, "x"), (2, "y"))
    ]


def test_what_is_in_a_log_by_hand(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "b", 1, "x", True, 10 * SECOND),
        Row("i", "q", "b", 2, "y", False, 10 * SECOND),
        Row("j", "q", "b", 1, "y", False, 20 * SECOND),
        Row("k", "r", "a", 1, "x", True, 30 * SECOND),
    ]
    candidates = {"policy_id": ["b"] * 4, "query_id": ["q"] * 4, "doc_id": list("vxyz")}
    candidates["score"] = [-np.inf, 0.0, 0.0, -12.0]  # type: ignore[list-document]
    folder = write_rows(tmp_path / "log", rows, candidates)
    pq.write_table(
        pa.table({"query_id": ["q"] * 4, "doc_id": list("vxyz"), "f": [1] * 4}), folder / "features.parquet"
    )
    found = open_log(folder).check()
    assert (found.rows, found.impressions, found.clicks) == (4, 3, 2)
    assert (found.queries, found.documents, found.positions) == (2, 5, 2)
    assert found.without_features == 1
    assert [policy.policy_id for policy in found.policies] == ["b", "a"]
    b, a = found.policies
    assert b.first == datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert b.last == datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC)
    assert (b.impressions, b.queries) == (2, 1)
    assert b.displays_by_position == (2, 1)
    assert b.click_rate_by_position == (1 / 2, 0.0)
    assert a.click_rate_by_position == (1.0, None)
    assert b.explores == 1.0
    assert a.explores is None
    assert b.support is not None
    assert (b.support.candidates, b.support.never_shown) == (4, 2 / 4)
    # v can never be shown; z is second with a chance near e⁻¹² / (1 + e⁻¹²), and hardly ever first.
    assert b.support.below == (2 / 4, 2 / 4, 1 / 4)
    assert a.support is None
    assert found.warnings == (
        "policy 'a' has no candidates: its exposures will be estimated from displays.",
        "1 documents have no features: models leave them out.",
    )
    assert [warning.code for warning in found.warnings] == ["no_candidates", "documents_without_features"]
    assert json.loads(json.dumps(found.to_dict()))["policies"][0]["first"] == "1970-01-01T00:00:10+00:00"


def test_policies_over_time(tmp_path: Path) -> None:
    """Impressions are counted, not rows; those without a time are in no period."""
    rows = [
        Row("i", "q", "b", 1, "x", True, 10 * SECOND),
        Row("i", "q", "b", 2, "y", False, 10 * SECOND),
        Row("j", "q", "b", 1, "y", False, 25 * SECOND),
        Row("k", "r", "a", 1, "x", True, 61 * SECOND),
        Row("l", "r", "a", 1, "x", True, 62 * SECOND),
        Row("m", "r", "a", 1, "x", True, None),
    ]
    found = open_log(write_rows(tmp_path / "log", rows)).check()
    assert found.period_seconds == 1
    assert (len(found.periods), found.periods[0]) == (53, datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC))
    nonzero = [
        {found.periods[i].timestamp(): n for i, n in enumerate(policy.impressions_by_period) if n}
        for policy in found.policies
    ]
    assert nonzero == [{10: 1, 25: 1}, {61: 1, 62: 1}]
    # The same where the writer has promised that all impressions start at the top.
    with LogWriter(tmp_path / "promised") as writer:
        writer.starts = True
        writer.write("impressions", pq.read_table(tmp_path / "log" / "impressions.parquet"))
    again = open_log(tmp_path / "promised").check()
    assert [p.impressions_by_period for p in again.policies] == [
        p.impressions_by_period for p in found.policies
    ]


def test_what_is_wrong_with_features_is_said(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", deterministic(1))
    features = {"query_id": ["q", "q"], "doc_id": ["x", "y"], "f": [1.0, np.inf]}
    pq.write_table(pa.table(features), folder / "features.parquet")
    found = open_log(folder).check()
    assert found.without_features == 0
    assert any("document 'y': feature 'f' is inf" in warning for warning in found.warnings)


def test_documents_that_are_shown_against_the_scores_are_warned_of(tmp_path: Path) -> None:
    candidates = {"policy_id": ["fixed"] * 2, "query_id": ["q"] * 2, "doc_id": ["x", "y"]}
    candidates["score"] = [0.0, -np.inf]  # type: ignore[list-document]
    found = open_log(write_rows(tmp_path / "log", deterministic(2), candidates)).check()
    support = found.policies[0].support
    assert support is not None
    assert (support.impossible, support.strangers) == (1, 0)
    assert (
        "policy 'fixed' showed 1 documents that it never shows according to its scores" in found.warnings[1]
    )


def test_progress_is_reported(tmp_path: Path) -> None:
    updates: list[Update] = []
    open_log(write_rows(tmp_path / "log", deterministic(1))).check(progress=updates.append)
    assert {update.task for update in updates} == {"check"}
    assert [update.note for update in updates] == [
        "counting", "computing exposures", "looking for problems", "checking features",
        "asking how users click", "asking what can be fitted and evaluated", "testing assumptions",
    ]  # fmt: skip


def test_a_policy_that_never_explores_is_warned_of(tmp_path: Path) -> None:
    found = open_log(write_rows(tmp_path / "log", deterministic(5))).check()
    (policy,) = found.policies
    assert policy.explores == 0.0
    assert found.warnings[0].startswith("policy 'fixed' does not explore")
    # One change in one of its queries, and it does.
    changed = [*deterministic(5), Row(99, "q", "fixed", 1, "y", False, 0)]
    assert open_log(write_rows(tmp_path / "other", changed)).check().policies[0].explores == 1.0


def simulated(scores: np.ndarray, logged: np.ndarray, folder: Path) -> Any:
    split = Split.build(np.eye(6), np.zeros(6), sizes=[6])
    log = gather_log(
        scores, split.offsets, np.full(6, 0.5), users("paper@3"), 2_000, np.random.default_rng(0)
    )
    return open_log(write_simulated(folder, split, [PolicyTraffic("a", logged, log)])).check()


def test_scores_that_do_not_explain_what_was_shown_are_noticed(tmp_path: Path) -> None:
    """With another seed, the right scores would raise an alarm in one of a million runs."""
    scores = np.arange(6) / 4
    right = simulated(scores, scores, tmp_path / "right").policies[0]
    assert right.misfit.value < right.misfit.bound
    wrong = simulated(scores, scores * 1.5, tmp_path / "wrong")
    assert "policy 'a' does not draw its rankings from its scores" in wrong.warnings[0]


def test_a_deterministic_policy_with_scores_is_noticed(tmp_path: Path) -> None:
    candidates = {
        "policy_id": ["fixed"] * 3,
        "query_id": ["q"] * 3,
        "doc_id": list("xyz"),
        "score": [2.0, 1.0, 0.0],
    }
    found = open_log(write_rows(tmp_path / "log", deterministic(200), candidates)).check()
    assert [warning.split(":")[0] for warning in found.warnings] == [
        "policy 'fixed' does not explore",
        "policy 'fixed' does not draw its rankings from its scores",
    ]


def test_strangers_and_queries_without_candidates_are_warned_of(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "a", 1, "x", True),
        Row("i", "q", "a", 2, "y", True),
        Row("j", "r", "a", 1, "z", True),
    ]
    candidates = {"policy_id": ["a"], "query_id": ["q"], "doc_id": ["x"], "score": [0.0]}
    found = open_log(write_rows(tmp_path / "log", rows, candidates)).check()
    support = found.policies[0].support
    assert support is not None
    assert (support.strangers, support.unknown) == (1, 1)
    assert "has no candidates for 1 of its queries" in found.warnings[0]
    assert "showed 1 documents that are not among its candidates" in found.warnings[1]
    assert "no timestamps" in found.warnings[2]


def test_problems_of_a_log_that_was_not_imported(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "a", 1, "x", True, 1),
        Row("i", "q", "a", 1, "x", True, 1),  # again
        Row("j", "q", "a", 1, "x", False, 1),
        Row("j", "q", "a", 1, "y", False, 1),  # two at one position
        Row("k", "q", "a", 1, "x", False, 1),
        Row("k", "r", "a", 2, "y", False, 1),  # two queries
        Row("l", "q", "a", 1, "x", False, 1),
        Row("l", "q", "a", 2, "x", False, 1),  # one document twice
        Row("m", "q", "a", 2, "x", False, 1),  # no first position
        Row("n", "q", "a", 1, "x", False, None),  # no time
    ]
    found = open_log(write_rows(tmp_path / "log", rows)).check()
    assert {problem.name: problem.count for problem in found.problems} == {
        "duplicate_rows": 1,
        "mixed_impressions": 1,
        "repeated_positions": 1,
        "repeated_documents": 1,
        "missing_positions": 1,
        "missing_times": 1,
    }
    assert found.problems[0].examples == ("impression 'i', policy 'a', query 'q', doc 'x'",)
    assert found.problems[0].done == "present in the log; `rankloop import columns` repairs it"
    assert found.problems[-1].done == "present in the log"


def messy(seed: int, timed: float) -> list[Row]:
    """Impressions of up to 40 documents, a row of some of which is wrong."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(60):
        time = SECOND if rng.random() < timed else None
        shown = [
            Row(f"i{number}", "q", "a", rank + 1, f"d{rank}", False, time)
            for rank in range(int(rng.choice([1, 2, 5, 31, 32, 40])))
        ]
        at = int(rng.integers(len(shown)))
        for change in rng.choice(
            ["nothing", "query", "policy", "doc", "position", "again", "gone"], number % 3
        ):
            if change == "again":
                shown.append(shown[at])
            elif change == "gone" and len(shown) > 1:
                del shown[at]
                at = 0
            elif change == "position":
                shown[at] = shown[at]._replace(position=int(rng.integers(1, 45)))
            elif change in ("query", "policy", "doc"):
                shown[at] = shown[at]._replace(**{f"{change}_id": f"d{rng.integers(3)}"})
        rows += shown
    return rows


@pytest.mark.parametrize("timed", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_impressions_that_are_not_looked_at_closely_have_no_problem(
    tmp_path: Path, seed: int, timed: float
) -> None:
    log = open_log(write_rows(tmp_path / "log", messy(seed, timed)))
    everything = ProblemCounter()
    with engine() as running:
        look = DefectFinder(running, everything)
        rows = running.table(log.files("impressions")).mutate(place=ibis.literal(0))
        look.impressions(look.distinct_rows(rows))
        closely = look.suspicious(rows, timed=timed > 0)
        assert closely is not None
        assert look.size(closely) < look.size(rows)
    problems = {problem.name: (problem.count, problem.examples) for problem in everything.problems()}
    assert len(problems) >= 4
    assert ("missing_times" in problems) == (timed > 0)
    found = log.check().problems
    assert {problem.name: (problem.count, problem.examples) for problem in found} == problems


def test_what_the_import_did_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("impression_id,query_id,position,doc_id,clicked\ni,q,1,x,1\ni,q,1,x,1\nj,q,1,x,0\n")
    report = import_columns(path, tmp_path / "log", columns=Columns(timestamp=None), policy="a")
    found = open_log(report.log).check()
    assert [problem["name"] for problem in found.imported] == ["duplicate_rows"]
    assert found.problems == ()
    (tmp_path / "log" / "import.json").write_text("[]")
    assert open_log(report.log).check().imported == ()


def test_deep_ranks_are_not_looked_at(tmp_path: Path) -> None:
    rows = [Row("i", "q", "a", position, f"d{position}", True, 1) for position in range(1, 31)]
    found = open_log(write_rows(tmp_path / "log", rows)).check()
    assert (found.rows, found.clicks, found.positions, found.left_out) == (30, 30, 30, 10)
    assert len(found.policies[0].displays_by_position) == 20
    assert "10 rows below position 20 are not in the tables by position." in found.warnings


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the log is empty"):
        open_log(write_rows(tmp_path / "log", [])).check()
