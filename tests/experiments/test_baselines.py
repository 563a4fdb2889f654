"""The rankers that every experiment is measured against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.clicks import bias_of, users
from rankloop.data import synthetic
from rankloop.errors import DataError
from rankloop.evaluation import policy_metrics
from rankloop.experiments.baselines import (
    authors_ranker,
    full_information,
    oracle,
    production_data,
    production_queries,
    production_ranker,
    random_ranker,
)
from rankloop.models import MLP, Adam, Linear
from rankloop.models.mlp import Network
from rankloop.progress import Update
from rankloop.training import DOUBLY_ROBUST, PAPER, ROBUST, Learning, Settings, train
from rankloop.types import Dataset, Model


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic(queries=300, features=10)


def value(model: Model, data: Dataset) -> float:
    return policy_metrics(model.scores(data.test.features), data.test, ["ndcg@5"])["ndcg@5"]


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


def test_validation_is_reduced_likewise_or_kept_if_smaller(data: Dataset) -> None:
    many = production_data(data, data.train.n_queries, np.random.default_rng(0))
    assert many.train.n_queries == data.train.n_queries
    assert many.validation.n_queries == data.validation.n_queries


def test_the_authors_ranker_fits_its_queries_and_is_more_peaked(data: Dataset) -> None:
    """It is stopped on the queries that it learns from: nothing tells it that it overfits them."""
    theirs, ours = authors_ranker(data, n_queries=20), production_ranker(data, n_queries=20)
    spread = [np.std(model.scores(data.train.features)) for model in (theirs, ours)]
    assert spread[0] > 1.5 * spread[1]
    few = production_data(data, 20, np.random.default_rng(0))
    learned_from = [
        policy_metrics(model.scores(few.train.features), few.train, ["ndcg@5"])["ndcg@5"]
        for model in (theirs, ours)
    ]
    assert learned_from[0] > learned_from[1]
    assert value(theirs, data) > value(random_ranker(10, np.random.default_rng(0)), data)


def test_the_authors_ranker_can_be_linear(data: Dataset) -> None:
    linear = authors_ranker(data, model="linear", n_queries=20)
    assert isinstance(linear, Linear)
    assert value(linear, data) > value(random_ranker(10, np.random.default_rng(0)), data)


def test_full_information_trains_until_an_epoch_gains_nothing(data: Dataset) -> None:
    """The paper's rule would stop it at the first epoch that gains less than 0.001."""
    paper, relevance = users("paper@5"), np.concatenate([data.train.labels, data.validation.labels]) / 4
    seen: list[Update] = []
    theirs = full_information(data, relevance, bias_of(paper), seed=3, progress=seen.append)
    gains = np.diff([update.detail.held_out for update in seen])
    assert np.all(gains[:-1] >= 0.0)
    assert len(seen) == 101 or gains[-1] < 0.0  # the start and at most a hundred epochs
    assert np.any(gains[:-1] < 0.001)

    rng = np.random.default_rng(3)
    start = MLP.initialise(data.n_features, rng)
    stopped = oracle(start, data, relevance, PAPER, bias_of(paper), rng=rng)
    assert value(stopped, data) > value(start, data)
    assert value(theirs, data) > value(stopped, data) + 0.02
    again = full_information(data, relevance, bias_of(paper), seed=3)
    assert again.fingerprint == theirs.fingerprint


@pytest.mark.parametrize("n_queries", [0, -1, 10_000])
def test_more_queries_than_there_are_or_none(data: Dataset, n_queries: int) -> None:
    with pytest.raises(DataError, match=f"there are 200 training queries, {n_queries} were requested"):
        production_data(data, n_queries, np.random.default_rng(0))


def test_the_production_ranker_is_trained_on_the_production_data(data: Dataset) -> None:
    seen: list[Update] = []
    ranker = production_ranker(data, n_queries=15, seed=4, progress=seen.append)
    expected = train(production_data(data, 15, np.random.default_rng(4)), "mlp", seed=4)
    assert ranker.fingerprint == expected.model.fingerprint
    assert tuple(update.detail for update in seen) == expected.history
    ten = production_ranker(data, n_queries=10, seed=4).fingerprint
    assert production_ranker(data, seed=4).fingerprint == ten != ranker.fingerprint


def test_the_random_ranker_scores_nothing_and_learns_all_the_same(data: Dataset) -> None:
    ranker = random_ranker(data.n_features, np.random.default_rng(0))
    np.testing.assert_array_equal(ranker.scores(data.test.features), 0.0)
    trained = train(data, ranker, settings=Settings(epochs=3)).model
    assert value(trained, data) > value(ranker, data) + 0.02


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [MLP, Linear])
def test_scaling_the_output_layer_scales_the_scores(
    data: Dataset, kind: type[MLP | Linear], dtype: type[np.floating]
) -> None:
    model: Network = kind.initialise(data.n_features, np.random.default_rng(1), dtype=dtype)
    # A bias too, which glorot's parameters have none of.
    model = model.with_parameters(model.parameters + dtype(0.1))
    scores = model.scores(data.test.features)
    # A power of two changes no digit: exact, where anything else is rounded once a parameter.
    np.testing.assert_array_equal(model.times(0.25).scores(data.test.features), 0.25 * scores)
    rounding = np.finfo(dtype).eps
    third = model.times(1 / 3)
    bound = 20 * rounding * np.abs(scores).max()
    np.testing.assert_allclose(third.scores(data.test.features), scores / 3, rtol=0, atol=bound)
    assert third.kind == model.kind
    assert third.parameters.dtype == model.parameters.dtype


def test_the_oracle_starts_from_the_start_and_ends_above_it(data: Dataset) -> None:
    start = production_ranker(data)
    relevance = np.concatenate([data.train.labels, data.validation.labels]) / 4
    settings = Settings(Adam(rate=0.003), epochs=8)
    bias = users("paper@5").bias

    def bound(truth: np.ndarray, learning: Learning = ROBUST) -> Model:
        quick = replace(learning, settings=settings)
        return oracle(start, data, truth, quick, bias, rng=np.random.default_rng(0))

    for learning in (ROBUST, DOUBLY_ROBUST):
        assert value(bound(relevance, learning), data) > value(start, data) + 0.02
    # Where all documents are alike there is nothing to learn, and the start is what is left.
    assert bound(np.ones_like(relevance)).fingerprint == start.fingerprint
