"""Plackett–Luce policies: marginals, expectations, probabilities and samples, from scores.

A Plackett–Luce policy fills a ranking from the top. Each draw is among the remaining documents, with
probability proportional to ``exp(score)``:

    π(y) = Π_k exp(s_{y_k}) / Σ_{d not in y_1 … y_{k−1}} exp(s_d)

Every function takes the scores of all queries as one flat array, with the offsets of the queries. Functions
use all cores, and results do not depend on the number of threads. A document whose score is -inf is never
shown. `sorted_rank_weights` is the other policy: it sorts by score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.deep_ranks import DEEP, add_deep_derivatives, add_deep_weights
from rankloop.kernels.expectations import LARGEST_SCORE, LARGEST_WEIGHT, expected_weights_of_queries
from rankloop.kernels.quadrature import count_nodes
from rankloop.kernels.ranking_samples import draw_rankings, log_probabilities
from rankloop.ragged import descending, for_segments, offsets_of, run_all, segment_index
from rankloop.types import (
    Float64,
    Int64,
    as_numbers,
    as_whole_numbers,
    check_offsets,
    reject_documents,
)

# Arithmetic steps of a part: well below a second.
STEPS_PER_PART = 2e8
# Steps that are refused: about an hour.
MOST_STEPS = 1e13
# The number of possible arrivals at a node is at most this many times the root of the number of documents.
BAND = 14.0


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
            f"the score is {first}; scores must be finite and within ±{LARGEST_SCORE:g}, or -inf for a "
            f"document that must never be shown"
        )
        reject_documents(bad, offsets, reason)
    return array


def check_rank_weights(rank_weights: object) -> Float64:
    """Convert rank weights to a float64 array of numbers within ±`LARGEST_WEIGHT`; its last axis is ranks."""
    array = as_numbers(rank_weights, "rank weights")
    if array.ndim not in (1, 2) or array.shape[-1] == 0 or not np.all(np.abs(array) <= LARGEST_WEIGHT):
        raise DataError(
            f"rank weights must be finite and within ±{LARGEST_WEIGHT:g}, one per rank from rank 1 to the "
            f"cut-off (or a matrix with one vector per row), got shape {array.shape}"
        )
    return array


def expected_rank_weights(scores: object, offsets: Int64, rank_weights: object) -> Float64:
    """Compute the exact expected rank weight of each document.

        E[θ_rank(d)] = Σ_k θ_k · P(rank(d) = k)

    Args:
        scores: documents.
        offsets: queries + 1.
        rank_weights: θ, ranks; or several vectors at once, vectors × ranks. Ranks after the last have weight
            0.

    Returns:
        documents; or documents × vectors. The relative error is below 1e-6 for values down to 1e-12.

    Example:
        Three documents, the first twice as likely as each of the others; only the top rank counts.

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
        part = np.empty((len(divided.shallow_documents), len(vectors)))
        for_segments(
            expected_weights_of_queries,
            divided.shallow_offsets,
            flat[divided.shallow_documents],
            vectors,
            part,
        )
        out[divided.shallow_documents] = part
    else:
        for_segments(expected_weights_of_queries, offsets, flat, vectors, out)
    return out[:, 0] if weights.ndim == 1 else out


def rank_marginals(scores: object, offsets: Int64, ranks: int) -> Float64:
    """Compute the exact probability of each document at each rank: documents × ranks.

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
        scores: documents.
        offsets: queries + 1.
        rankings: (…, queries, ranks); numbers of documents within their query, best first. Short rankings
            are padded with -1.

    Returns:
        (…, queries); -inf for a ranking that shows a document whose score is -inf.

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

    Entries are numbers of documents within their query. Rankings of queries with fewer documents are padded
    with -1.

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
    """Convert rankings to int64 (…, queries, ranks): each document at most once, -1 only at the end."""
    array = as_whole_numbers(rankings, "rankings")
    n_queries = len(offsets) - 1
    if array.ndim < 2 or array.shape[-2] != n_queries or array.shape[-1] == 0:
        raise DataError(f"rankings must be (…, {n_queries} queries, ranks), got shape {array.shape}")
    outside = (array < -1) | (array >= np.diff(offsets)[:, None])
    gaps = (array[..., :-1] < 0) & (array[..., 1:] >= 0)
    in_order = np.sort(array, axis=-1)
    repeated = (in_order[..., 1:] == in_order[..., :-1]) & (in_order[..., 1:] >= 0)
    for bad, what in (
        (outside, "contains a document that the query does not have"),
        (gaps, "has -1 before a document; -1 is only allowed at the end"),
        (repeated, "contains a document twice"),
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
        scores: documents, float64, as `check_scores` accepts them.
        ranks: number of documents to show; fewer are returned if fewer can be shown.
        seed: from 0 to 2⁶³ − 1.

    Returns:
        Numbers of the documents, best first.

    Example:
        >>> draw_ranking(np.array([9.0, -np.inf, 0.0]), 3, seed=1)
        array([0, 2])
    """
    out = np.empty((1, 1, ranks), np.int64)
    draw_rankings(0, 1, np.array([0, len(scores)]), scores, np.int64(seed), out)
    drawn: Int64 = out[0, 0]
    return drawn[drawn >= 0]


def sorted_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """What each document's rank is worth if documents are sorted by score, ties in random order.

    Documents with equal scores share the mean of their ranks' weights: neither the order of rows nor the
    names of documents decide what they are worth.

    Args:
        scores: documents; -inf for documents that are never shown.
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


class Divided:
    """The queries of a call: deep ones, of many documents and many ranks, and the others.

    A deep query of thousands of documents takes seconds or minutes. It is computed in parts, between which
    Ctrl-C is noticed, and refused if it would take hours.

    Attributes:
        deep: numbers of the queries with more than `DEEP` documents and ranks.
        shallow: numbers of the other queries.
        shallow_documents: numbers of their documents.
        shallow_offsets: their offsets, if only their documents are listed.
    """

    def __init__(self, offsets: Int64, ranks: int) -> None:
        sizes = np.diff(offsets)
        is_deep = sizes > (DEEP if ranks > DEEP else np.inf)
        self.deep = np.flatnonzero(is_deep)
        self.shallow = np.flatnonzero(~is_deep)
        self.shallow_documents = np.flatnonzero(np.repeat(~is_deep, sizes))
        self.shallow_offsets = offsets_of(sizes[~is_deep])
        self._offsets = offsets

    def add_weights(self, scores: Float64, rank_weights: Float64, out: Float64) -> None:
        """Add the expected rank weights of the deep queries to ``out``, documents × vectors."""

        def steps(first: int, last: int) -> Iterator[None]:
            shown = np.flatnonzero(scores[first:last] > -np.inf)
            part = np.zeros((len(shown), len(rank_weights)))
            given = scores[first:last][shown]
            for begin, end in _parts(given, rank_weights):
                yield add_deep_weights(given, rank_weights, begin, end, part)
            out[first + shown] = part

        self._run(steps)

    def add_derivatives(
        self, scores: Float64, document_weights: Float64, rank_weights: Float64, values: Float64, out: Float64
    ) -> None:
        """Add the values of the deep queries to ``values``, and the derivatives to ``out``, 3 × documents."""

        def steps(first: int, last: int) -> Iterator[None]:
            shown = np.flatnonzero(scores[first:last] > -np.inf)
            part = np.zeros((3, len(shown)))
            given, weights = scores[first:last][shown], document_weights[first:last][shown]
            query = np.searchsorted(self._offsets, first, side="right") - 1
            for begin, end in _parts(given, rank_weights[None]):
                values[query] += add_deep_derivatives(given, weights, rank_weights, begin, end, part)
                yield
            out[:, first + shown] = part

        self._run(steps)

    def _run(self, steps: Callable[[int, int], Iterator[None]]) -> None:
        run_all([steps(int(self._offsets[q]), int(self._offsets[q + 1])) for q in self.deep])


def _parts(scores: Float64, rank_weights: Float64) -> Iterator[tuple[int, int]]:
    """Ranges of nodes that take well below a second each."""
    n = len(scores)
    if n == 0:
        return
    ranks = min(n, rank_weights.shape[1])
    nodes = count_nodes(np.sort(scores)[::-1], ranks)
    possible = min(ranks, BAND * np.sqrt(n))
    vectors = min(len(rank_weights), possible) if len(rank_weights) > 1 else 1
    steps = n * possible * vectors
    if nodes * steps > MOST_STEPS:
        raise DataError(
            f"a query of {n:,} documents with {ranks:,} ranks would take hours: give fewer ranks, or ask for "
            f"expected rank weights instead of the probability of every rank"
        )
    stride = max(1, int(STEPS_PER_PART / steps))
    for begin in range(0, nodes, stride):
        yield begin, begin + stride
