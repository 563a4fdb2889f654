"""How relevant items are before any click: a distribution by stratum, as a mixture of a few hats.

Relevance is integrated out on nodes that are evenly spaced in ``x``, where ``R = sin²(πx/2)``: a chance that
is estimated from n displays then has the same error everywhere, about ``1 / (π√n)`` in x. Items that were
shown more often need more nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64, Int64

# A density that is linear between so many points. With half as many it is too smooth for relevance that has
# five grades: θ is then off by 0.8 standard errors in a log of 40,000 impressions.
COMPONENTS = 17
# Nodes by how often an item was shown: with 1.5 standard errors between nodes, the trapezoid rule is wrong
# by 3e-4 of the integral.
NODES = (33, 129, 513, 2049)
ERRORS_BETWEEN_NODES = 1.5
# A stratum has about so many items, and there are at most so many strata by how high items were shown, and
# within each of these so many by their mean rank.
ITEMS_A_STRATUM, STRATA = 300, (20, 10)


@dataclass(frozen=True, eq=False)
class Grid:
    """Nodes and hats.

    Attributes:
        relevance: float64, nodes.
        hats: float64, components × nodes; the chance of each node in each component, each adding up to 1.
        knot: int64, nodes; the component whose peak lies left of the node, or on it; never the last.
    """

    relevance: Float64
    hats: Float64
    knot: Int64

    def lower(self, prior: Float64, density: Float64) -> Float64:
        """The share of the density at each node that the component left of it has: strata × nodes."""
        nodes = np.arange(len(self.knot))
        share: Float64 = prior[:, self.knot] * self.hats[self.knot, nodes] / density
        return share


@cache
def grid(nodes: int) -> Grid:
    """So many nodes.

    >>> grid(33).relevance[[0, 16, 32]].round(3), grid(33).hats.shape
    (array([0. , 0.5, 1. ]), (17, 33))
    """
    x = np.linspace(0.0, 1.0, nodes)
    peaks = np.linspace(0.0, 1.0, COMPONENTS)
    hats = np.maximum(0.0, 1.0 - np.abs(x - peaks[:, None]) * (COMPONENTS - 1))
    # The number of nodes less 1 is a multiple of the number of components less 1: peaks are nodes.
    knot = np.minimum(np.arange(nodes) * (COMPONENTS - 1) // (nodes - 1), COMPONENTS - 2)
    return Grid(np.sin(0.5 * np.pi * x) ** 2, hats / hats.sum(axis=1, keepdims=True), knot)


def levels(displays: Float64) -> Int64:
    """Which of NODES an item that was shown so often needs.

    >>> levels(np.array([1.0, 300.0, 1e4, 1e9]))
    array([0, 1, 2, 3])
    """
    spacing = 1.0 / (np.array(NODES[:-1]) - 1)
    enough = (ERRORS_BETWEEN_NODES / (np.pi * spacing)) ** 2
    return np.searchsorted(enough, displays)


@dataclass(frozen=True, eq=False)
class Strata:
    """Items that were shown alike: a policy shows higher what it thinks better, and it may be right.

    The distribution of relevance must be allowed to differ between items that were shown at different ranks,
    or what sets the items apart is taken for what sets the ranks apart. Items are cut by how high they were
    shown, over all impressions of their query, and each part by their mean rank where they were shown.

    Attributes:
        heights: float64, parts − 1; where items are cut by height.
        means: one array a part; where it is cut by mean rank.
    """

    heights: Float64
    means: tuple[Float64, ...]

    @classmethod
    def of(cls, shown: RankCounts) -> Strata:
        """As many strata as there are items for."""
        height, mean = _places(shown)
        wanted = min(shown.n_items // ITEMS_A_STRATUM, STRATA[0] * STRATA[1])
        # Twice as many by height as by mean rank within.
        parts = int(np.clip(np.sqrt(2 * wanted), 1, STRATA[0]))
        parts_within = int(np.clip(wanted // parts, 1, STRATA[1]))
        heights = _cuts(height, parts)
        part = np.searchsorted(heights, height)
        means = tuple(_cuts(mean[part == p], parts_within) for p in range(len(heights) + 1))
        return cls(heights, means)

    @property
    def number(self) -> int:
        """How many there are."""
        return sum(len(cuts) + 1 for cuts in self.means)

    def stratum(self, shown: RankCounts) -> Int64:
        """The stratum of every item, by its number."""
        height, mean = _places(shown)
        part = np.searchsorted(self.heights, height)
        result = np.zeros(shown.n_items, np.int64)
        first = 0
        for p, cuts in enumerate(self.means):
            own = part == p
            result[own] = first + np.searchsorted(cuts, mean[own])
            first += len(cuts) + 1
        return result


def _places(shown: RankCounts) -> tuple[Float64, Float64]:
    """How high each item was shown: over all impressions of its query, and where it was shown."""
    above_the_end = shown.by_item(shown.displays * (shown.ranks - shown.rank))
    return above_the_end / np.maximum(shown.came, 1.0), above_the_end / shown.by_item(shown.displays)


def _cuts(values: Float64, parts: int) -> Float64:
    if parts < 2 or not len(values):
        return np.empty(0)
    cuts = np.unique(np.quantile(values, np.arange(1, parts) / parts))
    # A cut at the highest value would leave a part without items.
    inner: Float64 = cuts[cuts < values.max()]
    return inner
