"""The slow way: impressions one by one, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.offline.impression_sums import ImpressionSums
from rankloop.offline.policy_rankings import PolicyRanking
from rankloop.types import Bias

Impression = tuple[int, Sequence[int], Sequence[bool]]


def terms(
    impression: Impression, offsets: Any, factors: NDArray[Any], bias: Bias, relevance: NDArray[Any]
) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """The query of an impression, and e and w of both policies, by their definitions."""
    query, ranking, clicks = impression
    e, w = np.zeros(2), np.zeros(2)
    for k, (position, clicked) in enumerate(zip(ranking, clicks, strict=True)):
        if position < 0 or k >= bias.ranks:
            continue
        item = offsets[query] + position
        g = factors[item]
        e += g * (float(clicked) - (bias.alpha[k] * relevance[item] + bias.beta[k]))
        w += g * bias.alpha[k]
    return query, e, w


def sums_of(
    impressions: Sequence[Impression],
    offsets: Any,
    factors: NDArray[Any],
    bias: Bias,
    relevance: NDArray[Any],
) -> ImpressionSums:
    """Sums over impressions, by query."""
    n_queries = len(offsets) - 1
    first, squares, importance, importance_squares = np.zeros((4, n_queries, 2))
    product = np.zeros(n_queries)
    for impression in impressions:
        query, e, w = terms(impression, offsets, factors, bias, relevance)
        first[query] += e
        squares[query] += e**2
        product[query] += e[0] * e[1]
        importance[query] += w
        importance_squares[query] += w**2
    return ImpressionSums(first, squares, product, importance, importance_squares)


def shown(weights: Any, n_queries: int, *, elsewhere: Any = 0.0, always: Any = 0.0) -> PolicyRanking:
    """A policy by what its ranks are worth."""
    return PolicyRanking(
        "policy",
        "sorted",
        np.asarray(weights, dtype=np.float64),
        np.broadcast_to(np.asarray(elsewhere, dtype=np.float64), n_queries).copy(),
        np.broadcast_to(np.asarray(always, dtype=np.float64), n_queries).copy(),
        np.ones(n_queries, np.bool_),
    )
