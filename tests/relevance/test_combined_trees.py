"""Trees on clicks and on the logged order: clicks that neither has seen decide how much each counts."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.models.lightgbm import LightGBMModel, boost
from rankloop.relevance import ClickModel, ClickTask
from rankloop.relevance.logged_order import combine_trees
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float32

BIAS = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
QUERIES, DOCS = 200, 4


def features_of(seed: int) -> Float32:
    return np.random.default_rng(seed).random((QUERIES * DOCS, 2), dtype=np.float32)


def trees_of(column: int) -> LightGBMModel:
    """Trees whose scores are roughly one of the features."""
    features = features_of(0)
    target = features[:, column] - 0.5
    return boost(features, lambda scores: (target - scores, np.ones(len(scores))), rounds=60)


def shown_with(weights: tuple[float, float]) -> ClickTask:
    """Documents whose relevance follows their features with these weights; each was shown 20 times."""
    features, rng = features_of(1), np.random.default_rng(2)
    relevance = 1.0 / (1.0 + np.exp(-(features - 0.5) @ np.array(weights)))
    number = len(features)
    clicks = rng.binomial(20, 0.8 * relevance + 0.1).astype(np.float64)
    queries = np.repeat(np.arange(QUERIES), DOCS)
    ranks, displays = np.zeros(number, np.int64), np.full(number, 20.0)
    counts = CellTable.of_cells(np.arange(number + 1), ranks, displays, clicks, queries)
    return ClickTask(features, ClickModel(counts, BIAS, 4.0))


@pytest.fixture(scope="module")
def trees() -> tuple[LightGBMModel, LightGBMModel]:
    return trees_of(0), trees_of(1)


def test_what_both_know_is_added(trees: tuple[LightGBMModel, LightGBMModel]) -> None:
    held_out = shown_with((3.0, 1.5))
    found = combine_trees(*trees, held_out, start=0.0)
    assert 0.0 < found.order < found.clicks
    assert found.gain > 10.0
    expected = found.clicks * trees[0].scores(held_out.features) + found.order * trees[1].scores(
        held_out.features
    )
    np.testing.assert_allclose(found.model.scores(held_out.features), expected, atol=1e-12)


def test_an_order_without_clicks_to_support_it_is_left_out(
    trees: tuple[LightGBMModel, LightGBMModel],
) -> None:
    cells = CellTable.of_cells(np.zeros(1, np.int64), *[np.zeros(0, np.int64)] * 3, np.zeros(0, np.int64))
    nothing = ClickTask(np.zeros((0, 2), np.float32), ClickModel(cells, BIAS, 4.0))
    found = combine_trees(*trees, nothing, start=0.25)
    assert (found.model is trees[0], found.order, found.offset) == (True, 0.0, 0.25)


def test_an_order_that_misleads_is_left_out(trees: tuple[LightGBMModel, LightGBMModel]) -> None:
    found = combine_trees(*trees, shown_with((3.0, -1.5)), start=0.25)
    assert found.model is trees[0]
    assert (found.clicks, found.order, found.offset, found.gain) == (1.0, 0.0, 0.25, 0.0)


def test_an_order_that_says_nothing_has_hardly_any_weight(trees: tuple[LightGBMModel, LightGBMModel]) -> None:
    """The standard error of its weight is about 0.15."""
    found = combine_trees(*trees, shown_with((3.0, 0.0)), start=0.0)
    assert found.order < 0.2 * found.clicks
    assert found.gain < 8.0


def test_without_an_order_nothing_changes(trees: tuple[LightGBMModel, LightGBMModel]) -> None:
    found = combine_trees(trees[0], None, shown_with((3.0, 0.0)), start=0.0)
    assert found.model is trees[0]


def test_trees_on_clicks_that_mislead_are_left_out(trees: tuple[LightGBMModel, LightGBMModel]) -> None:
    found = combine_trees(*trees, shown_with((-0.5, 2.0)), start=0.0)
    assert found.clicks == 0.0 < found.order
    assert found.model.n_trees == trees[1].n_trees
