"""Policies are judged on queries that they were not fitted to."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import RankloopError
from rankloop.offline import Fit, open_log
from rankloop.offline.fit_result import judge_on, load_fit
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("judged") / "log", queries=20, impressions=1_000)


@pytest.fixture(scope="module")
def fit(world: Simulated) -> Fit:
    return replace(world.log.fit("linear", bias=BIAS, judge="split"), name="new")


@pytest.fixture(scope="module")
def folded(world: Simulated) -> Fit:
    return replace(world.log.fit("linear", bias=BIAS), name="folded")


def test_a_fit_is_judged_on_its_held_out_queries_wherever_the_log_is(
    world: Simulated, fit: Fit, tmp_path: Path
) -> None:
    shutil.copytree(world.log.folder, tmp_path / "elsewhere")
    for log in (world.log, open_log(tmp_path / "elsewhere")):
        found = log.evaluate(fit, against="production")
        expected = log.evaluate(fit.model, "production", bias=BIAS, queries=fit.held_out_queries)
        assert (found.queries, found.impressions) == (4, expected.impressions)
        assert found.difference.estimate == pytest.approx(expected.difference.estimate)
        assert "Estimated on the 4 queries of this log that new was not fitted to." in found.notes
        assert found.new.name == "new"


def test_on_another_log_all_queries_are_used(fit: Fit, tmp_path: Path) -> None:
    shorter = simulated(tmp_path / "shorter", queries=20, impressions=500, seed=1).log
    assert judge_on(None, [fit, "production"], shorter.count()) == (None, ())
    longer = simulated(tmp_path / "longer", queries=20, impressions=1_500, seed=1).log
    ids, notes = judge_on(None, [fit], longer.count())
    assert ids is None
    assert notes[0].startswith("new was fitted to another log. If the impressions of that log are part of")


def test_other_queries_come_with_a_note_if_the_policy_was_fitted_to_them(world: Simulated, fit: Fit) -> None:
    counts = world.log.count()
    assert judge_on(fit.held_out_queries, [fit], counts) == (fit.held_out_queries, ())
    some = (*fit.held_out_queries, *fit.train_queries[:3])
    ids, notes = judge_on(some, [fit, fit.model], counts)
    assert ids == some
    assert notes[0].startswith("new was fitted to clicks on 3 of the queries of this evaluation")
    ids, notes = judge_on("all", [fit], counts)
    assert ids is None
    assert notes[0].startswith("new was fitted to clicks on all queries of this evaluation")


def test_two_fits_are_judged_on_queries_that_both_held_out(world: Simulated, fit: Fit) -> None:
    counts = world.log.count()
    other = replace(fit, held_out_queries=(*fit.held_out_queries[:2], fit.train_queries[0]))
    assert judge_on(None, [fit, other], counts).ids == tuple(sorted(fit.held_out_queries[:2]))
    apart = replace(fit, held_out_queries=fit.train_queries)
    with pytest.raises(RankloopError, match="no query was held out by both"):
        judge_on(None, [fit, apart], counts)


def test_models_and_policies_of_the_log_are_judged_on_all_queries(world: Simulated, fit: Fit) -> None:
    assert judge_on(None, [fit.model, "production"], world.log.count()) == (None, ())


def test_scores_of_folds_judge_a_fit_on_all_queries_of_its_own_log(
    world: Simulated, folded: Fit, tmp_path: Path
) -> None:
    counts = world.log.count()
    judged = judge_on(None, [folded], counts)
    assert judged.ids == tuple(world.split.query_ids.tolist())
    assert "Each of its 20 queries is ranked by one of 5 models" in judged.notes[0]
    # None of these scores has seen the clicks of its query, so that any choice of queries will do.
    assert judge_on("all", [folded], counts) == (None, ())
    assert judge_on(folded.train_queries[:3], [folded], counts) == (folded.train_queries[:3], ())
    known = folded.judged_scores
    assert known is not None
    table = pa.table({"query_id": known.query_ids, "doc_id": known.doc_ids, "score": known.scores})
    pq.write_table(table, tmp_path / "scores.parquet")
    own = world.log.evaluate(load_fit(folded.save(tmp_path / "folded")), against="production")
    by_table = world.log.evaluate(tmp_path / "scores.parquet", against="production", bias=BIAS)
    assert own.difference.estimate == pytest.approx(by_table.difference.estimate)
    # Elsewhere, the model itself ranks.
    other = simulated(tmp_path / "other", queries=20, impressions=500, seed=1).log
    found = other.evaluate(folded, against="production")
    assert found.difference.estimate == pytest.approx(
        other.evaluate(folded.model, against="production", bias=BIAS).difference.estimate
    )


def test_a_fit_by_folds_and_one_by_a_split_are_judged_on_the_queries_of_both(
    world: Simulated, fit: Fit, folded: Fit
) -> None:
    judged = judge_on(None, [folded, fit], world.log.count())
    assert judged.ids == tuple(sorted(fit.held_out_queries))
    assert len(judged.notes) == 2
