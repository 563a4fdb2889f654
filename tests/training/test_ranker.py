"""The ranker has the interface of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold

from rankloop import Ranker, Settings
from rankloop.data import split_queries, synthetic
from rankloop.errors import DataError, RankloopError
from rankloop.evaluation import ranking_metrics
from rankloop.models import Adam
from rankloop.training import train
from rankloop.types import Dataset, Split

SETTINGS = Settings(Adam(rate=0.02), epochs=3)


@pytest.fixture(scope="module")
def split() -> Split:
    return synthetic(queries=60, features=5).train


@pytest.fixture(scope="module")
def qid(split: Split) -> Any:
    return np.repeat(split.query_ids, split.sizes)


def ranker(**options: Any) -> Ranker:
    return Ranker(**{"model": "linear", "settings": SETTINGS, **options})


def test_parameters_can_be_read_set_and_cloned() -> None:
    given = Ranker("linear", metric="dcg@3", objective="softmax", settings=SETTINGS, validation=0.3, seed=7)
    assert given.get_params() == {
        "model": "linear",
        "metric": "dcg@3",
        "objective": "softmax",
        "settings": SETTINGS,
        "validation": 0.3,
        "seed": 7,
    }
    copy = clone(given)
    assert copy is not given
    assert copy.get_params() == given.get_params()
    assert copy.set_params(model="mlp(hidden=4)", seed=8) is copy
    assert (copy.model, copy.seed, given.seed) == ("mlp(hidden=4)", 8, 7)
    assert repr(Ranker("linear")) == "Ranker(model='linear')"
    with pytest.raises(ValueError, match="Invalid parameter 'rate'"):
        copy.set_params(rate=1)


def test_a_clone_is_not_fitted_and_fits_the_same(split: Split, qid: Any) -> None:
    fitted = ranker().fit(split.features, split.labels, qid=qid)
    copy = clone(fitted)
    with pytest.raises(NotFittedError):
        copy.predict(split.features)
    copy.fit(split.features, split.labels, qid=qid)
    assert copy.model_.fingerprint == fitted.model_.fingerprint


def test_queries_by_name_and_by_size_are_the_same(split: Split, qid: Any) -> None:
    by_name = ranker().fit(split.features, split.labels, qid=qid)
    by_size = ranker().fit(split.features, split.labels, group=split.sizes.tolist())
    assert by_name.model_.fingerprint == by_size.model_.fingerprint
    assert by_name.n_features_in_ == 5
    assert len(by_name.training_.history) == 1 + 3


def test_it_trains_what_train_trains(split: Split, qid: Any) -> None:
    options = {"metric": "dcg@3", "objective": "pairwise-logistic", "seed": 3}
    fitted = ranker(validation=0.25, **options).fit(split.features, split.labels, qid=qid)
    parts = split_queries(split, (0.75, 0.25), np.random.default_rng(3))
    expected = train(Dataset("same", parts[0], parts[1], parts[1]), "linear", settings=SETTINGS, **options)
    assert fitted.model_.fingerprint == expected.model.fingerprint
    np.testing.assert_array_equal(fitted.predict(split.features), expected.model.scores(split.features))


def test_sparse_rows_and_lists_are_fine(split: Split, qid: Any) -> None:
    dense = ranker().fit(split.features, split.labels, qid=qid)
    for rows in (sparse.csr_matrix(split.features), sparse.csc_array(split.features)):
        fitted = ranker().fit(rows, split.labels, qid=qid)
        assert fitted.model_.fingerprint == dense.model_.fingerprint
        np.testing.assert_array_equal(fitted.predict(rows), dense.predict(split.features))
        assert fitted.score(rows, split.labels, qid=qid) == dense.score(split.features, split.labels, qid=qid)
    lists = ranker().fit(split.features.tolist(), split.labels.tolist(), qid=qid.tolist())
    assert lists.model_.fingerprint == dense.model_.fingerprint
    np.testing.assert_array_equal(lists.predict(split.features.tolist()), dense.predict(split.features))


def test_it_stops_early_on_the_set_it_is_given(split: Split) -> None:
    train_part, held_out = split_queries(split, (1, 1), np.random.default_rng(0))
    names = np.repeat(held_out.query_ids, held_out.sizes)
    fitted = [
        ranker().fit(
            train_part.features,
            train_part.labels,
            group=train_part.sizes,
            eval_set=(held_out.features, held_out.labels),
            **{"eval_qid": names} if by_name else {"eval_group": held_out.sizes},
        )
        for by_name in (True, False)
    ]
    expected = train(Dataset("same", train_part, held_out, held_out), "linear", settings=SETTINGS)
    for one in fitted:
        assert one.training_.history == expected.history
        assert one.model_.fingerprint == expected.model.fingerprint


def test_the_score_is_the_metric(split: Split, qid: Any) -> None:
    fitted = ranker(metric="dcg@3").fit(split.features, split.labels, qid=qid)
    (expected,) = ranking_metrics(fitted.predict(split.features), split, ["dcg@3"]).values()
    assert fitted.score(split.features, split.labels, qid=qid) == expected
    assert fitted.score(split.features, split.labels, group=split.sizes) == expected


def test_cross_validation_by_query(split: Split, qid: Any) -> None:
    X, y = split.features, split.labels
    scores = []
    for inside, outside in GroupKFold(3).split(X, y, groups=qid):
        fitted = ranker().fit(X[inside], y[inside], qid=qid[inside])
        scores.append(fitted.score(X[outside], y[outside], qid=qid[outside]))
    random = ranker().fit(X, y, qid=qid)
    (untrained,) = ranking_metrics(-random.predict(X), split, ["ndcg@5"]).values()
    assert len(scores) == 3
    assert min(scores) > untrained


@pytest.mark.parametrize("model", ["mlp(hidden=4)", "lightgbm(rounds=3)"])
def test_any_named_model(split: Split, qid: Any, model: str) -> None:
    fitted = ranker(model=model).fit(split.features, split.labels, qid=qid)
    assert fitted.model_.kind == model.split("(")[0]
    assert fitted.predict(split.features[:3]).shape == (3,)


def test_before_it_is_fitted(split: Split, qid: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        Ranker().predict(split.features)
    with pytest.raises(NotFittedError, match="not fitted"):
        Ranker().score(split.features, split.labels, qid=qid)


X = np.eye(4)
Y = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either qid .* or group"),
        ({"qid": [1, 1, 2, 2], "group": [2, 2]}, "either qid .* or group"),
        ({"qid": [1, 2, 1, 2]}, "the rows of query 1 are not adjacent: sort the rows by query"),
        ({"qid": ["b", "a", "b", "b"]}, "the rows of query 'b' are not adjacent"),
        ({"qid": [1, 1, 2]}, r"qid must name the query of each of the 4 rows, got shape \(3,\)"),
        ({"group": [2, 3]}, "group must add up to the 4 rows, got 5"),
        ({"group": [4, 0]}, "query number 1 has no documents"),
        ({"group": [[2, 2]]}, "group must add up to the 4 rows"),
        ({"qid": [1, 1, 2, 2], "eval_qid": [1]}, "the rows of eval_set"),
        ({"qid": [1, 1, 2, 2], "eval_group": [1]}, "the rows of eval_set"),
        ({"qid": [1, 1, 2, 2], "eval_set": (X, Y)}, "either qid .* or group"),
        ({"qid": [1, 1, 1, 1]}, "1 queries cannot be split into 2 parts"),
    ],
)
def test_queries_that_cannot_be_identified_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ranker().fit(X, Y, **given)


def test_rows_and_labels_must_match() -> None:
    with pytest.raises(DataError, match="X has 4 rows and y has 3: every row needs a label"):
        ranker().fit(X, [0, 1, 0], group=[3])
    with pytest.raises(DataError, match="a negative label"):
        ranker().fit(X, [0, 1, 0, -1], group=[2, 2])
    fitted = ranker().fit(X, Y, group=[2, 2])
    with pytest.raises(ValueError, match="X has 3 features, but Ranker is expecting 4"):
        fitted.predict(np.eye(3))


def test_what_is_asked_for_must_exist() -> None:
    with pytest.raises(RankloopError, match="unknown model 'linaer', did you mean 'linear'"):
        ranker(model="linaer").fit(X, Y, group=[2, 2])
    with pytest.raises(RankloopError, match="'mrr' cannot be trained on"):
        ranker(metric="mrr").fit(X, Y, group=[2, 2])
    with pytest.raises(DataError, match="shares must be positive"):
        ranker(validation=0.0).fit(X, Y, group=[2, 2])
