"""Rankings that are sorted by score: what ranks are worth where scores are equal."""

from __future__ import annotations

import numpy as np

from rankloop.ragged import descending, segment_index
from rankloop.types import Float64, Int64


def sorted_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """What each item's rank is worth if items are sorted by score, ties in random order.

    Items with equal scores share the mean of their ranks' weights: neither the order of rows nor the names of
    documents decide what they are worth.

    Args:
        scores: items; -inf for items that are never shown.
        offsets: queries + 1.
        weights: ranks; or several vectors at once, vectors × ranks; or those of each query, queries × vectors
            × ranks. Ranks past the last one are worth 0.

    Example:
        >>> sorted_rank_weights(np.array([1.0, 3.0, 1.0]), np.array([0, 3]), np.array([1.0, 0.5]))
        array([0.25, 1.  , 0.25])
    """
    order, query = descending(scores, offsets), segment_index(offsets)
    rank = np.arange(len(scores)) - offsets[query]
    several = weights if weights.ndim == 3 else np.atleast_2d(weights)[None]
    padded = np.concatenate([several, np.zeros((*several.shape[:2], 1))], axis=2)
    # Queries stay together in the order, so that ranks follow from places.
    in_order = padded[query if weights.ndim == 3 else 0, :, np.minimum(rank, padded.shape[2] - 1)]
    sorted_scores = scores[order]
    first = np.ones(len(scores), np.bool_)
    first[1:] = (sorted_scores[1:] != sorted_scores[:-1]) | (query[1:] != query[:-1])
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(scores)))
    shared = np.add.reduceat(in_order, starts, axis=0) / sizes[:, None]
    earned = np.empty_like(in_order)
    earned[order] = np.repeat(shared, sizes, axis=0)
    earned[scores == -np.inf] = 0.0
    return earned[:, 0] if weights.ndim == 1 else earned
