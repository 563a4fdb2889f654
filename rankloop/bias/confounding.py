"""Confounding: whether the ranker knew more about relevance than the features tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.bias.anchor import Lines
from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64

# The ranker knows more about relevance than the features if documents that were placed above stronger ones
# are clicked more than their features say: by this many standard errors, and by at least this much relevance
# if the others are stronger by a standard deviation.
CONFOUNDED_DEVIATIONS, CONFOUNDED_SLOPE = 3.0, 0.005


class ConfoundingCheck(NamedTuple):
    """Whether clicks depend on the other documents of the page, once features are known.

    Attributes:
        slope: how much more relevant a document is than its features say, per standard deviation of how high
            the features of the others usually take them.
        deviations: the same in standard errors.
    """

    slope: float
    deviations: float

    @property
    def confounded(self) -> bool:
        """Whether the ranker seems to know more about relevance than the features."""
        return self.deviations > CONFOUNDED_DEVIATIONS and self.slope > CONFOUNDED_SLOPE


def check_confounding(
    shown: RankCounts, relevance: Float64, placement: Float64, lines: Lines
) -> ConfoundingCheck:
    """Test whether the ranker knows more about relevance than the features tell.

    A ranker that places a document above others whose features usually take them higher has seen something
    else in it. If that has to do with relevance, the document is clicked more than its features say. Within
    each rank, clicks are regressed on how high the features of the query's other documents usually take them,
    after what the document's own features tell (m̂, its own usual height, and their squares and product) is
    taken out of both. Errors are clustered by query.

    Args:
        shown: displays and clicks.
        relevance: m̂, items.
        placement: the probability of each rank given the features, items × ranks.
        lines: α and β.
    """
    item, rank = shown.item_of, shown.rank
    height = placement @ np.arange(shown.ranks, 0.0, -1.0)
    displays = shown.by_item(shown.displays)
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    total, number = (np.bincount(query_of, part, len(queries)) for part in (displays * height, displays))
    alone = number[query_of] <= displays
    others = np.where(alone, 1.0, number[query_of] - displays)
    strength = np.where(alone, height.mean(), (total[query_of] - displays * height) / others)
    strength = ((strength - strength.mean()) / max(float(strength.std()), 1e-12))[item]
    m, h = relevance[item], height[item]
    own = np.stack([np.ones(len(item)), m, h, m * m, h * h, m * h], axis=1)
    left, z = np.empty((2, len(item)))
    for k in range(shown.ranks):
        cells = np.flatnonzero(rank == k)
        weights = np.sqrt(shown.displays[cells])
        basis = own[cells] * weights[:, None]
        for target, out in ((shown.clicks[cells] / shown.displays[cells], left), (strength[cells], z)):
            fitted = np.linalg.lstsq(basis, target * weights, rcond=None)[0]
            out[cells] = target - own[cells] @ fitted
    alpha = np.maximum(lines.alpha[rank], 0.0)
    rates = shown.by_rank(shown.clicks) / shown.by_rank(shown.displays)
    weights = shown.displays * alpha / (rates * (1.0 - rates))[rank]
    moments = np.bincount(query_of[item], weights * z * left, len(queries))
    size = float((weights * alpha * z**2).sum())
    error = float(np.sqrt((moments**2).sum()))
    if size <= 0.0 or error <= 0.0:
        return ConfoundingCheck(0.0, 0.0)
    return ConfoundingCheck(float(moments.sum()) / size, float(moments.sum()) / error)
