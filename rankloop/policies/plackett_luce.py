"""Plackett–Luce policies: scores in; marginals, expectations, probabilities and samples out.

A Plackett–Luce policy fills a ranking from the top, each time drawing among the items that are left with
probability proportional to ``exp(score)``:

    π(y) = Π_k exp(s_{y_k}) / Σ_{d not in y_1 … y_{k−1}} exp(s_d)

Every function takes the scores of all queries as one flat array and the offsets that cut it into queries,
and works on all cores; results do not depend on the number of threads. An item whose score is -inf is never
shown.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE, expected_weights_of_queries
from rankloop.kernels.ranking_samples import draw_rankings, log_probabilities
from rankloop.ragged import descending, for_segments, segment_index
from rankloop.types import Float64, Int64, check_offsets


def check_scores(scores: object, offsets: Int64) -> Float64:
    """Scores as a flat float64 array; NaN, +inf and absurdly large ones are refused with their query."""
    array = np.ascontiguousarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise DataError(f"scores must be one flat array over all queries, got shape {array.shape}")
    check_offsets(offsets, len(array))
    # Written so that NaN is bad.
    bad = np.flatnonzero(~((np.abs(array) <= LARGEST_SCORE) | (array == -np.inf)))
    if len(bad):
        q = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        raise DataError(
            f"query number {q}, document {bad[0] - offsets[q]}: the score is {array[bad[0]]}; scores must be "
            f"finite and within ±{LARGEST_SCORE:g}, or -inf for an item that must never be shown "
            f"({len(bad)} bad scores in all)"
        )
    return array


def check_rank_weights(rank_weights: object) -> Float64:
    """Rank weights as a finite float64 array whose last axis runs over the ranks."""
    array = np.ascontiguousarray(rank_weights, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] == 0 or not np.isfinite(array).all():
        raise DataError(
            "rank weights must be finite, one a rank from rank 1 to the cut-off (or a matrix, one row a "
            f"vector of them), got shape {array.shape}"
        )
    return array


def expected_rank_weights(scores: object, offsets: Int64, rank_weights: object) -> Float64:
    """What each item's rank is worth on average, exactly.

        E[θ_rank(d)] = Σ_k θ_k · P(rank(d) = k)

    Args:
        scores: items.
        offsets: queries + 1.
        rank_weights: θ, ranks; or several vectors at once, vectors × ranks. Nothing is earned past the last.

    Returns:
        items; or items × vectors. The relative error is below 1e-6 for values down to 1e-12.

    Example:
        Three items, the first twice as likely as each other one; only the top rank counts.

        >>> scores, offsets = np.log([2.0, 1.0, 1.0]), np.array([0, 3])
        >>> expected_rank_weights(scores, offsets, [1.0]).round(6)
        array([0.5 , 0.25, 0.25])

    Reference: docs/plackett-luce.md.
    """
    flat = check_scores(scores, offsets)
    weights = check_rank_weights(rank_weights)
    out = np.empty((len(flat), 1 if weights.ndim == 1 else len(weights)))
    for_segments(expected_weights_of_queries, offsets, flat, np.atleast_2d(weights), out)
    return out[:, 0] if weights.ndim == 1 else out


def rank_marginals(scores: object, offsets: Int64, ranks: int) -> Float64:
    """The chance of each item at each rank, items × ranks, exactly.

    Example:
        >>> rank_marginals(np.log([2.0, 1.0]), np.array([0, 2]), ranks=2).round(6)
        array([[0.666667, 0.333333],
               [0.333333, 0.666667]])
    """
    if ranks < 1:
        raise DataError(f"ranks are counted from 1, got {ranks}")
    return expected_rank_weights(scores, offsets, np.eye(ranks))


def log_probability(scores: object, offsets: Int64, rankings: object) -> Float64:
    """The log-probability of given (top-k) rankings, one a query.

    Args:
        scores: items.
        offsets: queries + 1.
        rankings: (…, queries, ranks) positions of items within their query, best first; -1 fills the rest of
            a ranking that ends early.

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

    Entries are positions of items within their query; -1 fills up a query that has fewer items to show.

    Example:
        >>> sample_rankings(np.array([9.0, -np.inf, 0.0]), np.array([0, 3]), 3, np.random.default_rng(1))
        array([[[ 0,  2, -1]]])
    """
    flat = check_scores(scores, offsets)
    if ranks < 1 or samples < 1:
        raise DataError(f"ranks and samples are counted from 1, got {ranks} and {samples}")
    out = np.empty((samples, len(offsets) - 1, ranks), np.int64)
    seed = rng.integers(2**63, dtype=np.int64)
    for_segments(draw_rankings, offsets, flat, seed, out)
    return out


def check_rankings(rankings: object, offsets: Int64) -> Int64:
    """Rankings as int64 (…, queries, ranks): items of their query, each at most once, -1 only at the end."""
    array = np.ascontiguousarray(rankings, dtype=np.int64)
    n_queries = len(offsets) - 1
    if array.ndim < 2 or array.shape[-2] != n_queries or array.shape[-1] == 0:
        raise DataError(f"rankings must be (…, {n_queries} queries, ranks), got shape {array.shape}")
    outside = (array < -1) | (array >= np.diff(offsets)[:, None])
    gaps = (array[..., :-1] < 0) & (array[..., 1:] >= 0)
    in_order = np.sort(array, axis=-1)
    repeated = (in_order[..., 1:] == in_order[..., :-1]) & (in_order[..., 1:] >= 0)
    for bad, what in (
        (outside, "names an item that the query does not have"),
        (gaps, "has -1 before an item; -1 may only fill the end"),
        (repeated, "names an item twice"),
    ):
        if bad.any():
            raise DataError(f"query number {int(np.argwhere(bad)[0][-2])}: the ranking {what}")
    return array


def top_ranking(scores: object, offsets: Int64, ranks: int) -> Int64:
    """The policy's most likely ranking, queries × ranks: by descending score, ties in document order.

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
