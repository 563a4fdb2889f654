"""XGBoost's own models, without the package xgboost: written as JSON, read as JSON or Universal Binary JSON.

XGBoost's rule at a split: left if ``x < split_condition`` in float32; a missing value goes left if
``default_left`` is set.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.models.trees import TreeBuilder, TreeEnsemble, next_above, next_below
from rankloop.registry import register

VERSION = [2, 0, 0]
NO_PARENT = 2**31 - 1
# XGBoost reads it as a float32, in which it is infinite.
PAST_LARGEST = 1e39
# What XGBoost does not allow in the name of a feature.
FORBIDDEN = str.maketrans("[]<", "___")


@register
@dataclass(frozen=True)
class XGBoost(ExportFormat):
    """XGBoost's JSON, which XGBoost 1.7 and later load: trees."""

    name: ClassVar[str] = "xgboost"
    suffix: ClassVar[str] = ".json"

    def write(self, source: PolicySource) -> Export:
        """The model.

        Raises:
            ExportError: the model does not consist of trees.
        """
        trees = source.trees
        if trees is None:
            raise self.refuse(source, "XGBoost's format holds only trees", ("onnx",))
        names = [name.translate(FORBIDDEN) for name in source.names]
        content = {"learner": _learner(trees, names), "version": VERSION}
        return Export(str(self), json.dumps(content).encode(), self.suffix, notes=names_note(source))


def _learner(trees: TreeEnsemble, names: list[str]) -> dict[str, Any]:
    written = [_write_tree(trees, number, root) for number, root in enumerate(trees.roots.tolist())]
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(written))},
        "iteration_indptr": list(range(len(written) + 1)),
        "tree_info": [0] * len(written),
        "trees": written,
    }
    return {
        "attributes": {},
        "feature_names": names,
        "feature_types": ["float"] * len(names),
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": f"{np.float32(trees.start):E}",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(len(names)),
            "num_target": "1",
        },
        # The settings of training, which XGBoost wants to see: since 2.0, and before.
        "objective": {"name": "rank:pairwise", "lambdarank_param": {}, "lambda_rank_param": {}},
    }


def _write_tree(trees: TreeEnsemble, number: int, root: int) -> dict[str, Any]:
    """Nodes level by level, as XGBoost numbers them; a leaf's value stands where a split's condition does."""
    order, parents = [root], [NO_PARENT]
    left, right = [], []
    for node in order:
        if node < 0:
            left.append(-1)
            right.append(-1)
            continue
        left.append(len(order))
        right.append(len(order) + 1)
        parents += [len(left) - 1] * 2
        order += [int(trees.left[node]), int(trees.right[node])]
    above = next_above(trees.bound)

    def condition(node: int) -> float:
        value = float(np.float32(trees.values[-1 - node])) if node < 0 else float(above[node])
        return value if np.isfinite(value) else PAST_LARGEST

    size = len(order)
    return {
        "base_weights": [0.0] * size,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [int(node >= 0 and trees.nan_left[node]) for node in order],
        "id": number,
        "left_children": left,
        "loss_changes": [0.0] * size,
        "parents": parents,
        "right_children": right,
        "split_conditions": [condition(node) for node in order],
        "split_indices": [int(trees.feature[node]) if node >= 0 else 0 for node in order],
        "split_type": [0] * size,
        "sum_hessian": [0.0] * size,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(trees.n_features),
            "num_nodes": str(size),
            "size_leaf_vector": "1",
        },
    }


def read_xgboost(content: Mapping[str, Any]) -> TreeEnsemble:
    """The trees of a model that XGBoost's ``save_model`` wrote; scores are those of ``output_margin``.

    Raises:
        ModelFileError: the model is damaged, or not of one sum of trees with numerical splits.
    """
    try:
        learner = content["learner"]
        booster, parameters = learner["gradient_booster"], learner["learner_model_param"]
        weights = booster.get("weight_drop")
        if booster["name"] == "dart":
            booster = booster["gbtree"]
        if booster["name"] != "gbtree" or int(parameters.get("num_class", 0)) > 1:
            raise ModelFileError(
                f"of XGBoost's models, only sums of trees can be read, not {booster['name']} with "
                f"{parameters.get('num_class', 0)} classes"
            )
        n_features = int(parameters["num_feature"])
        names = tuple(learner.get("feature_names") or ()) or None
        builder = TreeBuilder()
        trees = booster["model"]["trees"]
        for number, tree in enumerate(trees):
            builder.root(_read_tree(builder, tree, 1.0 if weights is None else float(weights[number])))
        margin = _margin(str(parameters["base_score"]), str(learner["objective"]["name"]))
        # XGBoost's default method sends missing values to the right everywhere if it saw none.
        learned = any(any(tree["default_left"]) for tree in trees)
        return builder.ensemble(n_features, names=names, start=margin, learned_missing=learned)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"this is not a model of XGBoost, or it is damaged: {error!r}") from error


def _read_tree(builder: TreeBuilder, tree: Mapping[str, Any], weight: float) -> int:
    if any(tree.get("split_type", ())) or int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ModelFileError(
            "the XGBoost model has categorical splits or several outputs, which cannot be read: train with "
            "numerical features and one output"
        )
    left, right, default_left = tree["left_children"], tree["right_children"], tree["default_left"]
    with np.errstate(over="ignore"):
        conditions = np.array([float(value) for value in tree["split_conditions"]]).astype(np.float32)
    bounds = next_below(conditions)
    numbers: dict[int, int] = {}
    # Children come after their parents, so the last node is added first.
    for node in sorted(_reachable(left, right), reverse=True):
        if left[node] < 0:
            numbers[node] = builder.leaf(float(conditions[node]) * weight)
        else:
            numbers[node] = builder.split(
                int(tree["split_indices"][node]),
                bounds[node],
                bool(default_left[node]),
                numbers[left[node]],
                numbers[right[node]],
            )
    return numbers[0]


def _reachable(left: list[int], right: list[int]) -> list[int]:
    """Nodes of the tree; pruned ones stay in the file."""
    found = [0]
    for node in found:
        if left[node] >= 0:
            if min(left[node], right[node]) <= node:
                raise ModelFileError("the XGBoost model is damaged: a child comes before its parent")
            found += [left[node], right[node]]
    return found


def _margin(base_score: str, objective: str) -> float:
    """What is added to the sum of leaves: the base score, before the objective transforms it."""
    score = float(base_score.strip("[]").split(",")[0])
    if objective in ("binary:logistic", "reg:logistic"):
        return float(-np.log(1.0 / score - 1.0))
    if objective in ("count:poisson", "reg:gamma", "reg:tweedie"):
        return float(np.log(score))
    return score


# Marker → numpy's type; numbers are big-endian.
NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
CONSTANTS = {"Z": None, "T": True, "F": False}


def read_ubjson(data: bytes) -> Any:
    r"""The value that the bytes hold; arrays of one number type become lists of numbers.

    Raises:
        ModelFileError: the bytes are not UBJSON, or were cut short.

    Example:
        >>> read_ubjson(b"{i\x01a[$i#i\x02\x03\x04}")
        {'a': [3, 4]}
    """
    try:
        value, end = _value(data, 0)
    except (IndexError, KeyError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise ModelFileError(f"this is not UBJSON, or it was cut short: {error!r}") from error
    if end != len(data):
        raise ModelFileError(f"{len(data) - end} bytes follow the end of the UBJSON value")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    marker, at = chr(data[at]), at + 1
    if marker == "{":
        return _object(data, at)
    if marker == "[":
        return _array(data, at)
    if marker == "S":
        return _text(data, at)
    if marker == "C":
        return chr(data[at]), at + 1
    if marker in CONSTANTS:
        return CONSTANTS[marker], at
    return _numbers(data, at, marker, 1)[0][0], at + np.dtype(NUMBERS[marker]).itemsize


def _numbers(data: bytes, at: int, marker: str, count: int) -> tuple[list[Any], int]:
    kind = np.dtype(NUMBERS[marker])
    if count < 0:
        raise ValueError(f"an array of {count} values")
    return np.frombuffer(data, kind, count, at).tolist(), at + count * kind.itemsize


def _length(data: bytes, at: int) -> tuple[int, int]:
    value, at = _value(data, at)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"a length of {value!r}")
    return value, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _length(data, at)
    if at + length > len(data):
        raise ValueError("a text that was cut short")
    return data[at : at + length].decode(), at + length


def _object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    count = None
    if data[at] == ord("#"):
        count, at = _length(data, at + 1)
    found: dict[str, Any] = {}
    while len(found) != count and (count is not None or data[at] != ord("}")):
        key, at = _text(data, at)
        found[key], at = _value(data, at)
    return found, at + (count is None)


def _array(data: bytes, at: int) -> tuple[list[Any], int]:
    marker = count = None
    if data[at] == ord("$"):
        marker, at = chr(data[at + 1]), at + 2
    if data[at] == ord("#"):
        count, at = _length(data, at + 1)
        if marker is not None:
            return _numbers(data, at, marker, count)
    found: list[Any] = []
    while len(found) != count and (count is not None or data[at] != ord("]")):
        value, at = _value(data, at)
        found.append(value)
    return found, at + (count is None)
