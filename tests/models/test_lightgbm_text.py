"""Texts of LightGBM models that would crash LightGBM, or keep it searching for ever."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import pytest

from rankloop.errors import ModelFileError
from rankloop.models.lightgbm import LightGBMModel, boost
from rankloop.models.lightgbm_text import check_text
from rankloop.models.lightgbm_trees import trees_of_text

RNG = np.random.default_rng(18)
FEATURES = RNG.normal(size=(200, 3)).astype(np.float32)
TARGET = FEATURES[:, 0] + FEATURES[:, 1] ** 2


@pytest.fixture(scope="module")
def text() -> str:
    """A model of three trees with at least three splits each."""
    model = boost(FEATURES, lambda scores: (TARGET - scores, np.ones(200)), rounds=3)
    return model.text


def trained(**parameters: object) -> str:
    """A model that LightGBM trained on its own."""
    settings = {
        "objective": "regression",
        "num_leaves": 5,
        "min_data_in_leaf": 5,
        "verbosity": -1,
        **parameters,
    }
    features = FEATURES.astype(np.float64)
    features[:, 2] = RNG.integers(0, 40, 200)
    data = lightgbm.Dataset(
        features,
        label=features[:, 0] + features[:, 2] % 3,
        categorical_feature=[2] if "linear_tree" not in settings else "auto",
        params=settings,
    )
    return str(lightgbm.train(settings, data, 3).model_to_string())


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"linear_tree": True},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"monotone_constraints": [1, 0, 0], "objective": "huber"},
    ],
    ids=["categories", "linear", "forest", "monotone"],
)
def test_what_lightgbm_writes_is_read(parameters: dict[str, object]) -> None:
    if "monotone_constraints" in parameters:
        parameters = {**parameters, "linear_tree": False}
    written = trained(**parameters)
    check_text(written)
    model = LightGBMModel.from_bytes(written.encode())
    expected = lightgbm.Booster(model_str=written).predict(FEATURES, raw_score=True)
    np.testing.assert_array_equal(model.scores(FEATURES), expected)


CHANGES = {
    "a feature that is not there": ("split_feature", lambda words: ["7", *words[1:]]),
    "a negative feature": ("split_feature", lambda words: ["-1", *words[1:]]),
    "a child beyond the nodes": ("left_child", lambda words: ["99", *words[1:]]),
    "a leaf beyond the leaves": ("right_child", lambda words: [*words[:-1], "-99"]),
    "a node that is its own child": ("left_child", lambda words: ["0", *words[1:]]),
    "two parents of one node": ("right_child", lambda words: [words[0]] * len(words)),
    "fewer thresholds than nodes": ("threshold", lambda words: words[1:]),
    "fewer leaves than nodes": ("leaf_value", lambda words: words[2:]),
    "no leaves": ("num_leaves", lambda _: ["0"]),
    "more leaves than the lists have": ("num_leaves", lambda _: ["1000000000"]),
    "categories that are not there": ("num_cat", lambda _: ["3"]),
    "a categorical split without categories": ("decision_type", lambda words: ["1", *words[1:]]),
    "values that are not finite": ("leaf_value", lambda words: ["inf", *words[1:]]),
    "thresholds that are not numbers": ("threshold", lambda words: ["nan", *words[1:]]),
    "digits that LightGBM does not read": ("left_child", lambda words: ["٣", *words[1:]]),
    "words that only Python divides": ("leaf_value", lambda words: [f"{words[0]}\x1f{words[1]}", *words[2:]]),
    "lengths that only Python divides": (
        "tree_sizes",
        lambda words: [f"{words[0]}\x0b{words[1]}", *words[2:]],
    ),
    "linear leaves without coefficients": ("is_linear", lambda _: ["1"]),
    "more features than names": ("max_feature_idx", lambda _: ["9"]),
    "several scores per document": ("num_class", lambda _: ["5"]),
    "several trees per iteration": ("num_tree_per_iteration", lambda _: ["2"]),
    "trees that are somewhere else": ("tree_sizes", lambda words: [str(int(words[0]) + 1), *words[1:]]),
    "trees of no length": ("tree_sizes", lambda words: ["0", *words[1:]]),
    "trees that are not counted": ("tree_sizes", lambda words: words[:-1]),
    "an objective of several classes": ("objective", lambda _: ["multiclass", "num_class:99999999"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_text_that_lightgbm_would_trust(text: str, name: str) -> None:
    """Before: 96 of 150 such files killed the process or kept it busy for ever."""
    line, change = CHANGES[name]
    found = re.search(rf"^{line}=(.*)$", text, re.MULTILINE)
    words = found[1].split() if found else []
    new = f"{line}={' '.join(change(words))}"
    changed = (
        text.replace(found[0], new, 1) if found else text.replace("feature_names", f"{new}\nfeature_names", 1)
    )
    # With the lengths that these trees have now: the check must not rest on them alone.
    if not line.startswith("tree_sizes"):
        trees = re.split(r"(?=^Tree=)", changed[: changed.index("end of trees")], flags=re.MULTILINE)[1:]
        sizes = "tree_sizes=" + " ".join(str(len(tree.encode())) for tree in trees)
        changed = re.sub(r"^tree_sizes=.*$", sizes, changed, count=1, flags=re.MULTILINE)
    with pytest.raises(ModelFileError, match="this is not a model that LightGBM can read safely"):
        LightGBMModel.from_bytes(LightGBMModel(changed).to_bytes())
    with pytest.raises(ModelFileError, match="this is not a model that LightGBM can read safely"):
        LightGBMModel.from_bytes(changed.encode())


@pytest.mark.parametrize("threshold", ["inf", "-inf", "1e300", "-1e300", "1.7976931348623157e+308"])
def test_thresholds_past_every_value_are_read(threshold: str) -> None:
    """LightGBM writes ``inf`` for a split of missing values against all others."""
    features = FEATURES.copy()
    features[::3, 0] = np.nan
    target = np.where(np.isnan(features[:, 0]), 3.0, 0.0)
    text = boost(features, lambda scores: (target - scores, np.ones(200)), rounds=1).text
    assert "\nthreshold=inf\n" in text
    size = re.search(r"\ntree_sizes=(\d+)\n", text)
    assert size is not None
    longer = int(size[1]) + len(threshold) - len("inf")
    text = text.replace("\nthreshold=inf\n", f"\nthreshold={threshold}\n")
    model = LightGBMModel.from_bytes(text.replace(size[0], f"\ntree_sizes={longer}\n").encode())
    rows = np.array([[value, 0, 0] for value in (0, 1e38, -1e38, np.inf, -np.inf, np.nan)], np.float32)
    np.testing.assert_array_equal(trees_of_text(model.text).scores(rows), model.scores(rows))


def test_a_model_without_trees() -> None:
    check_text(boost(FEATURES, lambda _: (np.zeros(200), np.ones(200)), rounds=1).text)
