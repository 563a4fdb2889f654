"""Sums of boosted trees are models of LightGBM's own."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.models.lightgbm import LightGBMModel, add_trees, boost
from rankloop.models.lightgbm_text import check_text
from rankloop.types import Float32, Float64

FEATURES: Float32 = np.random.default_rng(0).random((200, 3), dtype=np.float32)


def grown(target: Float64, rounds: int) -> LightGBMModel:
    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        return target - scores, np.ones(len(scores))

    return boost(FEATURES, derivatives, rounds=rounds, parameters={"num_leaves": 4})


@pytest.fixture(scope="module")
def models() -> list[LightGBMModel]:
    first, second = (FEATURES[:, column].astype(np.float64) for column in (0, 1))
    return [grown(first, 3), grown(second, 2)]


def test_scores_are_the_weighted_sum(models: list[LightGBMModel]) -> None:
    found = add_trees(models, [0.5, -2.0])
    expected = 0.5 * models[0].scores(FEATURES) - 2.0 * models[1].scores(FEATURES)
    np.testing.assert_allclose(found.scores(FEATURES), expected, rtol=1e-12, atol=1e-15)
    assert found.n_trees == 5


def test_a_sum_is_stored_like_any_model(models: list[LightGBMModel]) -> None:
    found = add_trees(models, [0.5, -2.0])
    check_text(found.text)
    assert LightGBMModel.from_bytes(found.to_bytes()).text == found.text
    importances = dict(zip(range(3), found.booster.feature_importance(), strict=True))
    each = [model.booster.feature_importance() for model in models]
    assert importances == dict(zip(range(3), each[0] + each[1], strict=True))


def test_a_model_without_trees_adds_nothing(models: list[LightGBMModel]) -> None:
    none = boost(FEATURES, lambda scores: (np.zeros(len(scores)), np.ones(len(scores))), rounds=1)
    found = add_trees([none, models[1]], [1.0, 1.0])
    np.testing.assert_array_equal(found.scores(FEATURES), models[1].scores(FEATURES))


def test_names_of_features_are_kept(models: list[LightGBMModel]) -> None:
    names = ("age", "list price", "clicks")
    named = [LightGBMModel(model.text, names) for model in models]
    assert add_trees(named, [1.0, 1.0]).feature_names == names
