from __future__ import annotations

import numpy as np
import pytest

from rankloop.data import drop_constant, normalise_queries, split_queries, varying_features
from rankloop.errors import DataError
from rankloop.ragged import counts_by_share
from rankloop.types import Dataset, Split


@pytest.fixture
def split(rng: np.random.Generator) -> Split:
    sizes = [1, 4, 2, 7, 3]
    return Split.build(
        rng.normal(size=(17, 3)) * 1e6, rng.integers(5, size=17), sizes, doc_ids=[f"d{i}" for i in range(17)]
    )


def test_scaling_follows_the_equation(split: Split) -> None:
    before = split.features.copy()
    scaled = normalise_queries(split)
    for q in range(split.n_queries):
        x = before[split.offsets[q] : split.offsets[q + 1]].astype(np.float64)
        low, high = x.min(axis=0), x.max(axis=0)
        expected = (x - low) / np.where(high > low, high - low, 1)
        got = scaled.features[split.offsets[q] : split.offsets[q + 1]]
        np.testing.assert_allclose(got, expected, atol=1e-6)
        assert got.min() == 0
        assert len(x) == 1 or (got.max(axis=0) == 1).all()
    np.testing.assert_array_equal(split.features, before)


def test_scaling_does_not_overflow() -> None:
    largest = np.finfo(np.float32).max
    split = Split.build([[-largest], [0.0], [largest]], [0, 1, 2], sizes=[3])
    assert normalise_queries(split).features.tolist() == [[0.0], [0.5], [1.0]]


def test_features_constant_in_training_are_dropped() -> None:
    train = Split.build([[1, 2, 0], [1, 3, 0]], [0, 1], sizes=[1, 1])
    other = Split.build([[5, 2, 9]], [0], sizes=[1])
    assert varying_features(train).tolist() == [1]
    thin = drop_constant(Dataset("d", train, other, other))
    assert thin.train.features.tolist() == [[2], [3]]
    assert thin.test.features.tolist() == [[2]]
    assert thin.name == "d"


def test_a_data_set_without_varying_features_is_rejected() -> None:
    flat = Split.build([[1, 2], [1, 2]], [0, 1], sizes=[1, 1])
    with pytest.raises(DataError, match="every feature of 'flat' is constant"):
        drop_constant(Dataset("flat", flat, flat, flat))


def test_queries_are_not_divided(split: Split, rng: np.random.Generator) -> None:
    parts = split_queries(split, (3, 1, 1), rng)
    assert [part.n_queries for part in parts] == [3, 1, 1]
    assert sorted(q for part in parts for q in part.query_ids) == ["0", "1", "2", "3", "4"]
    for part in parts:
        for i, q in enumerate(part.query_ids.astype(int)):
            rows = slice(split.offsets[q], split.offsets[q + 1])
            mine = slice(part.offsets[i], part.offsets[i + 1])
            np.testing.assert_array_equal(part.features[mine], split.features[rows])
            assert part.doc_ids is not None
            assert split.doc_ids is not None
            assert part.doc_ids[mine].tolist() == split.doc_ids[rows].tolist()


@pytest.mark.parametrize(
    ("total", "shares", "counts"),
    [
        (100, (0.6, 0.2, 0.2), [60, 20, 20]),
        (29_921, (19_944, 2_994, 6_983), [19_944, 2_994, 6_983]),
        (3, (1, 1, 1), [1, 1, 1]),
        (5, (1000, 1, 1), [3, 1, 1]),
        (7, (1,), [7]),
        (8, (0.5, 0.25, 0.25), [4, 2, 2]),
    ],
)
def test_counts_follow_shares(total: int, shares: tuple[float, ...], counts: list[int]) -> None:
    assert counts_by_share(total, shares).tolist() == counts


@pytest.mark.parametrize("shares", [(), (0.5, 0.0), (1, -1), (float("nan"), 1)])
def test_shares_must_be_positive(split: Split, shares: tuple[float, ...], rng: np.random.Generator) -> None:
    with pytest.raises(DataError, match="shares must be positive"):
        split_queries(split, shares, rng)
