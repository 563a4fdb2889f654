"""Plackett–Luce policies: marginals, expectations, probabilities and samples, from scores.

A Plackett–Luce policy fills a ranking from the top. Each draw is among the remaining items, with probability
proportional to ``exp(score)``:

    π(y) = Π_k exp(s_{y_k}) / Σ_{d not in y_1 … y_{k−1}} exp(s_d)

Every function takes the scores of all queries as one flat array, with the offsets of the queries. Functions
use all cores, and results do not depend on the number of threads. An item whose score is -inf is never shown.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE, expected_weights_of_queries
from rankloop.kernels.ranking_samples import draw_rankings, log_probabilities
from rankloop.policies.deep_queries import Divided
from rankloop.ragged import descending, for_segments, segment_index
from rankloop.types import (
    Float64,
    Int64,
    as_numbers,
    as_whole_numbers,
    check_offsets,
    reject_documents,
)


def check_scores(scores: object, offsets: Int64) -> Float64:
    """Convert scores to a flat float64 array; raise an error for NaN, +inf and extremely large scores."""
    array = as_numbers(scores, "scores")
    if array.ndim != 1:
        raise DataError(f"scores must be one flat array over all queries, got shape {array.shape}")
    check_offsets(offsets, len(array))
    # The condition is written so that it rejects NaN.
    bad = ~((np.abs(array) <= LARGEST_SCORE) | (array == -np.inf))
    if bad.any():
        first = array[np.argmax(bad)]
        reason = (
            f"the score is {first}; scores must be finite and within ±{LARGEST_SCORE:g}, or -inf for an item "
            f"that must never be shown"
        )
        reject_documents(bad, offsets, reason)
    return array


def check_rank_weights(rank_weights: object) -> Float64:
    """Convert rank weights to a finite float64 array whose last axis is ranks."""
    array = as_numbers(rank_weights, "rank weights")
    if array.ndim not in (1, 2) or array.shape[-1] == 0 or not np.isfinite(array).all():
        raise DataError(
            "rank weights must be finite, one per rank from rank 1 to the cut-off (or a matrix with one "
            f"vector per row), got shape {array.shape}"
        )
    return array


def expected_rank_weights(scores: object, offsets: Int64, rank_weights: object) -> Float64:
    """Compute the exact expected rank weight of each item.

        E[θ_rank(d)] = Σ_k θ_k · P(rank(d) = k)

    Args:
        scores: items.
        offsets: queries + 1.
        rank_weights: θ, ranks; or several vectors at once, vectors × ranks. Ranks after the last have weight
            0.

    Returns:
        items; or items × vectors. The relative error is below 1e-6 for values down to 1e-12.

    Example:
        Three items, the first twice as likely as each of the others; only the top rank counts.

        >>> scores, offsets = np.log([2.0, 1.0, 1.0]), np.array([0, 3])
        >>> expected_rank_weights(scores, offsets, [1.0]).round(6)
        array([0.5 , 0.25, 0.25])

    Reference: docs/plackett-luce.md.
    """
    flat = check_scores(scores, offsets)
    weights = check_rank_weights(rank_weights)
    vectors = np.atleast_2d(weights)
    divided = Divided(offsets, vectors.shape[1])
    out = np.zeros((len(flat), len(vectors)))
    if len(divided.deep):
        divided.add_weights(flat, vectors, out)
        part = np.empty((len(divided.shallow_items), len(vectors)))
        for_segments(
            expected_weights_of_queries, divided.shallow_offsets, flat[divided.shallow_items], vectors, part
        )
        out[divided.shallow_items] = part
    else:
        for_segments(expected_weights_of_queries, offsets, flat, vectors, out)
    return out[:, 0] if weights.ndim == 1 else out


def rank_marginals(scores: object, offsets: Int64, ranks: int) -> Float64:
    """Compute the exact probability of each item at each rank: items × ranks.

    Example:
        >>> rank_marginals(np.log([2.0, 1.0]), np.array([0, 2]), ranks=2).round(6)
        array([[0.666667, 0.333333],
               [0.333333, 0.666667]])
    """
    if ranks < 1:
        raise DataError(f"ranks must be at least 1, got {ranks}")
    return expected_rank_weights(scores, offsets, np.eye(ranks))


def log_probability(scores: object, offsets: Int64, rankings: object) -> Float64:
    """Compute the log-probability of given (top-k) rankings, one per query.

    Args:
        scores: items.
        offsets: queries + 1.
        rankings: (…, queries, ranks); positions of items within their query, best first. Short rankings are
            padded with -1.

    Returns:
        (…, queries); -inf for a ranking that shows an item whose score is -inf.

    Example:
        >>> log_probability(np.log([2.0, 1.0, 1.0]), np.array([0, 3]), [[0, 2]])
        array([-1.38629436])
        >>> np.log(2 / 4 * 1 / 2).round(8)
        np.float64(-1.38629436)
    """
    flat = check_scores(scores, offsets)
    array = check_rankings(rankings, offsets)
    stacked = array.reshape(-1, *array.shape[-2:])
    out = np.empty(stacked.shape[:2])
    for_segments(log_probabilities, offsets, flat, stacked, out)
    return out.reshape(array.shape[:-1])


def sample_rankings(
    scores: object, offsets: Int64, ranks: int, rng: np.random.Generator, *, samples: int = 1
) -> Int64:
    """Draw top-k rankings from the policy: samples × queries × ranks.

    Entries are positions of items within their query. Rankings of queries with fewer items are padded with
    -1.

    Example:
        >>> sample_rankings(np.array([9.0, -np.inf, 0.0]), np.array([0, 3]), 3, np.random.default_rng(1))
        array([[[ 0,  2, -1]]])
    """
    flat = check_scores(scores, offsets)
    if ranks < 1 or samples < 1:
        raise DataError(f"ranks and samples must be at least 1, got {ranks} and {samples}")
    out = np.empty((samples, len(offsets) - 1, ranks), np.int64)
    seed = rng.integers(2**63, dtype=np.int64)
    for_segments(draw_rankings, offsets, flat, seed, out)
    return out


def check_rankings(rankings: object, offsets: Int64) -> Int64:
    """Convert rankings to int64 (…, queries, ranks): each item at most once, -1 only at the end."""
    array = as_whole_numbers(rankings, "rankings")
    n_queries = len(offsets) - 1
    if array.ndim < 2 or array.shape[-2] != n_queries or array.shape[-1] == 0:
        raise DataError(f"rankings must be (…, {n_queries} queries, ranks), got shape {array.shape}")
    outside = (array < -1) | (array >= np.diff(offsets)[:, None])
    gaps = (array[..., :-1] < 0) & (array[..., 1:] >= 0)
    in_order = np.sort(array, axis=-1)
    repeated = (in_order[..., 1:] == in_order[..., :-1]) & (in_order[..., 1:] >= 0)
    for bad, what in (
        (outside, "contains an item that the query does not have"),
        (gaps, "has -1 before an item; -1 is only allowed at the end"),
        (repeated, "contains an item twice"),
    ):
        if bad.any():
            raise DataError(f"query number {int(np.argwhere(bad)[0][-2])}: the ranking {what}")
    return array


def top_ranking(scores: object, offsets: Int64, ranks: int) -> Int64:
    """Find the most likely ranking, queries × ranks: by descending score, ties in document order.

    Example:
        >>> top_ranking(np.array([1.0, 3.0, 2.0, 5.0]), np.array([0, 3, 4]), 2)
        array([[ 1,  2],
               [ 0, -1]])
    """
    flat = check_scores(scores, offsets)
    order = descending(flat, offsets)
    query = segment_index(offsets)
    rank = np.arange(len(flat)) - offsets[query]
    kept = (rank < ranks) & (flat[order] > -np.inf)
    out = np.full((len(offsets) - 1, ranks), -1, np.int64)
    out[query[kept], rank[kept]] = order[kept] - offsets[query[kept]]
    return out


def draw_ranking(scores: Float64, ranks: int, seed: int) -> Int64:
    """Draw the top-k ranking of one query that belongs to a seed: always the same one.

    Args:
        scores: items, float64, as `check_scores` accepts them.
        ranks: number of items to show; fewer are returned if fewer can be shown.
        seed: from 0 to 2⁶³ − 1.

    Returns:
        Numbers of the items, best first.

    Example:
        >>> draw_ranking(np.array([9.0, -np.inf, 0.0]), 3, seed=1)
        array([0, 2])
    """
    out = np.empty((1, 1, ranks), np.int64)
    draw_rankings(0, 1, np.array([0, len(scores)]), scores, np.int64(seed), out)
    drawn: Int64 = out[0, 0]
    return drawn[drawn >= 0]
