"""What each engine computes from an exported file, rule by rule as in the engine's source.

Each function takes the content of a model's file and documents × features in float32, and returns the outputs
of all trees, documents × trees, in float32. Java's float is float32, and its arithmetic is that of IEEE 754
without extra precision, as numpy's is.

| engine | source |
|---|---|
| OpenSearch | opensearch-learning-to-rank-base: `XGBoostJsonParser`, `NaiveAdditiveDecisionTree.Split.eval` |
| Elasticsearch | elasticsearch-learning-to-rank: the same, and `DenseFeatureVector` |
| RankLib | `Ensemble.create`, `Split.eval`, `DenseProgramaticDataPoint.getFeatureValue` |
| Solr | `MultipleAdditiveTreesModel`, `StandardNormalizer`, `LinearModel`, `NeuralNetworkModel` |
| Vespa | `LightGBMParser.nodeToRankingExpression` |
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Float32

Rows = NDArray[np.intp]
# From a node and the rows that reach it: whether each goes left.
Rule = Callable[[Any, Rows], NDArray[np.bool_]]


def java_float(text: object) -> np.float32:
    """``Float.parseFloat``, and the number that a JSON parser casts to float."""
    with np.errstate(over="ignore"):
        return np.float32(float(str(text)))


def sums(outputs: Float32) -> Float32:
    """The score: outputs are added tree after tree, in float32."""
    total = np.zeros(len(outputs), np.float32)
    for column in outputs.T:
        total = total + column
    return total


def _outputs(
    roots: list[Any],
    n_rows: int,
    is_leaf: Callable[[Any], bool],
    value: Callable[[Any], np.float32],
    goes_left: Rule,
    children: Callable[[Any], tuple[Any, Any]],
) -> Float32:
    outputs = np.full((n_rows, len(roots)), np.nan, np.float32)
    for tree, root in enumerate(roots):
        stack = [(root, np.arange(n_rows))]
        while stack:
            node, rows = stack.pop()
            if is_leaf(node):
                outputs[rows, tree] = value(node)
            elif len(rows):
                left = goes_left(node, rows)
                stack += zip(children(node), (rows[left], rows[~left]), strict=True)
    return outputs


def opensearch(content: Mapping[str, Any], features: Float32, names: tuple[str, ...]) -> Float32:
    """NaN (an unset feature of a sparse vector) goes where ``missing`` points; else left if threshold > x."""
    model = content["model"]["model"]
    assert model["type"] == "model/xgboost+json"
    places = {name: place for place, name in enumerate(names)}

    def goes_left(node: Any, rows: Rows) -> NDArray[np.bool_]:
        assert {"nodeid", "split_condition", "split", "yes", "no", "depth"} <= node.keys()
        first, second = node["children"]
        assert (first["nodeid"], second["nodeid"]) == (node["yes"], node["no"])
        value = features[rows, places[node["split"]]]
        threshold = java_float(node["split_condition"])
        return np.where(np.isnan(value), node["missing"] == node["yes"], threshold > value)

    return _outputs(
        json.loads(model["definition"]),
        len(features),
        lambda node: "leaf" in node,
        lambda node: java_float(node["leaf"]),
        goes_left,
        lambda node: tuple(node["children"]),
    )


def elasticsearch(content: Mapping[str, Any], features: Float32, names: tuple[str, ...]) -> Float32:
    """A dense vector, whose unset features are 0; ``missing`` is ignored."""
    return opensearch(content, np.where(np.isnan(features), np.float32(0), features), names)


def ranklib(content: Mapping[str, Any], features: Float32, _names: tuple[str, ...]) -> Float32:
    """Features from 1; an unknown value (NaN) is 0; left if x <= threshold."""
    model = content["model"]["model"]
    assert model["type"] == "model/ranklib"
    lines = model["definition"].splitlines()
    assert lines[0] == "## LambdaMART"
    # Lines are trimmed and joined, so that no text stands between the elements.
    body = "".join(line.strip() for line in lines if not line.startswith("##"))
    known = np.where(np.isnan(features), np.float32(0), features)

    def goes_left(node: Any, rows: Rows) -> NDArray[np.bool_]:
        assert [child.tag for child in node] == ["feature", "threshold", "split", "split"]
        assert [child.attrib["pos"] for child in node[2:]] == ["left", "right"]
        value = known[rows, int(node[0].text.strip()) - 1]
        return value <= java_float(node[1].text.strip())

    trees = list(ET.fromstring(body))
    assert all(tree.attrib["weight"] == "1.0" for tree in trees)
    return _outputs(
        [tree[0] for tree in trees],
        len(features),
        lambda node: node[0].tag == "output",
        lambda node: java_float(node[0].text.strip()),
        goes_left,
        lambda node: (node[2], node[3]),
    )


def solr(content: Mapping[str, Any], features: Float32, names: tuple[str, ...]) -> Float32:
    """Normalised in float32, NaN as it is; left if x <= threshold + 1e-6f, else right, NaN where it says."""
    assert content["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    rows_of = normalise_solr(content, features)
    same_as_zero = content["params"].get("isNullSameAsZero", True)
    if same_as_zero:
        rows_of = np.where(np.isnan(rows_of), np.float32(0), rows_of)
    places = {feature["name"]: place for place, feature in enumerate(content["features"])}
    assert tuple(places) == names

    def goes_left(node: Any, rows: Rows) -> NDArray[np.bool_]:
        value = rows_of[rows, places[node["feature"]]]
        left = value <= java_float(node["threshold"]) + np.float32(1e-6)
        return left if same_as_zero else np.where(np.isnan(value), node["missing"] == "left", left)

    trees = content["params"]["trees"]
    outputs = _outputs(
        [tree["root"] for tree in trees],
        len(features),
        lambda node: "feature" not in node,
        lambda node: java_float(node["value"]),
        goes_left,
        lambda node: (node["left"], node["right"]),
    )
    return outputs * np.array([java_float(tree["weight"]) for tree in trees])


def normalise_solr(content: Mapping[str, Any], features: Float32) -> Float32:
    normalised = features.copy()
    for place, feature in enumerate(content["features"]):
        norm = feature.get("norm")
        if norm is not None:
            assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            average, deviation = (java_float(norm["params"][name]) for name in ("avg", "std"))
            assert deviation > 0
            with np.errstate(over="ignore"):
                normalised[:, place] = (features[:, place] - average) / deviation
    return normalised


def solr_network(content: Mapping[str, Any], features: Float32) -> Float32:
    """Each layer: bias first, then products in order, in float32; the activation in double, cast to float."""
    activations = {
        "relu": lambda x: np.where(x < 0, 0, x),
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "identity": lambda x: x,
    }
    values = features
    for layer in content["params"]["layers"]:
        matrix = np.array(layer["matrix"], np.float32)
        total = np.repeat(np.array(layer["bias"], np.float32)[None], len(values), 0)
        for column in range(matrix.shape[1]):
            total = total + matrix[:, column] * values[:, [column]]
        values = activations[layer["activation"]](total.astype(np.float64)).astype(np.float32)
    return values[:, 0]


def linear(weights: list[float], features: Float32) -> Float32:
    """A dot product in float32, feature after feature."""
    total = np.zeros(len(features), np.float32)
    for weight, column in zip(weights, features.T, strict=True):
        total = total + java_float(weight) * column
    return total


def vespa(content: Mapping[str, Any], features: Float32, precision: type[np.floating[Any]]) -> Float32:
    """``x < t``, or ``!(x >= t)`` if ``default_left``; in double, or in float in compiled forests."""

    def goes_left(node: Any, rows: Rows) -> NDArray[np.bool_]:
        assert node["decision_type"] != "=="
        with np.errstate(over="ignore"):
            threshold = precision(node["threshold"])
        value = features[rows, node["split_feature"]].astype(precision)
        return ~(value >= threshold) if node["default_left"] else value < threshold

    for key in ("objective", "feature_names", "tree_info", "pandas_categorical"):
        assert key in content
    return _outputs(
        [tree["tree_structure"] for tree in content["tree_info"]],
        len(features),
        lambda node: "left_child" not in node,
        lambda node: np.float32(node["leaf_value"]),
        goes_left,
        lambda node: (node["left_child"], node["right_child"]),
    )
