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
    assert (len(found.train_queries), len(found.held_out_queries)) == (16, 4)
    assert sorted(found.train_queries + found.held_out_queries) == world.split.query_ids.tolist()
    train, held_out = tasks(world, found.train_queries, found.held_out_queries)
    rng = np.random.default_rng(5)
    rng.permutation(20)  # what is held out is drawn first
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
    train, held_out = tasks(world, found.train_queries, found.held_out_queries)
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
    _, held_out = tasks(world, found.train_queries, found.held_out_queries, learning)
    assert found.best.held_out == held_out.value(found.model.scores(held_out.features))
    assert found.metric == "clicks"
    assert found.estimator == "intervention-aware"


def test_held_out_numbers_are_those_of_evaluate(world: Simulated) -> None:
    """Values of `fit` and `evaluate` differed up to 13-fold for one model and the same held-out queries.

    The estimates of `fit` were shrunk by the strength of the training weights; now both print the same
    numbers.
    """
    for model in ("linear", TREES):
        found = world.log.fit(model, bias=BIAS, learning=replace(DOUBLY_ROBUST, settings=QUICK.settings))
        judged = world.log.evaluate(found, against="later")
        held = found.held_out
        assert held is not None
        assert (held.metric, held.against, held.queries) == (judged.metric, "later", 4)
        assert held.new == judged.new.estimate[:3]
        assert held.old == judged.against.estimate[:3]
        assert held.gain == judged.difference.estimate[:3]
        assert (held.decision, held.text) == (judged.decision.kind, judged.conclusion)


def test_notes_of_training_do_not_show_the_training_objective(world: Simulated) -> None:
    """Progress said "held out" and a value that looked like an estimate of `evaluate` and was not one."""
    updates: list[Update] = []
    world.log.fit(TREES, bias=BIAS, progress=updates.append)
    trees = [update for update in updates if update.detail]
    assert trees[0].note == "tree 0, best 0"
    # The time left follows from the share of the rounds.
    assert [update.share for update in trees] == [number / 5 for number in range(len(trees))]


def test_ctrl_c_keeps_the_best_model_so_far(world: Simulated) -> None:
    """Ctrl-C lost everything that had been trained; now the best model until then is the result."""
    for model, unit in (("lightgbm(min_documents=2, rounds=50)", 3), ("linear", 2)):

        def interrupt(update: Update, at: int = unit) -> None:
            if getattr(update.detail, "number", 0) == at:
                raise KeyboardInterrupt

        found = world.log.fit(model, bias=BIAS, learning=QUICK, progress=interrupt)
        assert found.history[-1].number == unit
        assert any(note.startswith("Training was interrupted") for note in found.notes)
        assert found.held_out is not None


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
    """Ctrl-C at this moment lost the whole model."""
    log = simulated(tmp_path / "log", queries=20, impressions=100).log
    names = ("lightgbm(min_documents=2, rounds=5, imitate=off)", "lightgbm(min_documents=2, rounds=5)")
    alone = log.fit(names[0], bias=BIAS)
    monkeypatch.setattr("rankloop.offline._fit.imitate_order", Mock(side_effect=KeyboardInterrupt))
    found = log.fit(names[1], bias=BIAS)
    assert found.model.fingerprint == alone.model.fingerprint
    assert any(note.startswith("Training was interrupted") for note in found.notes)


def test_queries_that_came_later_are_held_out(tmp_path: Path) -> None:
    """Queries could be held out only at random: a fit knew clicks from after those it was judged by."""
    day, start = 86_400_000_000, 1_704_067_200_000_000  # 2024-01-01
    third = [row._replace(impression_id=f"s{row.impression_id}", query_id="s") for row in ALWAYS[:6]]
    again = [row._replace(impression_id=f"again{row.impression_id}") for row in ALWAYS[:6]]
    rows = [row._replace(timestamp=start) for row in ALWAYS]
    rows += [row._replace(timestamp=start + day) for row in (*third, *again)]
    features = {
        "query_id": [*FEATURES["query_id"], "s", "s"],
        "doc_id": [*FEATURES["doc_id"], "x", "y"],
        "age": [*FEATURES["age"], 5.0, 6.0],
    }
    log = log_of(tmp_path / "log", rows, features)
    found = log.fit("linear", bias=BIAS, learning=QUICK, held_out="2024-01-02")
    assert found.train_queries == ("q", "r")
    assert found.held_out_queries == ("s",)
    assert any("3 later impressions of earlier queries are used for neither" in note for note in found.notes)
    for start, message in (
        ("2024-01-09", "no query came for the first time"),
        ("2023-01-01", "no impressions before"),
        ("soon", "is not a time"),
    ):
        with pytest.raises(RankloopError, match=message):
            log.fit("linear", bias=BIAS, learning=QUICK, held_out=start)


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
    assert tuple(update.detail for update in updates if update.detail) == found.history


def log_of(folder: Path, rows: list[Row], features: dict[str, Any]) -> Any:
    write_rows(folder, rows)
    pq.write_table(pa.table(features), folder / "features.parquet")
    return open_log(folder)


FEATURES = {"query_id": ["q", "q", "r", "r"], "doc_id": ["x", "y", "x", "y"], "age": [1.0, 2.0, 3.0, 4.0]}
ALWAYS = [
    Row(f"{query}{number}", query, "sorts", rank + 1, document, number == rank)
    for query in "qr"
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
        (ALWAYS[:4], FEATURES, "only one query of the log has impressions"),
        (ALWAYS, {**FEATURES, "age": [1.0, 2.0, 3.0, np.nan]}, "feature 'age' is missing"),
        (ALWAYS, {**FEATURES, "age": [1.0, 2.0, 3.0, np.inf]}, "feature 'age' is inf"),
        (ALWAYS, {**FEATURES, "doc_id": ["v", "w"] * 2}, "none of the log's 4 documents has features"),
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
        ({"held_out": 0.0}, "the share of the queries to hold out is between 0 and 1"),
    ],
)
def test_options_that_are_refused(world: Simulated, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        world.log.fit(**{"bias": BIAS, **options})
