"""Boosted trees in one plain form, between the forms of all programs that train trees or serve them.

Every program has its own rule for a split: LightGBM goes left if ``x <= t`` in float64, XGBoost and
OpenSearch if ``x < t`` in float32, Solr if ``x <= t + 1e-6``. Features are float32, so each of these rules is
``x <= bound`` for exactly one float32 bound, and that is what is stored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.kernels.tree_routes import list_leaves, sum_leaves
from rankloop.models.feature_names import checked_names, rows_of
from rankloop.models.storage import fingerprint, pack, unpack
from rankloop.ragged import for_segments
from rankloop.types import Float32, Float64, Int64

TENSORS = ("roots", "feature", "bound", "nan_left", "left", "right", "values")
# Rows that one thread scores at a time.
ROWS_TOGETHER = 1024


@dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """A sum of trees: ``s(x) = start + Σ_trees value of the leaf that x ends in``.

    At node i, a document goes left if ``x[feature[i]] <= bound[i]``, and where a missing value (NaN) goes is
    ``nan_left[i]``. Two nodes may share a child.

    Attributes:
        n_features: the number of features per document.
        roots: int64, trees; the first node of each tree. A number below zero is a leaf, as in ``left``.
        feature: int64, nodes.
        bound: float32, nodes.
        nan_left: bool, nodes.
        left: int64, nodes; the node that follows, or leaf i as ``-1 - i``.
        right: int64, nodes.
        values: float64, leaves.
        start: what is added to every score.
        learned_missing: whether the training data had missing values, so that ``nan_left`` matters. If not,
            a missing value goes where zero goes.
        feature_names: the names of the features, in the order that it takes them, if they are known.

    Example:
        >>> stump = TreeEnsemble.of_nodes(1, roots=[0], feature=[0], bound=[0.5], left=[-1], right=[-2],
        ...     values=[2.0, 3.0])
        >>> stump.scores(np.array([[0.5], [0.6], [np.nan]], np.float32))
        array([2., 3., 2.])
    """

    kind: ClassVar[str] = "trees"
    takes_missing: ClassVar[bool] = True
    n_features: int
    roots: Int64 = field(repr=False)
    feature: Int64 = field(repr=False)
    bound: Float32 = field(repr=False)
    nan_left: NDArray[np.bool_] = field(repr=False)
    left: Int64 = field(repr=False)
    right: Int64 = field(repr=False)
    values: Float64 = field(repr=False)
    start: float = 0.0
    learned_missing: bool = False
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", checked_names(self.feature_names, self.n_features))
        for name in TENSORS:
            getattr(self, name).flags.writeable = False
        nodes, leaves = len(self.feature), len(self.values)
        lengths = {len(getattr(self, name)) for name in ("bound", "nan_left", "left", "right")}
        children = np.concatenate([self.roots, self.left, self.right])
        inside = (children < nodes) & (children >= -leaves)
        if lengths != {nodes} or not inside.all() or not np.isfinite(self.values).all():
            raise ModelFileError("the trees are damaged: a node or a leaf is missing, or has no finite value")
        if nodes and not 0 <= self.feature.min() <= self.feature.max() < self.n_features:
            raise ModelFileError(
                f"the trees are damaged: a split by a feature past the last, {self.n_features}"
            )
        if np.isnan(self.bound).any():
            raise ModelFileError("the trees are damaged: a split has no threshold")
        _ = self.depth

    @classmethod
    def of_nodes(
        cls,
        n_features: int,
        *,
        roots: object,
        feature: object,
        bound: object,
        left: object,
        right: object,
        values: object,
        nan_left: object = None,
        start: float = 0.0,
        learned_missing: bool = False,
        feature_names: tuple[str, ...] | None = None,
    ) -> TreeEnsemble:
        """Trees from array-like values; without ``nan_left``, missing values go where zero goes."""
        bounds = np.array(bound, np.float32)
        return cls(
            n_features,
            np.array(roots, np.int64),
            np.array(feature, np.int64),
            bounds,
            np.array(bounds >= 0 if nan_left is None else nan_left, np.bool_),
            np.array(left, np.int64),
            np.array(right, np.int64),
            np.array(values, np.float64),
            float(start),
            learned_missing,
            feature_names,
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @cached_property
    def depth(self) -> int:
        """The largest number of splits that a document passes in one tree."""
        level, depth = np.unique(self.roots[self.roots >= 0]), 0
        while len(level):
            depth += 1
            if depth > len(self.feature):
                raise ModelFileError("the trees are damaged: a node is its own descendant")
            below = np.unique(np.concatenate([self.left[level], self.right[level]]))
            level = below[below >= 0]
        return depth

    @cached_property
    def fingerprint(self) -> str:
        """A name for exactly these trees: `rankloop.storage.tensor_file` defines it."""
        return fingerprint(self.kind, self._spec, self._tensors)

    def scores(self, features: Float32) -> Float64:
        """One score per document (a row of ``features``); higher is better."""
        rows = self._rows(features)
        scores = np.empty(len(rows))
        # Blocks do not depend on the number of threads.
        offsets = np.append(np.arange(0, len(rows), ROWS_TOGETHER), len(rows))
        for_segments(sum_leaves, offsets, rows, *self._arrays, self.values, self.start, scores)
        return scores

    def leaves(self, features: Float32) -> Int64:
        """The leaf of each document in each tree, documents × trees."""
        rows = self._rows(features)
        found = np.empty((len(rows), self.n_trees), np.int64)
        list_leaves(rows, *self._arrays, found)
        return found

    def with_values(self, values: Float64) -> TreeEnsemble:
        """The same trees with other values of their leaves."""
        return replace(self, values=np.array(values, np.float64))

    def to_bytes(self) -> bytes:
        """The whole model, without pickle."""
        return pack(self.kind, self._spec, self._tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> TreeEnsemble:
        """The model that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data, cls.kind)
        tensors: dict[str, Any] = dict(content.tensors)
        spec = dict(content.spec)
        try:
            tensors["nan_left"] = tensors["nan_left"].astype(np.bool_)
            spec["feature_names"] = None if spec["feature_names"] is None else tuple(spec["feature_names"])
            return cls(**spec, **tensors)
        except (KeyError, TypeError, RankloopError) as error:
            raise ModelFileError(
                f"the file does not hold a {cls.kind} model that this version can read: {error}"
            ) from error

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return tuple(getattr(self, name) for name in TENSORS[:-1])

    @property
    def _tensors(self) -> dict[str, NDArray[Any]]:
        tensors = {name: getattr(self, name) for name in TENSORS}
        return {**tensors, "nan_left": self.nan_left.astype(np.int64)}

    @property
    def _spec(self) -> dict[str, Any]:
        names = self.feature_names
        return {
            "n_features": self.n_features,
            "start": self.start,
            "learned_missing": self.learned_missing,
            "feature_names": None if names is None else list(names),
        }

    def _rows(self, features: Float32) -> Float32:
        rows = np.ascontiguousarray(rows_of(features, self.feature_names), dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"these trees take documents × {self.n_features} features, got shape {np.shape(features)}"
            )
        return rows


def next_above(values: ArrayLike) -> Float32:
    """The next float32 above each value, u: ``x <= v`` is ``x < u`` for every float32 x."""
    above: Float32 = np.nextafter(np.asarray(values, np.float32), np.float32(np.inf))
    return above


def next_below(values: ArrayLike) -> Float32:
    """The next float32 below each value, u: ``x < v`` is ``x <= u`` for every float32 x."""
    below: Float32 = np.nextafter(np.asarray(values, np.float32), np.float32(-np.inf))
    return below


def round_down(values: Float64) -> Float32:
    """The largest float32 that is not above each value, u: ``x <= v`` is ``x <= u`` for every float32 x.

    >>> float(np.float32(0.1)), float(round_down(np.array([0.1]))[0])
    (0.10000000149011612, 0.09999999403953552)
    """
    with np.errstate(over="ignore", under="ignore"):
        nearest = np.asarray(values, np.float64).astype(np.float32)
    return np.where(nearest.astype(np.float64) > values, next_below(nearest), nearest).astype(np.float32)


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
