"""Frames of every library are read by the names of their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankloop import Ranker, Settings
from rankloop.data import synthetic
from rankloop.errors import DataError
from rankloop.exchange.formats import plain_trees
from rankloop.frames import arrow_table, columns_of, feature_matrix, is_frame

COLUMNS = {
    "price": [3.0, None, 1.5],
    "title": ["a", "b", "c"],
    "age": [1, 2, 3],
    "new": [True, False, True],
}


def of_duckdb(columns: dict[str, Any]) -> Any:
    return duckdb.from_arrow(pa.table(columns))


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda columns: pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "lazy polars": pl.LazyFrame,
    "pyarrow": pa.table,
    "DuckDB": of_duckdb,
}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return FRAMES[request.param]


def test_columns_by_name(make):
    frame = make(COLUMNS)
    assert is_frame(frame)
    assert columns_of(frame) == list(COLUMNS)
    found = feature_matrix(frame, ["age", "price", "new"])
    np.testing.assert_array_equal(found, [[1.0, 3.0, 1.0], [2.0, np.nan, 0.0], [3.0, 1.5, 1.0]])
    assert found.dtype == np.float32
    assert arrow_table(frame).column("title").to_pylist() == ["a", "b", "c"]


def test_what_is_wrong_is_named(make):
    with pytest.raises(DataError, match=r"no column 'size', 'width'.*its columns are 'price', 'title'"):
        feature_matrix(make(COLUMNS), ["age", "size", "width"])
    with pytest.raises(DataError, match=r"column 'title' of the frame holds .*takes numbers there"):
        feature_matrix(make(COLUMNS), ["title"])
    numbers_as_text = make({"age": ["1", "2"]})
    with pytest.raises(DataError, match="column 'age' of the frame holds"):
        feature_matrix(numbers_as_text, ["age"])


@pytest.mark.parametrize("value", [np.zeros((2, 2)), [[1.0]], 3, "price", pa.array([1]), pd.Series([1.0])])
def test_other_values_are_no_frames(value):
    assert not is_frame(value)
    if not isinstance(value, dict):
        with pytest.raises(DataError, match="expected a frame of pandas, polars or pyarrow"):
            arrow_table(value)


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(queries=40, features=4).train


NAMES = ("age", "price", "stock", "width")


@pytest.mark.parametrize("model", ["linear", "mlp(hidden=4)", "lightgbm(rounds=4)"])
def test_a_model_matches_columns_by_name(model, data, make):
    columns = {name: data.features[:, place] for place, name in enumerate(NAMES)}
    ranker = Ranker(model, settings=Settings(epochs=1)).fit(
        pd.DataFrame(columns), data.labels, qid=np.repeat(data.query_ids, data.sizes)
    )
    assert list(ranker.feature_names_in_) == list(NAMES)
    expected = ranker.predict(pd.DataFrame(columns))
    np.testing.assert_array_equal(ranker.model_.scores(data.features), expected)
    reversed_and_more = make({"title": ["t"] * len(expected), **dict(reversed(columns.items()))})
    trained = ranker.model_
    as_trees = plain_trees(trained)
    for one in [trained] if as_trees is None else [trained, as_trees]:
        np.testing.assert_allclose(one.scores(reversed_and_more), expected, atol=1e-6)
        with pytest.raises(DataError, match="no column 'stock'"):
            one.scores(make({name: columns[name] for name in NAMES if name != "stock"}))
    nameless = Ranker(model, settings=Settings(epochs=1)).fit(data.features, data.labels, group=data.sizes)
    with pytest.raises(DataError, match="does not know the names"):
        nameless.model_.scores(reversed_and_more)


def test_a_ranker_refuses_other_columns_as_scikit_learn_does(data):
    columns = {name: data.features[:, place] for place, name in enumerate(NAMES)}
    frame = pd.DataFrame(columns)
    ranker = Ranker("linear", settings=Settings(epochs=1)).fit(frame, data.labels, group=data.sizes)
    for wrong in (frame[list(reversed(NAMES))], frame.drop(columns="age"), frame.assign(colour=1.0)):
        with pytest.raises(ValueError, match="feature names"):
            ranker.predict(wrong)
