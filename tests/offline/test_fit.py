"""From a log to a ranker: the same as weights and training by hand, and what the log cannot teach is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.errors import RankloopError
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.models import Adam, Linear
from rankloop.models.specs import LightGBMSpec, LinearSpec
from rankloop.offline import open_log
from rankloop.progress import Update
from rankloop.training import DOUBLY_ROBUST, PAPER, ROBUST, Settings, Task, train_network, train_trees
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated

QUICK = replace(ROBUST, settings=Settings(epochs=3, caution=3.0))
TREES = "lightgbm(min_documents=2, rounds=5)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("fitting") / "log", queries=20, impressions=2_000)


def tasks(world: Simulated, train: Any, held_out: Any, learning: Any = QUICK) -> tuple[Task, Task]:
    found = world.log.statistics(BIAS)
    split = world.log.split()
    numbers = [np.flatnonzero(np.isin(found.query_ids, ids)) for ids in (train, held_out)]
    unclipped = learning.estimator if learning.clip_validation else learning.estimator.unclipped
    first, second = (
        Task(
            split.select(queries).features,
            split.select(queries).offsets,
            weigh.weights(found.statistics.select(queries), BIAS),
            learning.rank_weights(BIAS),
        )
        for queries, weigh in zip(numbers, (learning.estimator, unclipped), strict=True)
    )
    return first, second


def test_networks_are_trained_on_the_estimators_weights(world: Simulated) -> None:
    found = world.log.fit("linear", bias=BIAS, learning=QUICK, seed=5)
    assert (len(found.train_queries), len(found.stop_queries), len(found.held_out_queries)) == (16, 4, 20)
    assert sorted(found.train_queries + found.stop_queries) == world.split.query_ids.tolist()
    train, held_out = tasks(world, found.train_queries, found.stop_queries)
    rng = np.random.default_rng(5)
    rng.permutation(20)  # what decides when to stop is drawn first
    expected = train_network(
        LinearSpec().initialise(3, rng),
        train,
        held_out=held_out,
        settings=replace(QUICK.settings, caution=0.0),
        rng=rng,
        keep_start=False,
    )
    assert found.model.fingerprint == expected.model.fingerprint
    assert found.history == expected.history
    assert found.estimator == str(QUICK.estimator)


def test_trees_grow_from_nothing(world: Simulated) -> None:
    found = world.log.fit(TREES, bias=BIAS, learning=QUICK, seed=5)
    train, held_out = tasks(world, found.train_queries, found.stop_queries)
    rng = np.random.default_rng(5)
    rng.permutation(20)
    spec = LightGBMSpec(min_documents=2, rounds=5, objective="lambdarank")
    expected = train_trees(train, spec, held_out=held_out, rng=rng)
    # To the last byte what weights alone give: there is nothing of the bias in the model.
    assert found.model.to_bytes() == expected.model.to_bytes()
    assert found.spec == TREES
    assert found.bias is BIAS


@pytest.mark.parametrize("objective", ["lambdarank", "click-likelihood"])
def test_a_log_of_too_few_documents_for_trees_is_fitted_and_says_so(tmp_path: Path, objective: str) -> None:
    few = simulated(tmp_path / "log", queries=5)
    found = few.log.fit(f"lightgbm(objective={objective}, imitate=off)", bias=BIAS)
    (note,) = (note for note in found.notes if "no trees" in note)
    documents = few.split.select(
        np.flatnonzero(np.isin(few.split.query_ids, found.train_queries))
    ).n_documents
    assert f"the {documents} documents of the training queries are too few" in note
    assert found.comparison is not None
    assert not any("no trees" in note for note in few.log.fit("linear", bias=BIAS).notes)


def test_the_paper_does_not_clip_held_out_weights(world: Simulated) -> None:
    learning = replace(PAPER, settings=replace(PAPER.settings, epochs=2))
    found = world.log.fit("linear", bias=BIAS, learning=learning)
    _, held_out = tasks(world, found.train_queries, found.stop_queries, learning)
    assert found.best.held_out == held_out.value(found.model.scores(held_out.features))
    assert found.metric == "clicks"
    assert found.estimator == "intervention-aware"


def test_held_out_numbers_are_those_of_evaluate(world: Simulated, tmp_path: Path) -> None:
    """`fit` prints what `evaluate` says about the stored fit and its own log."""
    for model in ("linear", TREES):
        found = world.log.fit(model, bias=BIAS, learning=replace(DOUBLY_ROBUST, settings=QUICK.settings))
        judged = world.log.evaluate(found.save(tmp_path / "policy"), against="later")
        held = found.held_out
        assert held is not None
        assert (held.metric, held.against, held.queries) == (judged.metric, "later", 20)
        assert held.new == judged.new.estimate[:3]
        assert held.old == judged.against.estimate[:3]
        assert held.gain == judged.difference.estimate[:3]
        assert held.decision == judged.decision.kind


@pytest.mark.parametrize("model", ["linear", TREES, "lightgbm(min_documents=2, rounds=5, imitate=off)"])
def test_each_query_is_ranked_by_a_model_that_never_saw_it(tmp_path: Path, model: str) -> None:
    """If a query's own clicks change, the scores by which it is judged do not."""
    world = simulated(tmp_path / "log", queries=12, impressions=400)
    path = tmp_path / "log" / "impressions.parquet"
    before = world.log.fit(model, bias=BIAS, learning=QUICK).judged_scores
    assert before is not None
    assert before.folds == 5
    query = before.query_ids[0]
    table = pq.read_table(path)
    own = np.array(table["query_id"].to_pylist()) == query
    clicked = np.array(table["clicked"].to_pylist()) ^ own
    column = table.schema.get_field_index("clicked")
    pq.write_table(table.set_column(column, "clicked", pa.array(clicked)), path)
    (tmp_path / "log" / "checksums.json").unlink()
    after = open_log(tmp_path / "log").fit(model, bias=BIAS, learning=QUICK).judged_scores
    assert after is not None
    judged = before.query_ids == query
    np.testing.assert_array_equal(after.scores[judged], before.scores[judged])
    assert not np.array_equal(after.scores, before.scores)


def test_a_split_holds_queries_out_of_training_and_stopping(world: Simulated) -> None:
    found = world.log.fit("linear", bias=BIAS, learning=QUICK, judge="split")
    parts = (found.train_queries, found.stop_queries, found.held_out_queries)
    assert [len(part) for part in parts] == [13, 3, 4]
    assert sorted(sum(parts, ())) == world.split.query_ids.tolist()
    assert found.judged_scores is None
    assert found.comparison is not None
    assert found.comparison.queries == 4


def test_a_fit_that_is_not_judged_is_that_of_the_folds(world: Simulated) -> None:
    """The model that is kept does not depend on how it is judged by folds."""
    alone = world.log.fit(TREES, bias=BIAS, judge="none", seed=3)
    assert alone.held_out is None
    assert alone.model.to_bytes() == world.log.fit(TREES, bias=BIAS, seed=3).model.to_bytes()
    with pytest.raises(RankloopError, match="none judges it"):
        world.log.evaluate(alone, against="later")


def test_the_share_says_how_many_folds_there_are(world: Simulated) -> None:
    for share, folds in ((0.1, 10), (0.3, 3), (0.9, 3)):
        found = world.log.fit("linear", bias=BIAS, learning=QUICK, held_out=share).judged_scores
        assert found is not None
        assert found.folds == folds


def test_notes_of_training_do_not_show_the_training_objective(world: Simulated) -> None:
    """Its values would look like estimates of `evaluate`."""
    updates: list[Update] = []
    world.log.fit(TREES, bias=BIAS, progress=updates.append, judge="none")
    trees = [update for update in updates if update.detail]
    assert trees[0].note == "tree 0, best 0"
    # The time left follows from the share of the rounds.
    assert [update.share for update in trees] == [number / 5 for number in range(len(trees))]
    updates.clear()
    world.log.fit(TREES, bias=BIAS, progress=updates.append)
    trees = [update for update in updates if update.detail]
    assert trees[0].note == "model 1 of 6, tree 0, best 0"
    assert trees[-1].note.startswith("model 6 of 6")
    shares = [update.share for update in trees if update.share is not None]
    assert shares == sorted(shares)
    assert 5 / 6 < shares[-1] <= 1.0


def test_ctrl_c_keeps_the_best_model_so_far(world: Simulated) -> None:
    """The model of the first fold, which other queries can judge."""
    for model, unit in (("lightgbm(min_documents=2, rounds=50)", 3), ("linear", 2)):

        def interrupt(update: Update, at: int = unit) -> None:
            if getattr(update.detail, "number", 0) == at:
                raise KeyboardInterrupt

        found = world.log.fit(model, bias=BIAS, learning=QUICK, progress=interrupt)
        assert found.history[-1].number == unit
        (note,) = (note for note in found.notes if note.startswith("Training was interrupted"))
        assert "trained on 12 queries, stopped on 4, and is judged on 4 others" in note
        assert found.judged_scores is None
        assert found.held_out is not None


def test_ctrl_c_in_a_later_fold_keeps_the_model_of_the_first(world: Simulated) -> None:
    updates: list[Update] = []

    def interrupt(update: Update) -> None:
        updates.append(update)
        if "model 3 of" in update.note:
            raise KeyboardInterrupt

    found = world.log.fit("linear", bias=BIAS, learning=QUICK, progress=interrupt)
    whole = world.log.fit("linear", bias=BIAS, learning=QUICK)
    assert whole.judged_scores is not None
    own = np.isin(whole.judged_scores.query_ids, found.held_out_queries)
    scores = found.model.scores(
        world.split.features[
            np.isin(world.split.query_ids, found.held_out_queries)[
                np.repeat(np.arange(20), world.split.sizes)
            ]
        ]
    )
    np.testing.assert_array_equal(scores, whole.judged_scores.scores[own])
    assert found.held_out is not None
    assert found.held_out.queries == 4


@pytest.mark.parametrize(("impressions", "objective"), [(100, "click-likelihood"), (2_000, "lambdarank")])
def test_how_often_queries_come_decides_what_trees_are_grown_on(
    tmp_path: Path, impressions: int, objective: str
) -> None:
    log = simulated(tmp_path / "log", queries=20, impressions=impressions).log
    chosen = log.fit(TREES, bias=BIAS, seed=3)
    named = log.fit(f"lightgbm(min_documents=2, objective={objective}, rounds=5)", bias=BIAS, seed=3)
    assert chosen.model.to_bytes() == named.model.to_bytes()


@pytest.mark.parametrize("knows", [True, False])
def test_what_the_logging_policies_know_is_added(tmp_path: Path, knows: bool) -> None:
    """Few clicks alone were worse than the rankers that gathered them; now these are imitated, too.

    Rankers that know the labels gain .09 NDCG with this seed. The order of rankers that rank at random is not
    imitated, and so only clicks count.
    """
    split = rankloop.synthetic(queries=400, features=8, seed=6).train
    rng = np.random.default_rng(4)
    scores = 3.0 * split.labels / 4 if knows else rng.random(split.n_documents)
    shown = gather_log(scores, split.offsets, split.labels / 4, users("paper@5"), 600, rng)
    log = open_log(write_simulated(tmp_path / "log", split, [PolicyTraffic("production", scores, shown)]))
    names = ("lightgbm(imitate=off, rounds=20)", "lightgbm(rounds=20)")
    alone, both = (log.fit(name, bias="paper@5") for name in names)
    noted = any(note.startswith("The order in which documents were logged helps") for note in both.notes)
    assert noted == knows
    if not knows:
        assert both.model.fingerprint == alone.model.fingerprint
        return
    first, second = (
        rankloop.ranking_metrics(found.model.scores(split.features), split, ["ndcg@5"])["ndcg@5"]
        for found in (alone, both)
    )
    assert second > first + 0.03


def test_ctrl_c_while_the_order_is_imitated_keeps_the_trees_on_clicks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trees on clicks are complete: they are the best model so far."""
    log = simulated(tmp_path / "log", queries=20, impressions=100).log
    names = ("lightgbm(min_documents=2, rounds=5, imitate=off)", "lightgbm(min_documents=2, rounds=5)")
    alone = log.fit(names[0], bias=BIAS, judge="split")
    monkeypatch.setattr("rankloop.offline._fit.imitate_order", Mock(side_effect=KeyboardInterrupt))
    found = log.fit(names[1], bias=BIAS, judge="split")
    assert found.model.fingerprint == alone.model.fingerprint
    assert any(note.startswith("Training was interrupted") for note in found.notes)


def test_queries_that_came_later_are_held_out(tmp_path: Path) -> None:
    """A fit does not know clicks from after those that judge it."""
    day, start = 86_400_000_000, 1_704_067_200_000_000  # 2024-01-01
    third = [row._replace(impression_id=f"s{row.impression_id}", query_id="s") for row in ALWAYS[:6]]
    before = [row for row in ALWAYS if row.query_id != "s"]
    again = [row._replace(impression_id=f"again{row.impression_id}") for row in ALWAYS[:6]]
    rows = [row._replace(timestamp=start) for row in before]
    rows += [row._replace(timestamp=start + day) for row in (*third, *again)]
    log = log_of(tmp_path / "log", rows, FEATURES)
    found = log.fit("linear", bias=BIAS, learning=QUICK, held_out="2024-01-02")
    assert sorted(found.train_queries + found.stop_queries) == ["q", "r"]
    assert found.held_out_queries == ("s",)
    assert any("3 later impressions of earlier queries are used for neither" in note for note in found.notes)
    for time, message in (
        ("2024-01-09", "no query came for the first time"),
        ("2023-01-01", "no impressions before"),
        ("soon", "is not a time"),
    ):
        with pytest.raises(RankloopError, match=message):
            log.fit("linear", bias=BIAS, learning=QUICK, held_out=time)


def test_it_learns(world: Simulated) -> None:
    """The first feature is the label with noise: a linear model must find it."""
    found = world.log.fit(
        "linear", bias=BIAS, learning=replace(ROBUST, settings=Settings(Adam(0.05), epochs=30))
    )
    assert isinstance(found.model, Linear)
    first, *others = found.model.parameters[:-1]
    assert first > 3 * max(map(abs, others))
    assert found.held_out is not None
    assert found.held_out.new.value > found.held_out.old.value


def test_what_it_was_learned_from(world: Simulated) -> None:
    found = world.log.fit("linear", bias=BIAS, learning=QUICK)
    assert [(part.policy_id, part.impressions, part.queries) for part in found.policies] == [
        ("production", 1_000, 20),
        ("later", 1_000, 20),
    ]
    assert [part.clicks for part in found.policies] == [
        world.gathered[name].clicks.sum() for name in ("production", "later")
    ]
    exposures = world.log.statistics(BIAS).statistics.policies["later"].exposure.alpha
    assert found.policies[1].below[0.01] == pytest.approx((exposures < 0.01).mean())
    assert found.notes == ()
    facts = json.loads(json.dumps(found.to_dict()))
    assert (facts["kind"], facts["features"], facts["train_queries"]) == ("linear", 3, 16)
    assert facts["bias"]["alpha"] == BIAS.alpha.tolist()


def test_the_same_seed_and_counts_given_before_give_the_same(world: Simulated) -> None:
    first = world.log.fit("linear", bias=BIAS, learning=QUICK, seed=1)
    again = replace(world.log).fit("linear", bias=BIAS, learning=QUICK, seed=1)
    other = world.log.fit("linear", bias=BIAS, learning=QUICK, seed=2)
    assert first.to_dict() == again.to_dict()
    assert other.train_queries != first.train_queries


def test_every_epoch_is_reported(world: Simulated) -> None:
    updates: list[Update] = []
    found = world.log.fit(TREES, bias=BIAS, progress=updates.append)
    details = [update.detail for update in updates if update.detail]
    assert tuple(details[-len(found.history) :]) == found.history


def log_of(folder: Path, rows: list[Row], features: dict[str, Any]) -> Any:
    write_rows(folder, rows)
    pq.write_table(pa.table(features), folder / "features.parquet")
    return open_log(folder)


FEATURES = {
    "query_id": ["q", "q", "r", "r", "s", "s"],
    "doc_id": ["x", "y"] * 3,
    "age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}
ALWAYS = [
    Row(f"{query}{number}", query, "sorts", rank + 1, document, number == rank)
    for query in "qrs"
    for number in range(3)
    for rank, document in enumerate("xy")
]


def test_a_log_that_never_explores_is_warned_of(tmp_path: Path) -> None:
    found = log_of(tmp_path / "log", ALWAYS, FEATURES).fit("linear", bias=BIAS, learning=QUICK)
    assert any(note.startswith("The log does not explore") for note in found.notes)
    assert any(note.startswith("Exposures are estimated from how often") for note in found.notes)
    moved = [*ALWAYS, Row("again", "q", "sorts", 1, "y", True)]
    found = log_of(tmp_path / "moved", moved, FEATURES).fit("linear", bias=BIAS, learning=QUICK)
    assert not any(note.startswith("The log does not explore") for note in found.notes)


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        ([], FEATURES, "the log is empty"),
        (ALWAYS[:4], FEATURES, "only 1 query of the log has impressions"),
        (ALWAYS[:12], FEATURES, "only 2 queries of the log have impressions"),
        (ALWAYS, {**FEATURES, "age": [1.0, 2.0, 3.0, 4.0, 5.0, np.nan]}, "feature 'age' is missing"),
        (ALWAYS, {**FEATURES, "age": [1.0, 2.0, 3.0, 4.0, 5.0, np.inf]}, "feature 'age' is inf"),
        (ALWAYS, {**FEATURES, "doc_id": ["v", "w"] * 3}, "none of the log's 6 documents has features"),
    ],
)
def test_logs_that_are_refused(tmp_path: Path, rows: list[Row], features: Any, message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        log_of(tmp_path / "log", rows, features).fit("linear", bias=BIAS, learning=QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "mpl"}, "unknown model 'mpl', did you mean 'mlp'"),
        ({"learning": "robots"}, "unknown learning 'robots'"),
        ({"bias": "papr@3"}, "the bias 'papr@3' is neither a file nor the name of simulated users"),
        ({"judge": "fold"}, "a fit is judged by folds, split or none, not 'fold'"),
        ({"held_out": 0.0}, "the share of the queries to hold out is between 0 and 1"),
    ],
)
def test_options_that_are_refused(world: Simulated, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        world.log.fit(**{"bias": BIAS, **options})


@pytest.mark.parametrize(
    "model",
    ["two-tower", "mlp(objective=click-likelihood)", "lightgbm(objective=ips, rounds=5, min_documents=2)"],
)
def test_what_learns_from_clicks_directly_is_a_fit_like_any_other(
    world: Simulated, tmp_path: Path, model: str
) -> None:
    found = world.log.fit(model, bias=BIAS, seed=5)
    assert len(found.history) > 1
    assert found.comparison is not None
    path = found.save(tmp_path / "policy")
    stored = rankloop.load_fit(path)
    assert stored.model.fingerprint == found.model.fingerprint
    again = world.log.evaluate(path, found.comparison.against.name)
    assert again.difference.estimate == found.comparison.difference.estimate
    assert any("two-tower model knows no bias" in note for note in found.notes) == (model == "two-tower")
    # Whatever they learned, they rank: the scores of a query differ.
    scores = found.model.scores(world.split.features)
    assert np.ptp(scores[: world.split.offsets[1]]) > 0 or model.startswith("lightgbm")


@pytest.mark.parametrize(
    "model", ["two-tower", "linear(objective=click-likelihood)", "lightgbm(objective=ips)"]
)
def test_labels_cannot_train_what_learns_from_clicks(model: str) -> None:
    with pytest.raises(RankloopError, match="on the clicks of a log by rank"):
        rankloop.train(rankloop.synthetic(queries=30, features=3), model)
