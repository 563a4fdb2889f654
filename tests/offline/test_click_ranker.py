"""The ranker that learns from clicks has the interface of scikit-learn, and the numbers of a log."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankloop
from rankloop import ClickRanker
from rankloop.errors import DataError
from rankloop.types import Bias

QUERIES, SHOWN, TIMES = 60, 4, 5
BIAS = Bias([0.9, 0.6, 0.4, 0.3], [0.1, 0.05, 0.0, 0.0], [1.0, 0.65, 0.4, 0.3])
NAMES = ("match", "price", "stock")


class Shop(NamedTuple):
    X: pd.DataFrame
    y: Any
    by: dict[str, Any]


@pytest.fixture(scope="module")
def shop() -> Shop:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(QUERIES, 6, len(NAMES))).astype(np.float32)
    relevance = 1.0 / (1.0 + np.exp(-2.0 * features[:, :, 1]))
    query = np.repeat(np.arange(QUERIES), TIMES)
    shown = np.argsort(-(features[query, :, 0] + rng.gumbel(size=(len(query), 6))), axis=1)[:, :SHOWN]
    chance = BIAS.alpha * np.take_along_axis(relevance[query], shown, axis=1) + BIAS.beta
    X = pd.DataFrame(features[np.repeat(query, SHOWN), shown.ravel()], columns=NAMES)
    by = {
        "query": np.repeat(query, SHOWN),
        "position": np.tile(np.arange(1, SHOWN + 1), len(query)),
        "impression": np.repeat(np.arange(len(query)), SHOWN),
        "document": shown.ravel(),
    }
    return Shop(X, (rng.random(chance.shape) < chance).ravel().astype(int), by)


def ranker(**options: Any) -> ClickRanker:
    return ClickRanker(**{"model": "linear", "bias": BIAS, "learning": "robust", **options})


@pytest.mark.long
def test_it_has_the_numbers_of_a_log(shop: Shop) -> None:
    fitted = ranker(judge="folds", seed=3).fit(shop.X, shop.y, **shop.by)
    frame = shop.X.assign(**shop.by, clicked=shop.y)
    log = rankloop.log(
        frame,
        **dict(zip(shop.by, shop.by, strict=True)),
        clicked="clicked",
        features=NAMES,
    )
    expected = log.fit("linear", bias=BIAS, learning="robust", seed=3)
    assert expected.comparison is not None
    assert fitted.comparison_ is not None
    assert fitted.comparison_.difference == expected.comparison.difference
    np.testing.assert_array_equal(fitted.predict(shop.X), expected.model.scores(shop.X.to_numpy()))
    # Users want what is expensive, and production does not know it.
    assert fitted.comparison_.difference.estimate.low > 0.0
    # On the rows of the fit, its own folds judge it; without them, nothing does.
    assert fitted.evaluate(shop.X, shop.y, **shop.by).difference == fitted.comparison_.difference
    with pytest.raises(DataError, match="none judges it"):
        ranker().fit(shop.X, shop.y, **shop.by).evaluate(shop.X, shop.y, **shop.by)


def test_what_is_not_given_follows_from_the_rows(shop: Shop) -> None:
    full = ranker().fit(shop.X, shop.y, **shop.by)
    query, position = shop.by["query"], shop.by["position"]
    by_position = ranker().fit(shop.X, shop.y, query=query, position=position)
    impressions = ranker().fit(shop.X, shop.y, query=query, impression=shop.by["impression"])
    for each in (by_position, impressions):
        # The order of documents, and so that of sums, is another one.
        np.testing.assert_allclose(each.predict(shop.X), full.predict(shop.X), atol=0.01)


def test_conventions_of_scikit_learn(shop: Shop) -> None:
    fitted = ranker().fit(shop.X, shop.y, **shop.by)
    assert list(fitted.feature_names_in_) == list(NAMES)
    again = clone(fitted)
    assert {**again.get_params(), "bias": None} == {**fitted.get_params(), "bias": None}
    with pytest.raises(NotFittedError):
        again.predict(shop.X)
    stored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(stored.predict(shop.X), fitted.predict(shop.X))
    np.testing.assert_array_equal(fitted.predict(pl.from_pandas(shop.X)), fitted.predict(shop.X))
    for wrong in (shop.X[list(reversed(NAMES))], shop.X.drop(columns="price"), shop.X.assign(age=1.0)):
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(wrong)
    names = {f"clickranker__{name}": values for name, values in shop.by.items()}
    chain = make_pipeline(StandardScaler(), ranker()).fit(shop.X, shop.y, **names)
    order = np.argsort(chain.predict(shop.X))
    assert np.corrcoef(shop.X["price"].to_numpy()[order], np.arange(len(order)))[0, 1] > 0.8


@pytest.mark.long
def test_options_are_searched_with_routed_queries(shop: Shop) -> None:
    requests = dict.fromkeys(shop.by, True)
    with sklearn.config_context(enable_metadata_routing=True):
        asks = ranker().set_fit_request(**requests).set_score_request(**requests)
        grid = {"model": ["linear", "lightgbm(rounds=2, objective=lambdarank)"]}
        search = GridSearchCV(asks, grid, cv=GroupKFold(2), error_score="raise")
        search.fit(shop.X, shop.y, groups=shop.by["query"], **shop.by)
    assert search.best_score_ > 0.0
    # It scored what `evaluate` says of queries that the fit did not see.
    inside, outside = next(iter(GroupKFold(2).split(shop.X, shop.y, groups=shop.by["query"])))
    parts = [{name: values[rows] for name, values in shop.by.items()} for rows in (inside, outside)]
    one = ranker().fit(shop.X.iloc[inside], shop.y[inside], **parts[0])
    expected = one.evaluate(shop.X.iloc[outside], shop.y[outside], **parts[1]).difference.estimate.value
    assert search.cv_results_["split0_test_score"][0] == expected


def test_what_is_wrong_is_named(shop: Shop) -> None:
    query, position = shop.by["query"], shop.by["position"]
    with pytest.raises(DataError, match="give the query of each row"):
        ranker().fit(shop.X, shop.y)
    with pytest.raises(DataError, match=r"query needs a value for each of the 1,200 rows, got shape \(3,\)"):
        ranker().fit(shop.X, shop.y, query=[1, 2, 3])
    with pytest.raises(DataError, match="add 1 to positions that count from 0"):
        ranker().fit(shop.X, shop.y, query=query, position=position - 1)
    with pytest.raises(DataError, match="taken by several rows of one impression"):
        ranker().fit(shop.X, shop.y, query=query, position=position, impression=query)
    with pytest.raises(DataError, match="not numbers of clicks"):
        ranker().fit(shop.X, shop.y - 1, query=query, position=position)
