"""LightGBM's trees in the plain form of `TreeEnsemble`.

LightGBM's rule at a split, for a float32 value x, a float64 threshold t and z = 1e-35:

1. x is 0 if ``|x| <= z``, and also if it is missing (NaN) and the split's missing type is not ``NaN``.
2. A missing x (missing type ``NaN``) or a zero (missing type ``Zero``) goes in the default direction.
3. Any other x goes left if ``x <= t``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import ModelFileError, RankloopError
from rankloop.models.lightgbm_text import default_names, spelt_names
from rankloop.models.trees import TreeEnsemble, next_below, round_down
from rankloop.types import Float32, Float64

# LightGBM's kZeroThreshold: values that are not above it in size are zero.
ZERO = np.float32(1e-35)
BELOW_ZERO = np.float32(next_below(-ZERO))
CATEGORICAL, DEFAULT_LEFT = 1, 2
NO_MISSING, MISSING_ZERO, MISSING_NAN = 0, 1, 2


class Splits(NamedTuple):
    """The splits of one tree as LightGBM has them; children below zero are leaves, as in `TreeEnsemble`.

    Attributes:
        feature: int64, splits.
        threshold: float64, splits.
        decision: int64, splits; bit 0 for a categorical split, bit 1 for a default direction to the left,
            the next two for the missing type.
        left: int64, splits.
        right: int64, splits.
        values: float64, leaves.
    """

    feature: NDArray[np.int64]
    threshold: Float64
    decision: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    values: Float64


def trees_of_text(text: str, names: tuple[str, ...] | None = None) -> TreeEnsemble:
    """The trees in the text that LightGBM's ``model_to_string`` gives.

    Args:
        text: the model.
        names: the names of the features; None for those in the text.

    Raises:
        RankloopError: the model has several classes, linear leaves or categorical splits.
    """
    head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    header = dict(line.partition("=")[::2] for line in head.splitlines())
    if header.get("num_tree_per_iteration", "1") != "1":
        raise RankloopError("the LightGBM model has several classes, and so no single score per document")
    try:
        n_features = int(header["max_feature_idx"]) + 1
        trees = [_splits_of_text(block) for block in blocks]
    except (KeyError, ValueError) as error:
        raise ModelFileError(f"this is not a LightGBM model, or it is damaged: {error!r}") from error
    spelt = spelt_names(text)
    if names is None and spelt != default_names(n_features):
        names = spelt or None
    return join_trees(n_features, trees, names, float32_bounds)


def _splits_of_text(block: str) -> Splits:
    lines = dict(line.partition("=")[::2] for line in block.splitlines())
    if lines.get("is_linear", "0") != "0":
        raise RankloopError(LINEAR)
    if int(lines["num_leaves"]) == 1:
        # Leaves and nothing else: the other lines are empty or missing.
        lines = {"leaf_value": lines["leaf_value"]}

    def numbers(name: str, kind: type[Any]) -> NDArray[Any]:
        return np.array(lines.get(name, "").split(), dtype=kind)

    return Splits(
        numbers("split_feature", np.int64),
        numbers("threshold", np.float64),
        numbers("decision_type", np.int64),
        numbers("left_child", np.int64),
        numbers("right_child", np.int64),
        numbers("leaf_value", np.float64),
    )


LINEAR = (
    "the LightGBM model has linear trees, which no other program can express: train without linear_tree, "
    "or keep LightGBM's own file (--to lightgbm)"
)


def trees_of_json(
    content: Mapping[str, Any], bounds: Callable[[Float64], Float32] | None = None
) -> TreeEnsemble:
    """The trees of what LightGBM's ``dump_model`` gives.

    Args:
        content: the model.
        bounds: the rule of the program that the file was written for: from thresholds to the bounds of
            ``x <= bound``. None for LightGBM's own.

    Raises:
        RankloopError: the model has several classes, linear leaves or categorical splits.
    """
    if content.get("num_tree_per_iteration", 1) != 1:
        raise RankloopError("the LightGBM model has several classes, and so no single score per document")
    try:
        n_features = int(content["max_feature_idx"]) + 1
        trees = [_splits_of_json(tree["tree_structure"]) for tree in content["tree_info"]]
        names: tuple[str, ...] | None = tuple(content["feature_names"])
    except (KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"this is not a LightGBM model, or it is damaged: {error!r}") from error
    if names == default_names(n_features):
        names = None
    return join_trees(n_features, trees, names, bounds or float32_bounds)


def _splits_of_json(root: Mapping[str, Any]) -> Splits:
    """Nodes in the order of a walk; its stack replaces recursion, because trees may be deep."""
    nodes, values, links = list[Mapping[str, Any]](), list[float](), list[list[int]]()
    stack: list[tuple[Mapping[str, Any], int, int]] = [(root, -1, 0)]
    while stack:
        node, parent, side = stack.pop()
        if "leaf_coeff" in node:
            raise RankloopError(LINEAR)
        if "left_child" in node:
            place = len(nodes)
            nodes.append(node)
            links.append([0, 0])
            stack += [(node["left_child"], place, 0), (node["right_child"], place, 1)]
        else:
            place = -1 - len(values)
            values.append(node["leaf_value"])
        if parent >= 0:
            links[parent][side] = place
    missing = {"None": NO_MISSING, "Zero": MISSING_ZERO, "NaN": MISSING_NAN}
    decisions = [
        (CATEGORICAL if node["decision_type"] == "==" else 0)
        + (DEFAULT_LEFT if node["default_left"] else 0)
        + 4 * missing[node["missing_type"]]
        for node in nodes
    ]
    children = np.array(links, np.int64).reshape(-1, 2)
    return Splits(
        np.array([node["split_feature"] for node in nodes], np.int64),
        np.array([np.nan if node["decision_type"] == "==" else node["threshold"] for node in nodes]),
        np.array(decisions, np.int64),
        children[:, 0],
        children[:, 1],
        np.array(values, np.float64),
    )


def join_trees(
    n_features: int, trees: list[Splits], names: tuple[str, ...] | None, bounds: Callable[[Float64], Float32]
) -> TreeEnsemble:
    """Trees of LightGBM as one `TreeEnsemble`; its scores are LightGBM's raw ones, sums over all trees."""
    plain = [plain_splits(tree, bounds(tree.threshold)) for tree in trees]
    roots, columns = list[int](), list[PlainSplits]()
    n_nodes = n_leaves = 0
    for tree, nodes in zip(trees, plain, strict=True):
        roots.append(n_nodes if len(nodes.feature) else -1 - n_leaves)
        left, right = (
            np.where(children >= 0, children + n_nodes, children - n_leaves)
            for children in (nodes.left, nodes.right)
        )
        columns.append(nodes._replace(left=left, right=right))
        n_nodes, n_leaves = n_nodes + len(nodes.feature), n_leaves + len(tree.values)
    joined: dict[str, Any] = {
        name: np.concatenate([np.zeros(0), *(getattr(nodes, name) for nodes in columns)])
        for name in PlainSplits._fields
    }
    return TreeEnsemble.of_nodes(
        n_features,
        roots=roots,
        **joined,
        values=np.concatenate([np.zeros(0), *(tree.values for tree in trees)]),
        learned_missing=any((tree.decision >> 2 == MISSING_NAN).any() for tree in trees),
        feature_names=names,
    )


class PlainSplits(NamedTuple):
    """The splits of one tree under the rule of `TreeEnsemble`."""

    feature: NDArray[np.int64]
    bound: Float32
    nan_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]


def plain_splits(tree: Splits, bound: Float32) -> PlainSplits:
    """The same routes for every float32 value, under the rule ``x <= bound``."""
    if (tree.decision & CATEGORICAL).any():
        raise RankloopError(
            "the LightGBM model splits by categories (text such as a brand), which other programs do not "
            "express in the same way: fit with one number per category instead (1 or 0), or keep LightGBM's "
            "own file (lightgbm)"
        )
    default_left = (tree.decision & DEFAULT_LEFT) > 0
    missing = tree.decision >> 2
    nan_left = np.where(missing == NO_MISSING, bound >= 0, default_left)
    # Zeros take the default direction; elsewhere that is where they go anyway.
    apart = np.flatnonzero((missing == MISSING_ZERO) & (default_left != (bound >= 0)))
    nodes = PlainSplits(tree.feature, bound, nan_left, tree.left, tree.right)
    return _set_zeros_apart(nodes, apart) if len(apart) else nodes


def float32_bounds(threshold: Float64) -> Float32:
    """The bound of ``x <= bound`` that routes every float32 x as LightGBM does: values up to ±z are zeros.

    >>> float32_bounds(np.array([1e-36])) == ZERO
    array([ True])
    """
    bound = np.where((threshold >= 0) & (threshold < ZERO), ZERO, round_down(threshold))
    return np.where((threshold < 0) & (threshold >= -ZERO), BELOW_ZERO, bound).astype(np.float32)


def _set_zeros_apart(nodes: PlainSplits, apart: NDArray[np.int64]) -> PlainSplits:
    """Splits whose zeros do not go where their neighbours go, as three splits each."""
    rows = [list(row) for row in zip(*nodes, strict=True)]
    for place in apart.tolist():
        feature, bound, nan_left, left, right = rows[place]
        second, third = len(rows), len(rows) + 1
        if nan_left:  # x <= bound: left; then up to -z: right; then zeros: left; then right
            rows[place] = [feature, bound, True, left, second]
            rows += [[feature, BELOW_ZERO, True, right, third], [feature, ZERO, True, left, right]]
        else:  # up to -z: left; then zeros: right; then x <= bound: left; then right
            rows[place] = [feature, BELOW_ZERO, False, left, second]
            rows += [[feature, ZERO, True, right, third], [feature, bound, False, left, right]]
    feature, bound, nan_left, left, right = zip(*rows, strict=True)
    return PlainSplits(
        np.array(feature, np.int64),
        np.array(bound, np.float32),
        np.array(nan_left, np.bool_),
        np.array(left, np.int64),
        np.array(right, np.int64),
    )
