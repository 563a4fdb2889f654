"""From a log in files to statistics: against counting in memory, and by hand."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.errors import DataError, RankloopError
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.logs.counter import LogCounter
from rankloop.offline import open_log
from rankloop.types import Bias
from tests.logs.logs_of import (
    BIAS,
    Row,
    counted,
    names_in_order,
    simulated,
    statistics_in_memory,
    write_rows,
)
from tests.statistics.equality import assert_same

ONE_RANK = Bias(np.array([0.8]), np.array([0.1]), np.array([1.0]))


def test_a_simulated_log_has_the_statistics_it_has_in_memory(tmp_path: Path) -> None:
    split, gathered = simulated()
    log = open_log(write_simulated(tmp_path / "log", split, gathered))
    result = log.statistics(BIAS)
    assert names_in_order(result, split)
    assert_same(result.statistics, statistics_in_memory(split, gathered))
    assert result.notes == ()
    assert log.starts
    # Counting impressions one by one gives what counting first positions gives.
    assert_same(replace(log, starts=False).statistics(BIAS).statistics, result.statistics)


def test_the_last_statistics_are_kept(tmp_path: Path) -> None:
    split, gathered = simulated()
    log = open_log(write_simulated(tmp_path / "log", split, gathered))
    found = log.statistics(BIAS)
    assert log.statistics(Bias(BIAS.alpha, BIAS.beta, BIAS.examination)) is found
    other = Bias(0.5 * BIAS.alpha, BIAS.beta, BIAS.examination)
    halved = log.statistics(other).statistics
    for policy, part in found.statistics.policies.items():
        np.testing.assert_allclose(halved.policies[policy].exposure.alpha, 0.5 * part.exposure.alpha)


def test_a_policy_that_logs_again_is_one_policy(tmp_path: Path) -> None:
    split, (first, second) = simulated()
    parts = [first, second, PolicyTraffic(first.policy, first.scores, second.impressions)]
    result = open_log(write_simulated(tmp_path / "log", split, parts)).statistics(BIAS)
    assert_same(result.statistics, statistics_in_memory(split, parts))
    with pytest.raises(DataError, match="policy 'z' has two sets of scores"):
        write_simulated(tmp_path / "other", split, [first, replace(second, policy="z")])
    assert not (tmp_path / "other").exists()


ROWS = st.lists(
    st.builds(
        Row,
        impression_id=st.sampled_from(["i", "j", "k", "l"]),
        query_id=st.sampled_from(["q", "r"]),
        policy_id=st.sampled_from(["a", "b"]),
        position=st.integers(1, 4),
        doc_id=st.sampled_from(["x", "y", "10", "9"]),
        clicked=st.booleans(),
        timestamp=st.none() | st.integers(0, 10**15),
    ),
    min_size=1,
    max_size=25,
    unique_by=lambda row: (row.impression_id, row.query_id, row.policy_id, row.position),
)


@settings(max_examples=25)
@given(rows=ROWS, ranks=st.none() | st.integers(1, 4))
def test_counts_are_those_of_a_slow_count(rows: list[Row], ranks: int | None) -> None:
    """Impressions with gaps, without a first position, or of two queries count as what they are."""
    with tempfile.TemporaryDirectory() as folder:
        counts = open_log(write_rows(Path(folder) / "log", rows)).count(ranks)
    last = max(row.position for row in rows) if ranks is None else ranks
    expected = counted(row for row in rows if row.position <= last)
    query_of = np.repeat(counts.query_ids, np.diff(counts.offsets))
    cells = counts.cells
    names = [
        (counts.policy_ids[p], str(query_of[i]), str(counts.doc_ids[i]), int(k) + 1)
        for p, i, k in zip(cells.policy, cells.document, cells.position, strict=True)
    ]
    assert dict(zip(names, cells.displays.tolist(), strict=True)) == expected["displays"]
    clicks = zip(names, cells.clicks.tolist(), strict=True)
    assert {name: n for name, n in clicks if n} == expected["clicks"]
    came = {
        (policy, str(query)): int(counts.impressions_by_policy[p, q])
        for p, policy in enumerate(counts.policy_ids)
        for q, query in enumerate(counts.query_ids)
        if counts.impressions_by_policy[p, q]
    }
    assert came == counted(rows)["came"]
    assert (counts.rows, counts.left_out) == (cells.displays.sum(), len(rows) - cells.displays.sum())
    first = {policy: [row.timestamp for row in rows if row.policy_id == policy] for policy in "ab"}
    times = {
        p: min((t for t in all_times if t is not None), default=10**18) for p, all_times in first.items()
    }
    assert list(counts.policy_ids) == sorted((p for p in "ab" if first[p]), key=lambda p: (times[p], p))
    assert list(counts.query_ids) == sorted({row.query_id for row in rows})
    for q in range(counts.n_queries):
        own = counts.doc_ids[counts.offsets[q] : counts.offsets[q + 1]].tolist()
        assert own == sorted({row.doc_id for row in rows if row.query_id == counts.query_ids[q]})


def test_whole_numbers_are_ids_too(tmp_path: Path) -> None:
    rows = [Row(1, 7, "a", 1, 10, True), Row(1, 7, "a", 2, 9, False), Row(2, 7, "a", 1, 9, False)]
    candidates = {"policy_id": ["a", "a"], "query_id": [7, 7], "doc_id": [9, 10], "score": [0, 0]}
    result = open_log(write_rows(tmp_path / "log", rows, candidates)).statistics(ONE_RANK)
    assert result.query_ids.tolist() == ["7"]
    assert result.doc_ids.tolist() == ["10", "9"]
    assert result.statistics.displays_by_position.tolist() == [[1], [1]]
    np.testing.assert_allclose(result.statistics.policies["a"].exposure.alpha, [0.8 / 2, 0.8 / 2])
    assert result.left_out == 1
    assert result.notes == ("1 rows of impressions below position 1 are left out.",)


def test_a_table_may_be_a_folder_of_files(tmp_path: Path) -> None:
    split, gathered = simulated()
    whole = write_simulated(tmp_path / "whole", split, gathered)
    parts = tmp_path / "parts"
    for table in ("impressions", "candidates"):
        (parts / f"{table}.parquet").mkdir(parents=True)
        rows = pq.read_table(whole / f"{table}.parquet")
        for number, part in enumerate((rows[:7], rows[7:])):
            pq.write_table(part, parts / f"{table}.parquet" / f"part-{number}.parquet")
    log = open_log(parts)
    assert not log.starts
    assert_same(log.statistics(BIAS).statistics, statistics_in_memory(split, gathered))


def test_candidates_that_were_never_shown_are_documents(tmp_path: Path) -> None:
    rows = [Row("i", "q", "a", 1, "x", True)]
    candidates = {"policy_id": ["a"] * 3, "query_id": ["q", "q", "r"], "doc_id": ["x", "w", "v"]}
    candidates["score"] = [0.0, np.log(3.0), 1.0]
    result = open_log(write_rows(tmp_path / "log", rows, candidates)).statistics(ONE_RANK)
    assert result.doc_ids.tolist() == ["w", "x", "v"]
    seen = result.statistics.policies["a"].exposure
    np.testing.assert_allclose(seen.alpha, [0.8 * 3 / 4, 0.8 * 1 / 4, 0.8], rtol=1e-7)
    assert result.statistics.impressions_by_query.tolist() == [1, 0]
    assert result.estimated == {}


def test_without_candidates_exposures_are_estimated_and_every_report_can_say_so(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "a", 1, "x", True),
        Row("i", "q", "a", 2, "y", False),
        Row("j", "q", "a", 1, "y", False),
        Row("j", "q", "a", 2, "x", False),
        Row("k", "q", "a", 1, "x", False),
        Row("l", "r", "b", 1, "z", False),
    ]
    bias = Bias(np.array([0.5, 0.3]), beta=np.array([0.2, 0.1]), examination=np.array([1.0, 0.5]))
    result = open_log(write_rows(tmp_path / "log", rows)).statistics(bias)
    a, b = (result.statistics.policies[policy].exposure for policy in "ab")
    np.testing.assert_allclose(a.alpha, [(2 * 0.5 + 0.3) / 3, (0.5 + 0.3) / 3, 0])
    np.testing.assert_allclose(a.beta, [(2 * 0.2 + 0.1) / 3, (0.2 + 0.1) / 3, 0])
    np.testing.assert_allclose(b.examination, [0, 0, 1])
    assert result.estimated == {"a": 1, "b": 1}
    estimated, unknown = result.notes
    assert estimated.startswith("Exposures are estimated from how often each document was shown")
    assert "for: a (1 queries), b (1 queries)" in estimated
    # Nobody saw what a would have shown for r, nor b for q.
    assert result.unknown == {"a": 1, "b": 1}
    assert "would have shown: a (1 queries), b (1 queries)" in unknown


def test_only_what_has_no_candidates_is_estimated(tmp_path: Path) -> None:
    """Policy a has candidates for q alone, policy b has none."""
    rows = [
        Row("i", "q", "a", 1, "x", True),
        Row("j", "r", "a", 1, "z", True),
        Row("k", "q", "b", 1, "x", False),
    ]
    candidates = {"policy_id": ["a", "a"], "query_id": ["q", "q"], "doc_id": ["x", "y"], "score": [0.0, 0.0]}
    log = open_log(write_rows(tmp_path / "log", rows, candidates))
    result = log.statistics(ONE_RANK)
    np.testing.assert_allclose(result.statistics.policies["a"].exposure.alpha, [0.4, 0.4, 0.8])
    np.testing.assert_allclose(result.statistics.policies["b"].exposure.alpha, [0.8, 0.0, 0.0])
    assert result.estimated == {"a": 1, "b": 1}
    from_displays = replace(log, exposure="displays").statistics(ONE_RANK)
    np.testing.assert_allclose(from_displays.statistics.policies["a"].exposure.alpha, [0.8, 0.0, 0.8])
    assert from_displays.estimated == {"a": 2, "b": 1}


@pytest.mark.parametrize("exposure", ["candidates", "displays"])
def test_statistics_are_the_same_from_counts_made_before(
    tmp_path: Path, exposure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, gathered = simulated()
    log = open_log(write_simulated(tmp_path / "log", split, gathered), exposure=exposure)
    at_once = log.statistics(BIAS)
    for counted_before in (None, 2, 3, 4):
        again = replace(log)  # which has counted nothing
        again.count(counted_before)
        assert_same(again.statistics(BIAS).statistics, at_once.statistics)
    monkeypatch.setattr(LogCounter, "counts", None)  # the log is not counted again
    assert_same(again.statistics(BIAS).statistics, at_once.statistics)


@pytest.mark.parametrize("first", [None, 1, 2, 3, 9])
@pytest.mark.parametrize("then", [None, 1, 2, 3, 9])
def test_counts_of_one_number_of_ranks_follow_from_those_of_another(
    tmp_path: Path, first: int | None, then: int | None
) -> None:
    rows = [Row(f"i{i}", "q", "a", k + 1, f"d{(i + k) % 4}", i == k) for i in range(5) for k in range(3)]
    folder = write_rows(tmp_path / "log", rows)
    log, fresh = open_log(folder), open_log(folder).count(then)
    log.count(first)
    found = log.count(then)
    assert found is log.count(then)
    for name in ("positions", "rows", "left_out", "fingerprint", "policy_ids"):
        assert getattr(found, name) == getattr(fresh, name)
    for name in (
        "displays_by_position",
        "clicks_by_position",
        "impressions_by_policy",
        "query_ids",
        "doc_ids",
        "offsets",
    ):
        np.testing.assert_array_equal(getattr(found, name), getattr(fresh, name))


def test_the_fingerprint_of_a_log_is_that_of_its_content(tmp_path: Path) -> None:
    first, again, longer, other = (
        open_log(write_rows(tmp_path / name, rows)).fingerprint
        for name, rows in (
            ("first", SHOWN),
            ("again", SHOWN[::-1]),
            ("longer", [*SHOWN, Row("j", "q", "a", 1, "x", True)]),
            ("other", [SHOWN[0], Row("i", "q", "a", 2, "z", False)]),
        )
    )
    assert first == again
    assert len({first, longer, other}) == 3


SHOWN = [Row("i", "q", "a", 1, "x", True), Row("i", "q", "a", 2, "y", False)]


def candidates_of(*rows: tuple[str | None, str, str, float | None]) -> dict[str, list[object]]:
    names = ("policy_id", "query_id", "doc_id", "score")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([("a", "q", "x", 0.0)], "policy 'a', query 'q', document 'y': it was shown, but is not among"),
        (
            [("a", "q", "x", -np.inf), ("a", "q", "y", 0.0)],
            "policy 'a', query 'q', document 'x': it was shown, although by the policy's scores it never is",
        ),
        (
            [("a", "q", "x", 0.0), ("a", "q", "y", -np.inf)],
            r"document 'y': it was shown, although .* never is \(1 such documents",
        ),
        (
            [("a", "q", "x", -np.inf), ("a", "q", "y", -np.inf)],
            r"document 'x': it was shown, although .* never is \(2 such documents",
        ),
        ([("a", "q", "x", np.nan), ("a", "q", "y", 0.0)], "document 'x': the score is nan"),
        ([("a", "q", "x", np.inf), ("a", "q", "y", 0.0)], "document 'x': the score is inf"),
        ([("a", "q", "x", -1e9), ("a", "q", "y", 0.0)], "document 'x': the score is -1000000000.0"),
        ([("a", "q", "x", None), ("a", "q", "y", 0.0)], "document 'x': the score is None"),
        ([(None, "q", "x", 1.0), ("a", "q", "y", 0.0)], "policy None, query 'q', document 'x'"),
        (
            [("a", "q", "x", 0.0), ("a", "q", "y", 1.0), ("a", "q", "y", 2.0)],
            "policy 'a', query 'q', document 'y': 2 rows; a policy has one score",
        ),
    ],
)
def test_candidates_that_cannot_be_are_refused(
    tmp_path: Path, candidates: list[tuple[str, str, str, float]], message: str
) -> None:
    log = open_log(write_rows(tmp_path / "log", SHOWN, candidates_of(*candidates)))
    bias = Bias(np.full(2, 0.5), np.full(2, 0.1), np.ones(2))
    with pytest.raises(DataError, match=message):
        log.statistics(bias)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Row("j", "q", "a", 0, "x", False), "document 'x': the position is 0, but positions count from 1"),
        (Row("j", "q", "a", -3, "x", False), "the position is -3"),
        (Row(None, "q", "a", 1, "x", False), "1 rows without 'impression_id'"),  # type: ignore[arg-type]
        (Row("j", "q", None, 1, "x", False), "policy None, .*: 1 rows without 'policy_id'"),  # type: ignore[arg-type]
        (Row("j", None, "a", 1, "x", False), "1 rows without 'query_id'"),  # type: ignore[arg-type]
        (Row("j", "q", "a", 1, None, False), "1 rows without 'doc_id'"),  # type: ignore[arg-type]
        (Row("j", "q", "a", None, "x", False), "1 rows without 'position'"),  # type: ignore[arg-type]
        (Row("j", "q", "a", 1, "z", None), "1 rows without 'clicked'"),  # type: ignore[arg-type]
    ],
)
def test_rows_that_cannot_be_are_refused(tmp_path: Path, row: Row, message: str) -> None:
    log = open_log(write_rows(tmp_path / "log", [*SHOWN, row]))
    with pytest.raises(DataError, match=message):
        log.count()


def test_candidates_of_queries_that_never_came_are_known(tmp_path: Path) -> None:
    """Policy b was never asked for q: with its candidates there, what it would have shown is known."""
    rows = [Row("i", "q", "a", 1, "x", True), Row("j", "r", "b", 1, "z", False)]
    both = [("a", "q", "x", 0.0), ("a", "r", "z", 0.0), ("b", "r", "z", 0.0)]
    known = candidates_of(*both, ("b", "q", "x", 0.0), ("b", "q", "y", 0.0))
    log = open_log(write_rows(tmp_path / "known", rows, known))
    result = log.statistics(ONE_RANK)
    assert (result.estimated, result.unknown, result.notes) == ({}, {}, ())
    np.testing.assert_allclose(result.statistics.policies["b"].exposure.alpha, [0.4, 0.4, 0.8])
    assert result.statistics.policies["b"].impressions_by_query.tolist() == [0, 1]
    result = open_log(write_rows(tmp_path / "log", rows, candidates_of(*both))).statistics(ONE_RANK)
    assert (result.estimated, result.unknown) == ({}, {"b": 1})
    assert "b (1 queries). Their exposures are set to 0 there" in result.notes[0]
    np.testing.assert_allclose(result.statistics.policies["b"].exposure.alpha, [0.0, 0.8])


def test_what_is_never_shown_has_no_exposure(tmp_path: Path) -> None:
    """A score of -inf is fine for what was not shown, and for all of a query that never came."""
    never = [("a", "q", "z", -np.inf), ("a", "r", "v", -np.inf), ("a", "r", "w", -np.inf)]
    candidates = candidates_of(("a", "q", "x", 0.0), ("a", "q", "y", 0.0), *never)
    bias = Bias(np.full(2, 0.5), np.full(2, 0.1), np.ones(2))
    result = open_log(write_rows(tmp_path / "log", SHOWN, candidates)).statistics(bias)
    np.testing.assert_allclose(result.statistics.policies["a"].exposure.alpha, [0.5, 0.5, 0, 0, 0])
    np.testing.assert_allclose(result.statistics.policies["a"].exposure.beta, [0.1, 0.1, 0, 0, 0])


def test_a_rank_that_nobody_sees_says_nothing_against_scores(tmp_path: Path) -> None:
    """By its scores x is never shown; that it was, where nobody looks, has no weight."""
    rows = [Row("i", "q", "a", 1, "y", False), Row("i", "q", "a", 2, "x", False)]
    candidates = candidates_of(("a", "q", "x", -np.inf), ("a", "q", "y", 0.0))
    bias = Bias(np.array([0.5, 0.0]), np.array([0.1, 0.0]), np.array([1.0, 0.0]))
    result = open_log(write_rows(tmp_path / "log", rows, candidates)).statistics(bias)
    np.testing.assert_allclose(result.statistics.policies["a"].exposure.alpha, [0, 0.5])


def test_repeated_rows_are_refused_by_the_name_of_their_query(tmp_path: Path) -> None:
    rows = [*SHOWN, Row("j", "cat", "a", 1, "x", False), Row("j", "cat", "a", 1, "y", False)]
    log = open_log(write_rows(tmp_path / "log", rows))
    with pytest.raises(DataError, match=r"query 'cat' has 1 impressions, but 2 rows at position 1: rows are"):
        log.statistics(ONE_RANK)


def test_absurd_positions_do_not_ask_for_all_memory(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", [*SHOWN, Row("j", "q", "a", 2**40, "x", False)]))
    with pytest.raises(DataError, match=r"the deepest position is 1,099,511,627,776: choose how many ranks"):
        log.count()
    assert (log.count(3).rows, log.count(3).left_out) == (2, 1)


@pytest.mark.parametrize("name", ["a[b]", "c*", "o'brien", "{x,y}", "what?"])
def test_folders_with_odd_names(tmp_path: Path, name: str) -> None:
    """Databases take brackets and stars for patterns."""
    whole = write_rows(tmp_path / name / "whole", SHOWN)
    parts = tmp_path / name / "parts" / "impressions.parquet"
    parts.mkdir(parents=True)
    (parts / "0.parquet").write_bytes((whole / "impressions.parquet").read_bytes())
    assert open_log(whole).count().rows == open_log(parts.parent).count().rows == 2


def test_times_that_are_none_are_refused(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True, 2**62)]))
    with pytest.raises(DataError, match="a timestamp is outside the years 1 to 9999"):
        log.count()


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", []))
    with pytest.raises(DataError, match="the log is empty: it has no rows of impressions"):
        log.statistics(BIAS)


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", SHOWN))
    with pytest.raises(RankloopError, match="unknown engine 'hive': choose duckdb, spark or postgres"):
        replace(log, engine="hive")
    with pytest.raises(RankloopError, match="is for Spark"):
        replace(log, master="local")
    for ranks in (0, 1_001):
        with pytest.raises(
            RankloopError, match=f"the number of ranks must be between 1 and 1,000, got {ranks}"
        ):
            log.count(ranks)
    with pytest.raises(RankloopError, match="candidates or displays, not from 'scores'"):
        replace(log, exposure="scores")  # type: ignore[arg-type]
