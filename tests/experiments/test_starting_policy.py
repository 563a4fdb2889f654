"""Starting policies, and how peaked they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.data import synthetic
from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.experiments import baselines
from rankloop.experiments.baselines import Peakedness, production_ranker, starting_policy
from rankloop.models import Linear
from rankloop.training import train
from rankloop.types import Dataset

ALPHA = np.array([0.4, 0.2])


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic(queries=60, features=4)


def test_peakedness_by_hand() -> None:
    # Rates 3 and 1: the first document comes first 3 times in 4. A query of one document leaves no choice.
    sure = Peakedness.of(np.log([3.0, 1.0, 5.0]), np.array([0, 2, 3]), ALPHA)
    assert sure.top_first == pytest.approx(3 / 4, abs=1e-8)
    assert sure.support == {"0.01": 0.0, "0.0001": 0.0, "1e-06": 0.0}
    # Three documents, two ranks: the last is shown when another did not, with chances near 1e-3 and 1e-5.
    scores = np.array([20.0, 10.0, 10.0 + np.log(2e-3)])
    third = 0.2 * 2e-3 / (1 + 2e-3)
    sure = Peakedness.of(scores, np.array([0, 3]), ALPHA)
    assert 1e-4 < third < 1e-2
    assert sure.support == {"0.01": pytest.approx(1 / 3), "0.0001": 0.0, "1e-06": 0.0}


def test_only_queries_of_one_document_are_as_sure_as_can_be() -> None:
    assert Peakedness.of(np.zeros(2), np.array([0, 1, 2]), ALPHA).top_first == 1.0


@pytest.mark.parametrize(
    ("top_first", "below", "expected"),
    [(0.89, 0.49, False), (0.9, 0.0, True), (0.5, 0.5, True)],
)
def test_nearly_deterministic(top_first: float, below: float, expected: bool) -> None:
    support = {"0.01": 1.0, "0.0001": below, "1e-06": 0.0}
    assert Peakedness(top_first=top_first, support=support).nearly_deterministic is expected


def test_a_higher_temperature_is_less_peaked(data: Dataset) -> None:
    def of(temperature: float) -> Peakedness:
        model = starting_policy("production", data, temperature=temperature)
        return Peakedness.of(model.scores(data.train.features), data.train.offsets, ALPHA)

    sharp, plain, soft = of(0.1), of(1.0), of(10.0)
    assert sharp.top_first > plain.top_first > soft.top_first
    assert sharp.nearly_deterministic
    assert not soft.nearly_deterministic


def test_the_production_ranker_is_the_default_of_its_seed(data: Dataset) -> None:
    model = starting_policy("production", data, production_queries=12, seed=5)
    assert model.fingerprint == production_ranker(data, n_queries=12, seed=5).fingerprint


def test_random_ranks_uniformly(data: Dataset) -> None:
    model = starting_policy("random", data)
    sure = Peakedness.of(model.scores(data.train.features), data.train.offsets, ALPHA)
    several = data.train.sizes[data.train.sizes > 1]
    assert sure.top_first == pytest.approx(np.mean(1 / several), rel=1e-6)


def test_a_stored_model(data: Dataset, tmp_path: Path) -> None:
    stored = Linear(4, np.arange(5.0))
    path = str(rankloop.save(stored, tmp_path / "m.rankloop"))
    assert starting_policy(path, data).fingerprint == stored.fingerprint
    half = starting_policy(path, data, temperature=2.0)
    np.testing.assert_array_equal(half.scores(data.test.features), 0.5 * stored.scores(data.test.features))


def test_stored_models_that_cannot_be_started_from(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="prodction does not exist: the start is production, random, or"):
        starting_policy("prodction", data)
    wide = rankloop.save(Linear(6, np.zeros(7)), tmp_path / "wide")
    with pytest.raises(DataError, match="wide takes 6 features, the documents of synthetic-yahoo have 4"):
        starting_policy(str(wide), data)
    trees = rankloop.save(train(data, "lightgbm(rounds=2)").model, tmp_path / "trees")
    with pytest.raises(RankloopError, match="holds a lightgbm model, which cannot be trained in steps"):
        starting_policy(str(trees), data)
    with pytest.raises(
        RankloopError, match="production queries are what the production ranker is trained on"
    ):
        starting_policy("random", data, production_queries=3)


def test_a_temperature_is_for_networks(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own:
        kind, n_features, learner = "own", 4, None

    monkeypatch.setattr(baselines, "load", lambda _path: Own())
    assert starting_policy(str(tmp_path), data).kind == "own"
    with pytest.raises(
        RankloopError,
        match=r"a temperature scales the output layer of a network \(mlp or linear\).* another kind: own",
    ):
        starting_policy(str(tmp_path), data, temperature=2.0)


def test_the_authors_start_is_one_for_all_seeds_and_a_temperature_only_softens_it(data: Dataset) -> None:
    start = starting_policy("production", data, supervision="authors", seed=0)
    assert start.fingerprint == starting_policy("production", data, supervision="authors", seed=1).fingerprint
    assert start.fingerprint != starting_policy("production", data, seed=0).fingerprint
    soft = starting_policy("production", data, supervision="authors", temperature=4.0, seed=1)
    scores, softer = (model.scores(data.train.features) for model in (start, soft))
    np.testing.assert_allclose(softer, scores / 4.0, rtol=1e-4, atol=1e-5)
