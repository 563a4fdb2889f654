"""The ladder: what each rung is trained on, and how high it is."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.data import synthetic
from rankloop.errors import DataError
from rankloop.evaluation import policy_metrics, ranking_metrics
from rankloop.experiments.ladder import Rung, climb, production_data, production_queries
from rankloop.training import Epoch, Settings, train
from rankloop.types import Dataset

SETTINGS = Settings(epochs=8)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic(queries=300, features=10)


@pytest.fixture(scope="module")
def rungs(data: Dataset) -> list[Rung]:
    return climb(data, settings=SETTINGS)


def test_the_production_ranker_sees_one_query_in_a_hundred_and_never_fewer_than_ten() -> None:
    assert [production_queries(n) for n in (19_944, 2000, 1000, 100, 10, 3)] == [199, 20, 10, 10, 10, 3]
    assert production_queries(1000, share=0.5) == 500


def test_production_data_is_a_draw_from_the_data(data: Dataset) -> None:
    few, same, other = (production_data(data, 12, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert few.train.n_queries == few.validation.n_queries == 12
    assert few.test is data.test
    assert set(few.train.query_ids) < set(data.train.query_ids)
    assert set(few.validation.query_ids) < set(data.validation.query_ids)
    assert few.train.query_ids.tolist() == same.train.query_ids.tolist() != other.train.query_ids.tolist()
    q = data.train.query_ids.tolist().index(few.train.query_ids[0])
    rows = slice(data.train.offsets[q], data.train.offsets[q + 1])
    np.testing.assert_array_equal(few.train.features[: few.train.sizes[0]], data.train.features[rows])


def test_validation_is_cut_alike_or_kept_where_it_is_smaller(data: Dataset) -> None:
    many = production_data(data, data.train.n_queries, np.random.default_rng(0))
    assert many.train.n_queries == data.train.n_queries
    assert many.validation.n_queries == data.validation.n_queries


@pytest.mark.parametrize("n_queries", [0, -1, 10_000])
def test_more_queries_than_there_are_or_none(data: Dataset, n_queries: int) -> None:
    with pytest.raises(DataError, match=f"there are 200 training queries, {n_queries} were asked for"):
        production_data(data, n_queries, np.random.default_rng(0))


def test_every_rung_is_higher_than_the_one_before(rungs: list[Rung]) -> None:
    assert [rung.name for rung in rungs] == [
        "random",
        "production",
        "full information, linear",
        "full information",
    ]
    assert [rung.queries for rung in rungs] == [0, 10, 200, 200]
    # At eight epochs the network is not yet ahead of the linear model.
    for values in ([rung.policy for rung in rungs], [rung.ranking for rung in rungs]):
        assert values[0] < values[1] < min(values[2:])
        assert max(values) < 1


def test_rungs_hold_what_was_measured(data: Dataset, rungs: list[Rung]) -> None:
    random, *trained = rungs
    assert random.training is None
    (expected,) = policy_metrics(np.zeros(data.test.n_docs), data.test, ["ndcg@5"]).values()
    assert random.ranking == random.policy == expected
    for rung in trained:
        assert rung.training is not None
        scores = rung.training.model.scores(data.test.features)
        assert rung.ranking == ranking_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
        assert rung.policy == policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
    full = train(data, "mlp", settings=SETTINGS)
    assert trained[-1].training is not None
    assert trained[-1].training.model.fingerprint == full.model.fingerprint


def test_watch_is_told_which_rung_is_trained() -> None:
    seen: list[tuple[str, Epoch]] = []
    small = synthetic(queries=40, features=4)
    rungs = climb(
        small,
        metric="dcg@3",
        settings=Settings(epochs=2),
        watch=lambda name, epoch: seen.append((name, epoch)),
    )
    expected = [
        (rung.name, epoch) for rung in rungs if rung.training is not None for epoch in rung.training.history
    ]
    assert seen == expected
    assert len(seen) == 3 * (1 + 2)
