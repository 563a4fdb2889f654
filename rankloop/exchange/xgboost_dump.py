"""XGBoost's dump of trees as JSON, which the LTR plug-ins of OpenSearch and Elasticsearch take.

Their rule at a split: left ("yes") if ``split_condition > x`` in float32, right ("no") otherwise. So the
bound b of ``x <= b`` is written as the next float32 above b.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.tree_builder import TreeBuilder
from rankloop.models.trees import TreeEnsemble, next_above, next_below

# Java reads a number past the largest float32 as infinity; JSON has no other way to spell it.
PAST_LARGEST = 1e39
# XGBoost's own names of features without names.
NUMBERED = re.compile(r"f(\d+)")


def dump_trees(trees: TreeEnsemble, names: Sequence[str]) -> list[dict[str, Any]]:
    """One nested object per tree; the start is added to the leaves of the first one."""
    conditions = [float(c) if np.isfinite(c) else PAST_LARGEST for c in next_above(trees.bound)]
    dumped = []
    for number, root in enumerate(trees.roots.tolist()):
        start = trees.start if number == 0 else 0.0
        dumped.append(_dump(trees, conditions, names, root, start))
    return dumped or [{"nodeid": 0, "leaf": float(np.float32(trees.start))}]


def _dump(
    trees: TreeEnsemble, conditions: list[float], names: Sequence[str], root: int, start: float
) -> dict[str, Any]:
    next_id = iter(range(2**31))

    def dump(node: int, depth: int) -> dict[str, Any]:
        number = next(next_id)
        if node < 0:
            return {"nodeid": number, "leaf": float(np.float32(trees.values[-1 - node] + start))}
        yes, no = dump(int(trees.left[node]), depth + 1), dump(int(trees.right[node]), depth + 1)
        return {
            "nodeid": number,
            "depth": depth,
            "split": names[trees.feature[node]],
            "split_condition": conditions[node],
            "yes": yes["nodeid"],
            "no": no["nodeid"],
            "missing": (yes if trees.nan_left[node] else no)["nodeid"],
            "children": [yes, no],
        }

    return dump(root, 0)


def read_dump(content: Sequence[Mapping[str, Any]]) -> TreeEnsemble:
    """The trees of such a dump; features are those that splits use, in the order of their appearance.

    Names ``f0``, ``f1`` and so on are numbers of features that have no names.
    """
    builder = TreeBuilder()
    names: dict[str, int] = {}
    directions = False

    def read(node: Mapping[str, Any]) -> int:
        nonlocal directions
        if "leaf" in node:
            return builder.leaf(node["leaf"])
        children = {child["nodeid"]: child for child in node["children"]}
        with np.errstate(over="ignore"):
            bound = float(next_below(np.float32(node["split_condition"])))
        nan_left = bound >= 0
        if "missing" in node:
            nan_left = node["missing"] == node["yes"]
            directions |= nan_left != (bound >= 0)
        return builder.split(
            names.setdefault(node["split"], len(names)),
            bound,
            bool(nan_left),
            read(children[node["yes"]]),
            read(children[node["no"]]),
        )

    try:
        for tree in content:
            builder.root(read(tree))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"this is not a dump of XGBoost's trees, or it is damaged: {error!r}") from error
    numbers = [NUMBERED.fullmatch(name) for name in names]
    if names and all(numbers):
        order = [int(match[1]) for match in numbers if match]
        return builder.ensemble(max(order) + 1, order=order, learned_missing=directions)
    return builder.ensemble(len(names), names=tuple(names), learned_missing=directions)
