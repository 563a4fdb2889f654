"""The nouns refuse what cannot be right, and say where."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from rankloop.data import synthetic
from rankloop.errors import DataError, RankloopError
from rankloop.models import MLP
from rankloop.models.specs import MLPSpec
from rankloop.types import Bias, Dataset, Model, Split


def parts(**change: Any) -> dict[str, Any]:
    """Two queries, of two documents and one, with something changed."""
    return {
        "features": np.eye(3, 2, dtype=np.float32),
        "labels": np.array([0.0, 2.0, 1.0]),
        "offsets": np.array([0, 2, 3]),
        "query_ids": np.array(["a", "b"]),
        "doc_ids": np.array(["x", "y", "z"]),
        **change,
    }


def test_a_split_counts() -> None:
    split = Split(**parts())
    assert (split.n_queries, split.n_documents, split.n_features) == (2, 3, 2)
    assert split.sizes.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.eye(3)}, "features must be a float32 matrix of documents × features, got float64"),
        ({"features": np.zeros(3, np.float32)}, "documents × features, got float32 of shape (3,)"),
        ({"features": np.zeros((4, 2), np.float32)}, "end at the number of documents (4)"),
        ({"offsets": np.array([0])}, "got shape (1,), from [0] to [0]"),
        ({"offsets": np.array([], dtype=np.int64)}, "got shape (0,), from [] to []"),
        ({"offsets": np.array([1, 2, 3])}, "start at 0"),
        ({"offsets": np.array([0, 2, 4])}, "from [0] to [4]"),
        ({"offsets": np.array([[0, 3]])}, "offsets must be one-dimensional"),
        ({"offsets": np.array([0, 3, 3])}, "query number 1 has no documents"),
        ({"offsets": np.array([0, 4, 3])}, "query number 1 has no documents"),
        ({"labels": np.zeros(2)}, "3 documents need 3 labels, got shape (2,)"),
        ({"labels": np.zeros((3, 1))}, "3 documents need 3 labels, got shape (3, 1)"),
        ({"query_ids": np.array(["a"])}, "2 queries need 2 query ids, got shape (1,)"),
        ({"query_ids": np.array(["a", "a"])}, "query id 'a' belongs to more than one query"),
        ({"doc_ids": np.array(["x"])}, "3 documents need 3 document ids, got shape (1,)"),
        (
            {"labels": np.array([0.0, -1.0, -2.0])},
            "query 'a' (number 0), document 1: a negative label (2 such documents in total)",
        ),
        ({"labels": np.array([0.0, 0.0, np.nan])}, "'b' (number 1), document 0: a label that is not finite"),
        ({"labels": np.array([np.inf, 0.0, 0.0])}, "'a' (number 0), document 0: a label that is not finite"),
    ],
)
def test_a_split_that_does_not_fit_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        Split(**parts(**change))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_feature_that_is_not_finite_is_found(value: float) -> None:
    features = np.zeros((3, 2), np.float32)
    features[1, 1] = features[2, 0] = value
    message = "query 'a' (number 0), document 1: a feature that is not finite (2 such documents in total)"
    with pytest.raises(DataError, match=re.escape(message)):
        Split(**parts(features=features))


def test_the_largest_features_are_finite() -> None:
    most = np.finfo(np.float32).max
    assert Split(**parts(features=np.full((3, 2), most, np.float32))).n_documents == 3


def test_build_takes_anything_like_an_array() -> None:
    split = Split.build([[1, 2], [3, 4], [5, 6]], (0, 1, 2), [2, 1], query_ids=[7, 8], doc_ids=[1, 2, 3])
    assert split.features.dtype == np.float32
    assert split.labels.dtype == np.float64
    assert split.offsets.tolist() == [0, 2, 3]
    assert split.query_ids.tolist() == ["7", "8"]
    assert split.doc_ids is not None
    assert split.doc_ids.tolist() == ["1", "2", "3"]
    bare = Split.build(np.asfortranarray(split.features), split.labels, split.sizes)
    assert bare.features.flags.c_contiguous
    assert bare.query_ids.tolist() == ["0", "1"]
    assert bare.doc_ids is None


def test_select_takes_queries_in_the_order_given() -> None:
    sizes = [2, 1, 3]
    split = Split.build(
        np.arange(12).reshape(6, 2), np.arange(6), sizes, query_ids=["a", "b", "c"], doc_ids=list("uvwxyz")
    )
    chosen = split.select([2, 0])
    assert chosen.query_ids.tolist() == ["c", "a"]
    assert chosen.offsets.tolist() == [0, 3, 5]
    assert chosen.labels.tolist() == [3, 4, 5, 0, 1]
    assert chosen.features.tolist() == [[6, 7], [8, 9], [10, 11], [0, 1], [2, 3]]
    assert chosen.doc_ids is not None
    assert "".join(chosen.doc_ids) == "xyzuv"
    assert split.select(np.arange(3)).features.tolist() == split.features.tolist()


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([-1], "queries are numbered 0 to 1, got -1 to -1"),
        ([0, 2], "queries are numbered 0 to 1, got 0 to 2"),
        ([], "a list of query numbers"),
        ([True, False], "a list of query numbers"),
        ([0.5], "a list of query numbers"),
        (1, "a list of query numbers"),
        ([1, 1], "query id 'b' belongs to more than one query"),
    ],
)
def test_select_rejects_unknown_queries(queries: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Split(**parts()).select(queries)


def test_a_data_set_is_three_splits_of_one_width() -> None:
    split = Split(**parts())
    data = Dataset("tiny", split, split.select([1]), split.select([0]))
    assert data.n_features == 2
    assert data.max_label == 2.0
    wide = Split.build(np.eye(3), [0, 0, 5], [3])
    with pytest.raises(DataError, match=r"the splits of 'odd' differ .* 'validation': 3"):
        Dataset("odd", split, wide, split)


def test_bias_keeps_copies_that_nobody_can_change() -> None:
    alpha = np.array([0.5, 0.25])
    bias = Bias(alpha, [0.25, 0.0], [1, 0.5])  # type: ignore[arg-type]
    alpha[0] = 9.0
    assert bias.alpha.tolist() == [0.5, 0.25]
    assert bias.positions == 2
    with pytest.raises(ValueError, match="read-only"):
        bias.beta[0] = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": []}, "alpha must be finite numbers, one per rank, got []"),
        ({"beta": [0.1, np.nan]}, "beta must be finite numbers"),
        ({"examination": [[1.0, 0.5]]}, "examination must be finite numbers"),
        ({"beta": [0.1]}, "the same number of ranks"),
        ({"beta": [0.6, 0.0]}, "must lie in [0, 1], got [0.6, 0.0] and [1.1, 0.5]"),
        ({"beta": [-0.1, 0.0]}, "must lie in [0, 1]"),
        ({"alpha": [-0.5, 0.5]}, "must lie in [0, 1]"),
    ],
)
def test_a_bias_with_invalid_probabilities_is_rejected(change: dict[str, Any], message: str) -> None:
    given = {"alpha": [0.5, 0.5], "beta": [0.25, 0.0], "examination": [1.0, 0.5], **change}
    with pytest.raises(DataError, match=re.escape(message)):
        Bias(**given)


def test_errors_of_users_are_value_errors() -> None:
    assert issubclass(DataError, RankloopError)
    assert issubclass(RankloopError, ValueError)


def test_models_are_distinguished_from_other_objects() -> None:
    assert isinstance(MLP.initialise(3, np.random.default_rng(0)), Model)
    assert not isinstance(MLPSpec(), Model)


def test_data_show_their_sizes_in_one_line() -> None:
    data = synthetic(queries=20, features=3)
    train = data.train
    assert repr(train) == f"Split({train.n_queries} queries, {train.n_documents} documents, 3 features)"
    assert repr(data).startswith("Dataset('synthetic")
    assert len(repr(data).splitlines()) == 1
