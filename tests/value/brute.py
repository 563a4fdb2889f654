"""The slow way: impressions one by one, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.ragged import offsets_of
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import Bias
from rankloop.value.valuation import PolicyRanking

Impression = tuple[int, Sequence[int], Sequence[bool]]


def terms(
    impression: Impression, offsets: Any, factors: NDArray[Any], bias: Bias, guess: NDArray[Any]
) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """The query of an impression, and e and w of all policies, by their definitions."""
    query, ranking, clicks = impression
    e, w = np.zeros((2, factors.shape[1]))
    for k, (place, clicked) in enumerate(zip(ranking, clicks, strict=True)):
        if place < 0 or k >= bias.positions:
            continue
        document = offsets[query] + place
        g = factors[document]
        e += g * (float(clicked) - (bias.alpha[k] * guess[document] + bias.beta[k]))
        w += g * bias.alpha[k]
    return query, e, w


def rows_of(impressions: Sequence[Impression], offsets: Any) -> ImpressionRows:
    """The same impressions as rows."""
    rows = []
    for query, ranking, clicks in impressions:
        places = enumerate(zip(ranking, clicks, strict=True))
        rows.append([(offsets[query] + place, k, float(c)) for k, (place, c) in places if place >= 0])
    document, position, amount = np.array([row for part in rows for row in part]).reshape(-1, 3).T
    return ImpressionRows(
        offsets_of(np.array([len(part) for part in rows])),
        np.array([query for query, _, _ in impressions]),
        document.astype(np.int64),
        position.astype(np.int64),
        amount,
    )


def shown(weights: Any, n_queries: int, *, elsewhere: Any = 0.0) -> PolicyRanking:
    """A policy by what its ranks are worth."""
    strangers = np.broadcast_to(np.asarray(elsewhere, dtype=np.float64), n_queries).copy()
    placed = np.asarray(weights, dtype=np.float64)[:, None]
    return PolicyRanking("policy", "sorted", placed, strangers[:, None], np.ones(n_queries, np.bool_))
