from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray

from rankloop.data import MSLR, YAHOO, Shape, normalise_queries, synthetic
from rankloop.errors import DataError
from rankloop.ragged import ranks, segment_sum
from rankloop.types import Split


@pytest.fixture(scope="module")
def splits() -> tuple[Split, Split, Split]:
    data = synthetic("yahoo", queries=1_500, features=30)
    return data.train, data.validation, data.test


def ndcg(scores: NDArray[np.float64], split: Split) -> float:
    def dcg(by: NDArray[np.float64]) -> NDArray[np.float64]:
        rank = ranks(by, split.offsets)
        return segment_sum(np.where(rank <= 5, split.labels / np.log2(1 + rank), 0), split.offsets)

    ideal = dcg(split.labels)
    return float((dcg(scores)[ideal > 0] / ideal[ideal > 0]).mean())


@pytest.mark.parametrize(("shape", "documents", "features"), [("yahoo", 24, 700), ("mslr", 120, 136)])
def test_it_has_the_requested_shape(shape: str, documents: int, features: int) -> None:
    data = synthetic(shape, queries=150, seed=1)
    parts = (data.train, data.validation, data.test)
    sizes = np.concatenate([part.sizes for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    assert data.n_features == features
    assert data.name == f"synthetic-{shape}"
    # The mean of 150 sizes has a standard error below 6 % of itself; the seed is fixed.
    assert abs(sizes.mean() / documents - 1) < 0.2
    shares = np.bincount(labels.astype(int), minlength=5) / len(labels)
    wanted = (YAHOO if shape == "yahoo" else MSLR).label_shares
    np.testing.assert_allclose(shares, wanted, atol=1e-3)  # quantiles: exact up to rounding


def test_features_are_scaled_and_many_are_zero(splits: tuple[Split, Split, Split]) -> None:
    for split in splits:
        np.testing.assert_allclose(normalise_queries(split).features, split.features, atol=1e-7)
        assert 0.3 < (split.features == 0).mean() < 0.8


def test_splits_follow_yahoo_and_share_no_query(splits: tuple[Split, Split, Split]) -> None:
    assert [split.n_queries for split in splits] == [1000, 150, 350]
    ids = np.concatenate([split.query_ids for split in splits])
    assert len(np.unique(ids)) == 1_500


def test_noise_changes_labels_and_nothing_else() -> None:
    plain, same, noisy = (synthetic(queries=40, features=5, noise=noise) for noise in (None, 0.8, 5.0))
    np.testing.assert_array_equal(plain.train.labels, same.train.labels)
    np.testing.assert_array_equal(plain.train.features, noisy.train.features)
    assert (plain.train.labels != noisy.train.labels).mean() > 0.2


@pytest.mark.parametrize("noise", [-0.1, np.nan, np.inf])
def test_noise_must_be_a_size(noise: float) -> None:
    with pytest.raises(DataError, match="noise must be a number that is at least 0"):
        synthetic(queries=20, features=5, noise=noise)


def test_the_seed_determines_the_data() -> None:
    one, again, other = (synthetic(queries=20, features=5, seed=seed) for seed in (7, 7, 8))
    assert one.train.features.tobytes() == again.train.features.tobytes()
    assert one.test.labels.tobytes() == again.test.labels.tobytes()
    assert one.train.features.tobytes() != other.train.features.tobytes()


def test_a_nonlinear_model_beats_a_linear_one_beats_chance(splits: tuple[Split, Split, Split]) -> None:
    train, _, test = splits
    rng = np.random.default_rng(0)

    def least_squares(basis: NDArray[np.float32], new: NDArray[np.float32]) -> NDArray[np.float64]:
        x = basis.astype(np.float64)
        weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ train.labels)
        scores: NDArray[np.float64] = new.astype(np.float64) @ weights
        return scores

    def curved(x: NDArray[np.float32]) -> NDArray[np.float32]:
        i, j = np.triu_indices(x.shape[1])
        return np.hstack([np.ones((len(x), 1), np.float32), x, x[:, i] * x[:, j]])

    chance = ndcg(rng.random(test.n_documents), test)
    line = ndcg(least_squares(train.features - 0.5, test.features - 0.5), test)
    curve = ndcg(least_squares(curved(train.features), curved(test.features)), test)
    # Measured .61, .82 and .86; the seed is fixed, so there is no false alarm.
    assert chance + 0.1 < line
    assert line + 0.02 < curve


def test_a_larger_set_has_the_same_teacher() -> None:
    small, large = (synthetic(queries=queries, features=10) for queries in (600, 1_200))
    weights = np.linalg.lstsq(small.train.features, small.train.labels, rcond=None)[0]
    own = np.linalg.lstsq(large.train.features, large.train.labels, rcond=None)[0]
    scores, own_scores = large.test.features @ weights, large.test.features @ own
    # The weights of another teacher would correlate at random, almost never above .9.
    assert np.corrcoef(scores, own_scores)[0, 1] > 0.9


def test_a_custom_shape() -> None:
    shape = Shape(
        "pairs", documents=2, spread=0, max_documents=2, features=1, zeros=0, label_shares=(0.5, 0.5)
    )
    data = synthetic(shape, queries=10)
    assert data.name == "synthetic-pairs"
    assert data.train.sizes.tolist() == [2] * 6
    assert data.max_label == 1


def test_blocks_are_filled_to_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    # By name, because the package has a function of the same name.
    monkeypatch.setattr(import_module("rankloop.data.synthetic"), "VALUES_PER_BLOCK", 1_000)
    train = synthetic("mslr", queries=30, features=7).train
    assert train.n_documents * 7 > 3 * 1_000
    highest = np.maximum.reduceat(train.features.max(axis=1), train.offsets[:-1])
    assert (highest[train.sizes > 1] == 1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_shares": (0.5, 0.2)}, "add up to 1"),
        ({"label_shares": ()}, "add up to 1"),
        ({"documents": 0.5}, "documents must be between 1 and max_documents"),
        ({"spread": -1.0}, "spread must not be negative"),
        ({"features": 0}, "features must be at least 1"),
        ({"zeros": 1.0}, "zeros in"),
    ],
)
def test_invalid_shapes(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(YAHOO, **change)  # type: ignore[arg-type]


def test_wrong_arguments() -> None:
    with pytest.raises(DataError, match="unknown shape 'bing'"):
        synthetic("bing")
    with pytest.raises(DataError, match="2 queries cannot be split into 3 parts"):
        synthetic(queries=2)
