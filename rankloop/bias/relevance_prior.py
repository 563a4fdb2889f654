"""The prior of relevance: one distribution per stratum, a mixture of a few hat functions.

Relevance is integrated out on nodes that are evenly spaced in ``x``, where ``R = sin²(πx/2)``. On this scale
a probability that is estimated from n displays has the same error everywhere, about ``1 / (π√n)``. Items that
were shown more often need more nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64, Int64

# The density is linear between this many points. Half as many would be too smooth for relevance with five
# grades: θ is then off by 0.8 standard errors in a log of 40,000 impressions.
COMPONENTS = 17
# The grid on which the fine structure of the distribution of relevance is estimated, such as grades. Every
# node keeps this probability.
SHAPE_NODES = 129
MIN_DENSITY = 1e-6
# Grid sizes. Items that were shown more often use a finer grid. With 1.5 standard errors between nodes, the
# relative error of the trapezoid rule is 3e-4.
NODES = (33, 129, 513, 2049)
ERRORS_BETWEEN_NODES = 1.5
# Approximate number of items per stratum, and the maximum number of strata: by how high items were shown, and
# within each of these by mean rank.
ITEMS_PER_STRATUM, STRATA = 300, (20, 10)


@dataclass(frozen=True, eq=False)
class Grid:
    """The nodes of the integral and the hat functions of the prior.

    Attributes:
        relevance: float64, nodes; relevance at each node.
        hats: float64, components × nodes; the probability of each node in each component. Each row sums to 1.
        knot: int64, nodes; the component that peaks at the node or left of it; never the last component.
    """

    relevance: Float64
    hats: Float64
    knot: Int64

    def lower(self, prior: Float64, density: Float64) -> Float64:
        """Compute the share of the density at each node due to the component left of it: strata × nodes."""
        nodes = np.arange(len(self.knot))
        share: Float64 = prior[:, self.knot] * self.hats[self.knot, nodes] / density
        return share


@cache
def grid(nodes: int) -> Grid:
    """Build the grid with this many nodes.

    >>> grid(33).relevance[[0, 16, 32]].round(3), grid(33).hats.shape
    (array([0. , 0.5, 1. ]), (17, 33))
    """
    x = np.linspace(0.0, 1.0, nodes)
    peaks = np.linspace(0.0, 1.0, COMPONENTS)
    hats = np.maximum(0.0, 1.0 - np.abs(x - peaks[:, None]) * (COMPONENTS - 1))
    # nodes − 1 is a multiple of COMPONENTS − 1, so every peak is a node.
    knot = np.minimum(np.arange(nodes) * (COMPONENTS - 1) // (nodes - 1), COMPONENTS - 2)
    return Grid(np.sin(0.5 * np.pi * x) ** 2, hats / hats.sum(axis=1, keepdims=True), knot)


def shaped_grid(nodes: int, shape: Float64) -> Grid:
    """Build the grid whose components have the fine structure of a distribution of relevance.

        component_b(t) ∝ hat_b(t) · g(t)

    Args:
        nodes: number of nodes.
        shape: float64, SHAPE_NODES; the distribution g on an evenly spaced grid. It sums to 1.
    """
    plain = grid(nodes)
    components = plain.hats * regrid(shape, nodes)
    # Every node keeps some probability, and so does every component.
    components = components + MIN_DENSITY * plain.hats
    return Grid(plain.relevance, components / components.sum(axis=1, keepdims=True), plain.knot)


def pooled_shape(prior: Float64, shape: Float64 | None) -> Float64:
    """The distribution on the grid of the shape that a mixture of components is; plain hats if None."""
    of = grid(SHAPE_NODES) if shape is None else shaped_grid(SHAPE_NODES, shape)
    found: Float64 = prior @ of.hats
    return found


def component_weights(shape: Float64) -> Float64:
    """The weights of the components of this shape that give back the shape itself."""
    hats = grid(SHAPE_NODES).hats
    # With a height of 1 each, the hats of a node sum to 1.
    weights = hats / hats.max(axis=1, keepdims=True) @ shape + MIN_DENSITY
    return np.asarray(weights / weights.sum())


def regrid(shape: Float64, nodes: int) -> Float64:
    """Convert a distribution on a grid to a grid with another number of nodes; the sum stays 1.

    >>> regrid(np.array([0.5, 0.0, 0.5]), 5)
    array([0.33333333, 0.16666667, 0.        , 0.16666667, 0.33333333])
    >>> regrid(np.array([0.5, 0.25, 0.0, 0.0, 0.25]), 3)
    array([0.625, 0.125, 0.25 ])
    """
    old = len(shape)
    if nodes == old:
        return shape
    if nodes > old:
        # Between two nodes, the density is linear.
        finer = np.interp(np.linspace(0.0, 1.0, nodes), np.linspace(0.0, 1.0, old), shape)
        return np.asarray(finer / finer.sum())
    # Each node's probability is divided between its two neighbours on the coarser grid.
    place = np.linspace(0.0, 1.0, old) * (nodes - 1)
    left = np.minimum(place.astype(np.int64), nodes - 2)
    share = place - left
    coarser = np.zeros(nodes)
    np.add.at(coarser, left, shape * (1.0 - share))
    np.add.at(coarser, left + 1, shape * share)
    return coarser


def grid_levels(displays: Float64) -> Int64:
    """Choose the grid for each item: an index into NODES, by how often the item was shown.

    >>> grid_levels(np.array([1.0, 300.0, 1e4, 1e9]))
    array([0, 1, 2, 3])
    """
    spacing = 1.0 / (np.array(NODES[:-1]) - 1)
    enough = (ERRORS_BETWEEN_NODES / (np.pi * spacing)) ** 2
    return np.searchsorted(enough, displays)


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of items that were shown at similar ranks.

    A good policy shows relevant items at higher ranks. The distribution of relevance must therefore be
    allowed to differ between items that were shown at different ranks; otherwise differences between items
    would be mistaken for differences between ranks. Items are first split by how high they were shown over
    all impressions of their query. Each part is then split by the mean rank at which its items were shown.

    Attributes:
        heights: float64, parts − 1; thresholds between the parts.
        means: one array per part; thresholds of the mean rank within the part.
    """

    heights: Float64
    means: tuple[Float64, ...]

    @classmethod
    def of(cls, shown: RankCounts) -> Strata:
        """Build as many strata as the number of items allows."""
        height, mean = _heights(shown)
        wanted = min(shown.n_items // ITEMS_PER_STRATUM, STRATA[0] * STRATA[1])
        # Twice as many parts by height as by mean rank within each.
        parts = int(np.clip(np.sqrt(2 * wanted), 1, STRATA[0]))
        parts_within = int(np.clip(wanted // parts, 1, STRATA[1]))
        heights = _cuts(height, parts)
        part = np.searchsorted(heights, height)
        means = tuple(_cuts(mean[part == p], parts_within) for p in range(len(heights) + 1))
        return cls(heights, means)

    @property
    def number(self) -> int:
        """Number of strata."""
        return sum(len(cuts) + 1 for cuts in self.means)

    def stratum(self, shown: RankCounts) -> Int64:
        """Find the index of every item's stratum."""
        height, mean = _heights(shown)
        part = np.searchsorted(self.heights, height)
        result = np.zeros(shown.n_items, np.int64)
        first = 0
        for p, cuts in enumerate(self.means):
            own = part == p
            result[own] = first + np.searchsorted(cuts, mean[own])
            first += len(cuts) + 1
        return result


def _heights(shown: RankCounts) -> tuple[Float64, Float64]:
    """Mean height of each item above the last rank: per impression of its query, and per display."""
    total = shown.by_item(shown.displays * (shown.ranks - shown.rank))
    return total / np.maximum(shown.query_impressions, 1.0), total / shown.by_item(shown.displays)


def _cuts(values: Float64, parts: int) -> Float64:
    if parts < 2 or not len(values):
        return np.empty(0)
    cuts = np.unique(np.quantile(values, np.arange(1, parts) / parts))
    # A cut at the highest value would create an empty part.
    inner: Float64 = cuts[cuts < values.max()]
    return inner
