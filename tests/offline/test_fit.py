"""From a log to a ranker: the same as weights and training by hand, and what the log cannot teach is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import RankloopError
from rankloop.estimators import estimator
from rankloop.models import Adam, Linear
from rankloop.models.specs import LightGBMSpec, LinearSpec
from rankloop.offline import open_log
from rankloop.progress import Update
from rankloop.ragged import segment_sum
from rankloop.training import PAPER, ROBUST, Settings, Task, train_network, train_trees
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated

QUICK = replace(ROBUST, settings=Settings(epochs=3, caution=3.0))
TREES = "lightgbm(min_docs=2, rounds=5)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("fitting") / "log", queries=20, interactions=2_000)


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
    )
    assert found.model.fingerprint == expected.model.fingerprint
    assert found.history == expected.history
    assert found.estimator == str(QUICK.estimator)


def test_trees_grow_from_nothing(world: Simulated) -> None:
    found = world.log.fit(TREES, bias=BIAS, learning=QUICK, seed=5)
    train, held_out = tasks(world, found.train_queries, found.held_out_queries)
    rng = np.random.default_rng(5)
    rng.permutation(20)
    expected = train_trees(train, LightGBMSpec(min_docs=2, rounds=5), held_out=held_out, rng=rng)
    # To the last byte what weights alone give: there is nothing of the bias in the model.
    assert found.model.to_bytes() == expected.model.to_bytes()
    assert found.spec == TREES
    assert found.bias is BIAS


def test_the_paper_does_not_clip_held_out_weights(world: Simulated) -> None:
    learning = replace(PAPER, settings=replace(PAPER.settings, epochs=2))
    found = world.log.fit("linear", bias=BIAS, learning=learning)
    _, held_out = tasks(world, found.train_queries, found.held_out_queries, learning)
    assert found.best.held_out == held_out.value(found.model.scores(held_out.features))
    assert found.reward == "clicks"
    assert found.estimator == "intervention-aware"


def test_what_held_out_clicks_say(world: Simulated) -> None:
    weighing = replace(QUICK, estimator=estimator("affine(clip=off)"))
    found = world.log.fit("linear", bias=BIAS, learning=weighing)
    _, task = tasks(world, found.train_queries, found.held_out_queries, weighing)
    statistics = world.log.statistics(BIAS).statistics
    numbers = np.flatnonzero(np.isin(world.split.query_ids, found.held_out_queries))
    chosen = statistics.select(numbers)
    came = chosen.per_item(chosen.query_counts)
    logged = segment_sum(
        task.doc_weights * (chosen.displays_by_rank @ task.rank_weights) / came, task.offsets
    )
    held = found.held_out
    assert held.logged == pytest.approx(logged.mean())
    assert held.drawn == pytest.approx(found.best.held_out)
    assert held.equal == pytest.approx(task.value(np.zeros(len(task.features))))
    # Scores a million times as large draw what sorting gives, but for ties.
    by_score = task.values(1e6 * found.model.scores(task.features))
    assert held.sorted == pytest.approx(by_score.mean(), rel=1e-6)
    gain = by_score - logged
    assert (held.gain, held.gain_error) == pytest.approx((gain.mean(), gain.std() / 2), rel=1e-5)


def test_it_learns(world: Simulated) -> None:
    """The first feature is the label with noise: a linear model must find it."""
    found = world.log.fit(
        "linear", bias=BIAS, learning=replace(ROBUST, settings=Settings(Adam(0.05), epochs=30))
    )
    assert isinstance(found.model, Linear)
    first, *others = found.model.parameters[:-1]
    assert first > 3 * max(map(abs, others))
    assert found.held_out.sorted > found.held_out.equal


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
    Row(f"{query}{number}", query, "sorts", rank + 1, doc, number == rank)
    for query in "qr"
    for number in range(3)
    for rank, doc in enumerate("xy")
]


def test_a_log_that_never_explores_is_warned_of(tmp_path: Path) -> None:
    found = log_of(tmp_path / "log", ALWAYS, FEATURES).fit("linear", bias=BIAS, learning=QUICK)
    assert any(note.startswith("The log never explores") for note in found.notes)
    assert any(note.startswith("Exposures are estimated from how often") for note in found.notes)
    moved = [*ALWAYS, Row("again", "q", "sorts", 1, "y", True)]
    found = log_of(tmp_path / "moved", moved, FEATURES).fit("linear", bias=BIAS, learning=QUICK)
    assert not any(note.startswith("The log never explores") for note in found.notes)


@pytest.mark.parametrize(
    ("rows", "features", "message"),
    [
        ([], FEATURES, "the log is empty"),
        (ALWAYS[:4], FEATURES, "only 1 queries of the log have impressions"),
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
        ({"validation": 0.0}, "validation is the share of the queries"),
    ],
)
def test_options_that_are_refused(world: Simulated, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        world.log.fit(**{"bias": BIAS, **options})
