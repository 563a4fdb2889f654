"""Collects the nodes of trees that are read from a file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.models.trees import TreeEnsemble


class TreeBuilder:
    """Nodes and leaves in the order in which they are added; children are added before their parents.

    Example:
        >>> builder = TreeBuilder()
        >>> builder.root(builder.split(0, 0.5, True, builder.leaf(2.0), builder.leaf(3.0)))
        >>> builder.ensemble(1).scores(np.array([[0.5], [0.6]], np.float32))
        array([2., 3.])
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[int, float, bool, int, int]] = []
        self._values: list[float] = []
        self._roots: list[int] = []

    def leaf(self, value: float) -> int:
        """Add a leaf; return its number, as `TreeEnsemble` numbers them."""
        self._values.append(float(value))
        return -len(self._values)

    def split(self, feature: int, bound: float, nan_left: bool, left: int, right: int) -> int:
        """Add a node; return its number."""
        self._nodes.append((feature, float(bound), nan_left, left, right))
        return len(self._nodes) - 1

    def root(self, node: int) -> None:
        """Add a tree by its first node."""
        self._roots.append(node)

    def ensemble(
        self,
        n_features: int,
        *,
        names: tuple[str, ...] | None = None,
        order: Sequence[int] | None = None,
        start: float = 0.0,
        learned_missing: bool = False,
    ) -> TreeEnsemble:
        """All trees.

        Args:
            n_features: the number of features.
            names: their names.
            order: the number of each feature that nodes name by its place in this list.
            start: what is added to every score.
            learned_missing: whether directions of missing values were learned.
        """
        nodes = np.array(self._nodes, np.float64).reshape(-1, 5).T
        feature = nodes[0].astype(np.int64)
        return TreeEnsemble.of_nodes(
            n_features,
            roots=self._roots,
            feature=feature if order is None else np.asarray(order, np.int64)[feature],
            bound=nodes[1],
            nan_left=nodes[2],
            left=nodes[3],
            right=nodes[4],
            values=self._values,
            start=start,
            learned_missing=learned_missing,
            feature_names=names,
        )
