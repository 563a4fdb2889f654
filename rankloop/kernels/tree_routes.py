"""The leaf of each tree that a document ends in, and the sum of the values of these leaves."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.jit import ordered_kernel


@ordered_kernel
def find_leaf(row, node, feature, bound, nan_left, left, right):
    """The leaf that one row reaches from a node; nodes are numbered from 0, leaf i is ``-1 - i``."""
    while node >= 0:
        value = row[feature[node]]
        goes_left = nan_left[node] if np.isnan(value) else value <= bound[node]
        node = left[node] if goes_left else right[node]
    return -1 - node


@ordered_kernel
def sum_leaves(
    first, last, offsets, rows, roots, feature, bound, nan_left, left, right, values, start, scores
):
    """Write to ``scores``, for each row, ``start`` plus the values of its leaves, tree after tree.

    Blocks ``first:last`` of rows are scored; block b is ``offsets[b]:offsets[b + 1]``.
    """
    for i in range(offsets[first], offsets[last]):
        total = start
        for root in roots:
            total += values[find_leaf(rows[i], root, feature, bound, nan_left, left, right)]
        scores[i] = total


@ordered_kernel
def list_leaves(rows, roots, feature, bound, nan_left, left, right, leaves):
    """Write to ``leaves``, rows × trees, the leaf of each row in each tree."""
    for i in range(len(rows)):
        for tree in range(len(roots)):
            leaves[i, tree] = find_leaf(rows[i], roots[tree], feature, bound, nan_left, left, right)
