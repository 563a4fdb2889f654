"""Trees that imitate the order in which documents were logged."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop import rank_weights
from rankloop.relevance.logged_order import LoggedOrder, imitate_order
from rankloop.statistics import Exposure, Statistics
from rankloop.statistics import of_impressions as count
from rankloop.types import Split
from tests.training.problems import new_rng

QUERIES, DOCS, RANKS = 60, 8, 3


def logged(seed: int, *, informative: bool = True) -> tuple[Split, Statistics]:
    """One impression per query: documents are sorted by their first feature, or shown at random."""
    rng = np.random.default_rng(seed)
    features = rng.random((QUERIES * DOCS, 2), dtype=np.float32)
    split = Split.build(features, np.zeros(len(features)), np.full(QUERIES, DOCS))
    keys = (features[:, 0] if informative else rng.random(len(features))).reshape(QUERIES, DOCS)
    rankings = np.argsort(-keys, axis=1)[:, :RANKS]
    statistics = count(
        "production",
        split.offsets,
        Exposure(*np.ones((3, len(features)))),
        queries=np.arange(QUERIES),
        rankings=rankings,
        clicks=np.zeros(rankings.shape, np.bool_),
    )
    return split, statistics


def test_heights_are_discounts_compared_with_the_query() -> None:
    """Two of three documents were shown, one twice at the first rank, one at each of the others."""
    split = Split.build(np.eye(3, dtype=np.float32), np.zeros(3), np.array([3]))
    statistics = count(
        "production",
        split.offsets,
        Exposure(*np.ones((3, 3))),
        queries=[0, 0],
        rankings=[[2, 0], [2, 0]],
        clicks=np.zeros((2, 2), np.bool_),
    )
    found = LoggedOrder.of(split, statistics, new_rng())
    first, second = rank_weights.dcg(2)
    mean = (first + second) / 3
    np.testing.assert_array_equal(found.features, split.features)
    np.testing.assert_allclose(found.heights, [second - mean, -mean, first - mean])


def test_at_most_as_many_documents_that_were_not_shown() -> None:
    split, statistics = logged(0)
    found = LoggedOrder.of(split, statistics, new_rng())
    shown = QUERIES * RANKS
    # A binomial number with mean 180 and standard deviation 8.5: outside 4 of them in 1 of 15,000 seeds.
    assert 2 * shown - 34 < len(found) < 2 * shown + 34
    every = LoggedOrder.of(split, logged(0)[1], np.random.default_rng(9))
    assert not np.array_equal(found.features, every.features)


def test_trees_find_what_the_order_follows() -> None:
    orders = [LoggedOrder.of(*logged(seed), new_rng()) for seed in (0, 1)]
    model = imitate_order((orders[0], orders[1]), new_rng())
    assert model is not None
    grid = np.array([[0.1, 0.5], [0.9, 0.5], [0.9, 0.1]], np.float32)
    low, high, same = model.scores(grid)
    assert high > low + 0.1
    assert same == pytest.approx(high, abs=0.3 * (high - low))


def test_a_random_order_is_not_imitated() -> None:
    """Over 20 logs whose order is random; trees that help by chance on a few of them are kept."""
    kept = 0
    for seed in range(0, 40, 2):
        orders = [LoggedOrder.of(*logged(seed + part, informative=False), new_rng()) for part in (0, 1)]
        model = imitate_order((orders[0], orders[1]), new_rng())
        kept += model is not None and model.n_trees > 10
    assert kept <= 3


def test_nothing_is_learned_from_few_documents_or_equal_heights() -> None:
    split, statistics = logged(0)
    order = LoggedOrder.of(split, statistics, new_rng())
    few = LoggedOrder(order.features[:20], order.heights[:20])
    equal = LoggedOrder(order.features, np.zeros(len(order)))
    assert imitate_order((few, order), new_rng()) is None
    assert imitate_order((equal, order), new_rng()) is None
