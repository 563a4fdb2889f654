"""XGBoost reads what is written for it, and what XGBoost writes is read: routes and scores agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.errors import ModelFileError
from rankloop.exchange import PolicySource, read_model, write_model
from rankloop.exchange.xgboost import read_ubjson
from rankloop.models import TreeEnsemble
from rankloop.types import Float32
from tests.exchange.cases import NAMES, TRAININGS, case, training_data
from tests.exchange.test_routes import VECTORS, numbered

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
SPELT = list(NAMES)


def load(data: bytes) -> Any:
    return xgboost.Booster(model_file=bytearray(data))


def trained(**settings: Any) -> Any:
    data, target = training_data(np.random.default_rng(3), missing=True)
    matrix = xgboost.DMatrix(data, target, feature_names=SPELT)
    return xgboost.train({"max_depth": 5, "nthread": 1, "seed": 1, **settings}, matrix, 8)


def near_thresholds(trees: TreeEnsemble, rng: np.random.Generator) -> Float32:
    rows = np.empty((VECTORS, trees.n_features), np.float32)
    for feature in range(trees.n_features):
        bounds = np.unique(trees.bound[trees.feature == feature])
        above = np.nextafter(bounds, np.float32(np.inf))
        extra = np.array([0, 1e-45, -1e-45, np.nan, 5, -5], np.float32)
        pool = np.concatenate([bounds, above, np.nextafter(above, np.float32(np.inf)), extra])
        rows[:, feature] = rng.choice(pool[~np.isinf(pool)], VECTORS)
    return rows


def margin(booster: Any, rows: Float32) -> Any:
    return booster.predict(xgboost.DMatrix(rows, feature_names=SPELT), output_margin=True)


@pytest.mark.parametrize("training", TRAININGS)
def test_xgboost_takes_the_same_routes(training: str, rng: np.random.Generator) -> None:
    model = case(training)
    vectors = model.vectors(VECTORS, rng, infinite=False)
    leaves = model.leaves(vectors)
    source = PolicySource(numbered(model.trees), feature_names=NAMES)
    booster = load(write_model(source, "xgboost").model)
    # One tree at a time, so that a sum cannot hide a wrong route.
    for tree in range(model.trees.n_trees):
        matrix = xgboost.DMatrix(vectors, feature_names=SPELT)
        found = booster[tree : tree + 1].predict(matrix, output_margin=True)
        assert np.array_equal(found, leaves[:, tree])
    score = margin(load(write_model(PolicySource(model.model), "xgboost").model), vectors)
    sizes = np.abs(model.trees.values)[leaves].sum(axis=1)
    bound = sizes * np.finfo(np.float32).eps * model.trees.n_trees
    assert (np.abs(score - model.model.scores(vectors)) <= bound).all()


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "reg:squarederror"},
        {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.3},
        {"objective": "reg:squarederror", "tree_method": "exact", "gamma": 5.0},
        {"objective": "count:poisson", "base_score": 2.0},
        {"objective": "reg:logistic", "base_score": 0.3},
    ],
    ids=lambda settings: " ".join(str(value) for value in settings.values()),
)
def test_models_of_xgboost_are_read(
    settings: dict[str, Any], ending: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    data, target = training_data(np.random.default_rng(3), missing=True)
    if settings["objective"] != "reg:squarederror":
        target = 1 / (1 + np.exp(-target))
    matrix = xgboost.DMatrix(data, target, feature_names=SPELT)
    booster = xgboost.train({"max_depth": 5, "nthread": 1, "seed": 1, **settings}, matrix, 8)
    booster.save_model(tmp_path / f"model.{ending}")
    model = read_model((tmp_path / f"model.{ending}").read_bytes())
    assert isinstance(model, TreeEnsemble)
    assert model.feature_names == NAMES
    rows = near_thresholds(model, rng)
    # Sums of nine numbers below ten in float32.
    np.testing.assert_allclose(model.scores(rows), margin(booster, rows), atol=2e-5, rtol=0)


def test_dumps_of_xgboost_are_read(rng: np.random.Generator) -> None:
    """A dump has no base score, and the names of the features that are used alone."""
    booster = trained(base_score=0.0)
    whole = read_model(bytes(booster.save_raw("json")))
    dumped = read_model(json.dumps(booster.get_dump(dump_format="json")).encode())
    assert isinstance(whole, TreeEnsemble)
    assert isinstance(dumped, TreeEnsemble)
    rows = near_thresholds(whole, rng)
    assert dumped.feature_names is not None
    order = [NAMES.index(name) for name in dumped.feature_names]
    # Nine digits, which dumps have, tell all float32 numbers apart.
    np.testing.assert_allclose(dumped.scores(rows[:, order]), whole.scores(rows), atol=1e-6, rtol=0)


def test_features_without_names_are_matched_by_number() -> None:
    data, target = training_data(np.random.default_rng(3), missing=True)
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(data, target), 2)
    whole = read_model(bytes(booster.save_raw("json")))
    assert (whole.n_features, getattr(whole, "feature_names", "")) == (5, None)
    dumped = read_model(json.dumps(booster.get_dump(dump_format="json")).encode())
    assert getattr(dumped, "feature_names", "") is None
    booster.set_param({"base_score": 0.0})
    rows = data[:100, : dumped.n_features]
    difference = dumped.scores(rows) - whole.scores(data[:100])
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)


def test_what_cannot_be_read_is_refused() -> None:
    data, target = training_data(np.random.default_rng(3), missing=False)
    classes = (target > 0).astype(int) + (target > 2).astype(int)
    several = xgboost.train(
        {"objective": "multi:softprob", "num_class": 3, "nthread": 1}, xgboost.DMatrix(data, classes), 2
    )
    with pytest.raises(ModelFileError, match="3 classes"):
        read_model(bytes(several.save_raw("json")))
    linear = xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(data, target), 2)
    with pytest.raises(ModelFileError, match="only sums of trees"):
        read_model(bytes(linear.save_raw("json")))
    kinds = xgboost.DMatrix(
        np.abs(data[:, [4]]), target, feature_types=["c"], enable_categorical=True, feature_names=["kind"]
    )
    categorical = xgboost.train({"tree_method": "hist", "max_cat_to_onehot": 1, "nthread": 1}, kinds, 2)
    with pytest.raises(ModelFileError, match="categorical splits"):
        read_model(bytes(categorical.save_raw("json")))
    whole = bytes(trained().save_raw("ubj"))
    for cut in (1, 7, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ModelFileError):
            read_model(whole[:cut])
    content = json.loads(bytes(trained().save_raw("json")))
    del content["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"]
    with pytest.raises(ModelFileError, match="left_children"):
        read_model(json.dumps(content).encode())


def test_ubjson_is_json() -> None:
    booster = trained()
    text, binary = json.loads(bytes(booster.save_raw("json"))), read_ubjson(bytes(booster.save_raw("ubj")))
    trees = [content["learner"]["gradient_booster"]["model"]["trees"] for content in (text, binary)]
    for plain, packed in zip(*trees, strict=True):
        for name in ("left_children", "right_children", "split_indices", "default_left"):
            assert plain[name] == packed[name]
        assert np.array_equal(
            np.array(plain["split_conditions"], np.float32), np.array(packed["split_conditions"], np.float32)
        )
