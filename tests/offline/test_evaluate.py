"""Two policies compared by a log: the estimators' number, every way to name a policy, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.estimators import InterventionAware
from rankloop.models import Linear
from rankloop.offline import Comparison, EvaluationOptions, Log, open_log
from rankloop.offline.comparison import ESTIMATOR
from rankloop.policies import expected_rank_weights, sorted_rank_weights
from rankloop.progress import Update
from rankloop.ragged import segment_sum
from rankloop.rank_weights import dcg
from rankloop.types import Bias
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated, write_scores

FEW = "Only 8 queries are used"


def evaluate(log: Log, bias: Bias, policy: Any, against: Any, **options: Any) -> Comparison:
    """`Log.evaluate`, with its options one by one."""
    chosen = {name: options.pop(name) for name in ("ranking", "rerank", "support", "seed") if name in options}
    return log.evaluate(policy, against, bias=bias, options=EvaluationOptions(**chosen), **options)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("evaluating") / "log")


@pytest.fixture
def linear(world: Simulated) -> Linear:
    return Linear(world.split.n_features, np.array([1.0, 0.2, -0.1, 0.0]))


def by_weights(world: Simulated, earned: Any, estimator: InterventionAware = ESTIMATOR) -> float:
    """R̂(π) = 1/n Σ_q Σ_d λ_d w_d, by the estimator's own weights."""
    weights = estimator.weights(world.log.statistics(BIAS).statistics, BIAS)
    return float(segment_sum(weights * earned, world.split.offsets).mean())


def test_the_estimate_is_that_of_the_estimators_weights(world: Simulated, linear: Linear) -> None:
    scores = linear.scores(world.split.features)
    drawn = evaluate(world.log, BIAS, linear, "production", ranking="drawn", support=0.0)
    earned = expected_rank_weights(scores, world.split.offsets, dcg(3))
    assert drawn.new.estimate.value == pytest.approx(by_weights(world, earned), rel=1e-10)
    found = evaluate(world.log, BIAS, linear, "production", support=0.0)
    earned = sorted_rank_weights(scores, world.split.offsets, dcg(3))
    assert found.new.estimate.value == pytest.approx(by_weights(world, earned), rel=1e-10)
    own = expected_rank_weights(world.scores["production"], world.split.offsets, dcg(3))
    assert found.against.estimate.value == pytest.approx(by_weights(world, own), rel=1e-10)
    difference = found.new.estimate.value - found.against.estimate.value
    assert found.difference.estimate.value == pytest.approx(difference)
    assert found.estimator == str(ESTIMATOR)
    assert (found.metric, found.impressions, found.queries) == ("dcg@3", 400, 8)
    assert (found.new.ranking, found.against.ranking) == ("sorted", "drawn")


def test_clicks_are_alpha_times_relevance_and_beta(world: Simulated, linear: Linear) -> None:
    found = evaluate(world.log, BIAS, linear, "later", metric="clicks", support=0.0)
    scores, offsets = linear.scores(world.split.features), world.split.offsets
    came = world.log.statistics(BIAS).statistics.impressions_by_query
    always = segment_sum(sorted_rank_weights(scores, offsets, BIAS.beta), offsets)
    expected = by_weights(world, sorted_rank_weights(scores, offsets, BIAS.alpha))
    expected += float(np.average(always, weights=came))
    assert found.new.estimate.value == pytest.approx(expected, rel=1e-10)


def test_a_policys_own_clicks_are_near_what_was_clicked(world: Simulated) -> None:
    """400 impressions; the rate of clicks is known to ± 0.05, so that four deviations are a false alarm."""
    single = {name: log.clicks.sum(axis=1).mean() for name, log in world.gathered.items()}
    found = evaluate(world.log, BIAS, "later", "production", metric="clicks")
    assert found.new.estimate.value == pytest.approx(single["later"], abs=0.3)
    assert found.against.estimate.value == pytest.approx(single["production"], abs=0.3)


def test_every_way_to_name_a_policy_gives_the_same(world: Simulated, linear: Linear, tmp_path: Path) -> None:
    scores = linear.scores(world.split.features)
    stored = rankloop.save(linear, tmp_path / "linear.rankloop")
    table = write_scores(tmp_path / "scores.parquet", world.split, scores)
    csv = tmp_path / "scores.csv"
    rows = pq.read_table(table).to_pylist()
    csv.write_text(
        "query_id,doc_id,score\n"
        + "".join(f"{r['query_id']},{r['doc_id']},{r['score']!r}\n" for r in rows[::-1])
    )
    expected = evaluate(world.log, BIAS, linear, "production")
    for policy in (stored, str(stored), table, csv):
        found = evaluate(world.log, BIAS, policy, "production")
        assert found.new.name == Path(policy).name
        # DuckDB adds in the order in which its threads come.
        assert found.against.estimate == pytest.approx(expected.against.estimate)
        assert found.difference.estimate == pytest.approx(expected.difference.estimate)
        assert (found.impressions, found.queries) == (expected.impressions, expected.queries)
        assert found.new.estimate == pytest.approx(expected.new.estimate)
    drawn = write_scores(tmp_path / "own.parquet", world.split, world.scores["production"])
    same = evaluate(world.log, BIAS, drawn, "production", ranking="drawn")
    assert same.difference.estimate.value == pytest.approx(0.0, abs=1e-12)
    assert same.decision.kind == "same"
    assert same.difference.estimate == (0.0,) * 6


def test_the_same_seed_gives_the_same(world: Simulated, linear: Linear) -> None:
    first, again = (evaluate(world.log, BIAS, linear, "production", seed=3) for _ in range(2))
    assert first == again
    other = evaluate(world.log, BIAS, linear, "production", seed=4)
    assert other.difference.estimate.low != first.difference.estimate.low
    assert other.difference.estimate.value == first.difference.estimate.value


def test_on_some_queries_alone(world: Simulated, linear: Linear) -> None:
    chosen = ["q001", "q004", "q006"]
    found = evaluate(world.log, BIAS, linear, "production", queries=chosen, support=0.0)
    numbers = [1, 4, 6]
    statistics = world.log.statistics(BIAS).statistics.select(numbers)
    split = world.split.select(numbers)
    earned = sorted_rank_weights(linear.scores(split.features), split.offsets, dcg(3))
    weights = ESTIMATOR.weights(statistics, BIAS)
    expected = float(segment_sum(weights * earned, split.offsets).mean())
    assert found.new.estimate.value == pytest.approx(expected, rel=1e-10)
    assert (found.queries, found.impressions) == (3, statistics.impressions)


def test_documents_that_the_log_does_not_know_are_outside_its_support(
    world: Simulated, tmp_path: Path
) -> None:
    top = {("q000", "stranger"): 99.0, ("elsewhere", "d0"): 1.0}
    table = write_scores(tmp_path / "scores.parquet", world.split, world.scores["production"], top)
    found = evaluate(world.log, BIAS, table, "production", support=0.0)
    came = world.log.statistics(BIAS).statistics.impressions_by_query
    share, theta = came[0] / came.sum(), dcg(3)
    per_query = np.array([theta[: min(size, 3)].sum() for size in world.split.sizes])
    # It stands on top, and moves the others of its query down.
    per_query[0] = theta[: min(world.split.sizes[0] + 1, 3)].sum()
    assert found.new.outside == pytest.approx(share * theta[0] / np.average(per_query, weights=came))
    assert found.against.outside == 0.0
    assert found.new.if_nothing == pytest.approx(found.new.estimate.value - share * theta[0] * found.guess)
    assert found.new.if_everything == pytest.approx(
        found.new.estimate.value + share * theta[0] * (1 - found.guess)
    )
    gain = found.difference
    assert gain.lowest == pytest.approx(gain.estimate.low - share * theta[0] * found.guess)


def test_documents_without_a_score_are_not_shown(world: Simulated, tmp_path: Path) -> None:
    scores = world.scores["production"].copy()
    hidden = write_scores(
        tmp_path / "hidden.parquet", world.split, np.where(np.arange(len(scores)) == 0, -np.inf, scores)
    )
    rows = pq.read_table(hidden)
    pq.write_table(rows.slice(1), tmp_path / "missing.parquet")
    first, second = (
        evaluate(world.log, BIAS, tmp_path / f"{name}.parquet", "later") for name in ("hidden", "missing")
    )
    assert second.new.estimate == first.new.estimate


def test_a_document_below_the_support_counts_as_average(world: Simulated, linear: Linear) -> None:
    everything = evaluate(world.log, BIAS, linear, "production", support=0.999)
    assert everything.new.outside == pytest.approx(1.0)
    sums = sorted_rank_weights(linear.scores(world.split.features), world.split.offsets, dcg(3))
    came = world.log.statistics(BIAS).statistics.impressions_by_query
    expected = everything.guess * np.average(segment_sum(sums, world.split.offsets), weights=came)
    assert everything.new.estimate.value == pytest.approx(expected)
    assert everything.new.if_nothing == pytest.approx(0.0)


def without(world: Simulated, folder: Path, table: str) -> Any:
    for path in world.log.folder.iterdir():
        if path.name != f"{table}.parquet":
            folder.mkdir(exist_ok=True)
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "checksums.json").unlink(missing_ok=True)
    return open_log(folder)


def test_a_log_without_candidates_goes_by_displays(world: Simulated, tmp_path: Path) -> None:
    log = without(world, tmp_path / "log", "candidates")
    found = evaluate(log, BIAS, "later", "production")
    displays = log.count(3)
    number = displays.policy_ids.index("later")
    came = np.repeat(displays.impressions_by_policy[number], np.diff(displays.offsets))
    earned = displays.displays_of(number) @ dcg(3) / came
    weights = ESTIMATOR.weights(log.statistics(BIAS).statistics, BIAS)
    assert found.new.estimate.value == pytest.approx(segment_sum(weights * earned, displays.offsets).mean())
    assert found.new.ranking == "as displayed"
    assert "Exposures are estimated from how often each document was shown" in found.notes[0]
    same = evaluate(replace(world.log, exposure="displays"), BIAS, "later", "production")
    assert same.new.estimate.value == pytest.approx(found.new.estimate.value)


def test_queries_that_never_came_under_a_policy_without_candidates_are_left_out(tmp_path: Path) -> None:
    rows = [
        Row("1", "q", "a", 1, "x", True),
        Row("2", "q", "b", 1, "y", False),
        Row("3", "r", "a", 1, "x", True),
    ]
    found = evaluate(open_log(write_rows(tmp_path / "log", rows)), BIAS, "a", "b")
    assert (found.queries, found.impressions) == (1, 2)
    assert "1 queries are left out: policy 'b' never served them" in " ".join(found.notes)


def test_few_queries_are_said_to_be_few(world: Simulated, linear: Linear) -> None:
    assert evaluate(world.log, BIAS, linear, "production").notes[0].startswith(FEW)


def test_progress_is_told(world: Simulated, linear: Linear) -> None:
    updates: list[Update] = []
    evaluate(world.log, BIAS, linear, "production", progress=updates.append)
    assert {update.task for update in updates} == {"evaluate"}
    assert [update.note for update in updates] == [
        "counting", "computing exposures", "ranking", "summing over impressions", "resampling queries",
        "testing assumptions",
    ]  # fmt: skip


def empty_log(folder: Path) -> Any:
    return open_log(write_rows(folder, []))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"new": "nobody"},
            "'nobody' is neither a policy of the log nor a stored policy: .*'production', 'later'",
        ),
        ({"against": "nobody"}, "'nobody' is neither a policy of the log"),
        ({"new": Linear(9, np.zeros(10))}, "3 features, but .* takes 9: give the features"),
        (
            {"metric": "ndcg@5"},
            "'ndcg@5' cannot be estimated from clicks: expected 'clicks', 'dcg' or",
        ),
        ({"metric": "clicks@5"}, "expected 'clicks', 'dcg' or a cut-off"),
        ({"ranking": "shuffled"}, "rankings are sorted or drawn, not 'shuffled'"),
        ({"support": 1.5}, "support is an expected α"),
        ({"rerank": "page"}, "policies re-rank each impression or query, not 'page'"),
        ({"queries": ["q000", "nowhere"]}, "query 'nowhere' is not in the log"),
        ({"queries": []}, "none of the 0 requested queries has an impression"),
    ],
)
def test_what_is_refused(world: Simulated, arguments: dict[str, Any], message: str) -> None:
    policies = {"new": "later", "against": "production"} | arguments
    with pytest.raises(RankloopError, match=message):
        evaluate(world.log, BIAS, policies.pop("new"), policies.pop("against"), **policies)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": [np.nan]}, "query 'q000', document 'd0': the score is nan"),
        ({"score": [1e9]}, "the score is 1000000000.0"),
        ({"score": ["high"]}, "the column 'score' holds string; expected numbers"),
        (
            {"query_id": ["q000"] * 2, "doc_id": ["d0", None], "score": [1, 2]},
            "a row has no query_id or no doc_id",
        ),
        ({}, "no scores for query 'q001' \\(7 of 8 queries in total\\)"),
        ({"query_id": ["q000"] * 2, "doc_id": ["d0"] * 2, "score": [1, 2]}, "it has more than one score"),
        ({"score": None}, "the column 'score' is missing"),
    ],
)
def test_tables_of_scores_that_are_refused(
    world: Simulated, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    columns = {"query_id": ["q000"], "doc_id": ["d0"], "score": [1.0]} | change
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(RankloopError, match=message):
        evaluate(world.log, BIAS, tmp_path / "bad.parquet", "production")


def test_a_file_that_is_no_table(world: Simulated, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"not a table")
    with pytest.raises(RankloopError, match="the scores cannot be read"):
        evaluate(world.log, BIAS, tmp_path / "bad.parquet", "production")
    (tmp_path / "bad.model").write_bytes(b"not a model")
    with pytest.raises(RankloopError, match="not a model file"):
        evaluate(world.log, BIAS, tmp_path / "bad.model", "production")


def test_an_empty_log_and_one_without_features(world: Simulated, linear: Linear, tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="the log is empty"):
        evaluate(empty_log(tmp_path / "empty"), BIAS, "a", "b")
    log = without(world, tmp_path / "log", "features")
    with pytest.raises(RankloopError, match=r"the log has no features.parquet"):
        evaluate(log, BIAS, linear, "production")


def test_a_log_explores_if_a_query_ever_had_two_rankings(tmp_path: Path) -> None:
    """That a log never explores was said by `fit` alone; the decision of `evaluate` was firm all the same."""
    static = [
        Row(f"{n}", "q", "a", k + 1, document, n % 3 == k)
        for n in range(6)
        for k, document in enumerate("xy")
    ]
    log = open_log(write_rows(tmp_path / "static", static))
    table = tmp_path / "other.csv"
    table.write_text("query_id,doc_id,score\nq,x,0\nq,y,1\n")
    found = evaluate(log, BIAS, table, "a")
    assert not found.holds("exploration")
    assert found.decision.kind not in ("better", "worse")
    assert "the log never explores" in found.conclusion
    swapped = [*static, Row("9", "q", "a", 1, "y", False), Row("9", "q", "a", 2, "x", False)]
    varied = open_log(write_rows(tmp_path / "varied", swapped))
    assert evaluate(varied, BIAS, table, "a").holds("exploration")
    # Queries that never come again: whether documents move between queries.
    once = [Row("1", "q", "a", 1, "x", True), Row("2", "r", "a", 1, "x", False)]
    assert not evaluate(open_log(write_rows(tmp_path / "once", once)), BIAS, "a", "a").holds("exploration")
    moved = [*once, Row("3", "s", "a", 1, "y", True), Row("3", "s", "a", 2, "x", False)]
    assert evaluate(open_log(write_rows(tmp_path / "moved", moved)), BIAS, "a", "a").holds("exploration")


def test_a_measure_may_have_more_ranks_than_the_bias(tmp_path: Path) -> None:
    """A logged policy was valued down to the last rank of the bias, a table to that of the metric."""
    rows = [Row(f"{n}", "q", "a", k + 1, f"d{k}", False) for n in range(3) for k in range(5)]
    log = open_log(write_rows(tmp_path / "log", rows))
    table = tmp_path / "copy.csv"
    table.write_text("query_id,doc_id,score\n" + "".join(f"q,d{k},{-k}\n" for k in range(5)))
    for rerank in ("impression", "query"):
        assert evaluate(log, BIAS, table, "a", metric="dcg@5", rerank=rerank).decision.kind == "same"
