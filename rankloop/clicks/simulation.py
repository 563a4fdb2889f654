"""Interactions of simulated users with a Plackett–Luce policy, counted or as a log.

The policy shows users a ranking of the query they came with, as many items as they see ranks, and they click:

    q ~ frequencies,   y ~ π(· | q),   c ~ users(y, R)        for each interaction

How often each query comes is drawn first; then each query's impressions are drawn from a random stream of
its own. So the same generator gives the same clicks, whatever the number of threads, and whether they are
counted (`gather`) or written down (`gather_log`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.clicks.base import Users
from rankloop.errors import DataError
from rankloop.kernels.click_simulation import simulate_impressions
from rankloop.policies.plackett_luce import check_scores
from rankloop.ragged import for_segments, offsets_of
from rankloop.types import Float64, Int64

# What the kernel fills: displays and clicks by rank; rows, rankings and clicks of a log.
_CountArrays = tuple[Int64, Int64]
_LogArrays = tuple[Int64, NDArray[np.int32], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Counts:
    """Interactions as sums: all that estimators need, in memory that does not grow with their number.

    Attributes:
        query_counts: int64, queries; how often each query came.
        displays_by_rank: int64, items × ranks; how often each item was shown at each rank.
        clicks_by_rank: int64, items × ranks; how often it was clicked there.
    """

    query_counts: Int64
    displays_by_rank: Int64
    clicks_by_rank: Int64

    @property
    def clicks(self) -> Int64:
        """How often each item was clicked: int64, items."""
        total: Int64 = self.clicks_by_rank.sum(axis=1)
        return total

    @property
    def interactions(self) -> int:
        """How many there were."""
        return int(self.query_counts.sum())


@dataclass(frozen=True, eq=False)
class Impressions:
    """Interactions one by one, in the order in which they happened.

    Attributes:
        queries: int64, interactions; the number of the query.
        rankings: int32, interactions × ranks; items by their position within the query, best first, -1 where
            a query has fewer items than there are ranks.
        clicks: bool, interactions × ranks.
    """

    queries: Int64
    rankings: NDArray[np.int32]
    clicks: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.queries)

    def counts(self, offsets: Int64) -> Counts:
        """The same interactions as sums."""
        ranks = self.rankings.shape[1]
        items = self.rankings + offsets[self.queries][:, None]
        cells = items * ranks + np.arange(ranks)
        shown, n_cells = self.rankings >= 0, int(offsets[-1]) * ranks

        def count(which: NDArray[np.bool_]) -> Int64:
            return np.bincount(cells[which], minlength=n_cells).reshape(-1, ranks)

        return Counts(
            query_counts=np.bincount(self.queries, minlength=len(offsets) - 1),
            displays_by_rank=count(shown),
            clicks_by_rank=count(shown & self.clicks),
        )


def gather(
    scores: object,
    offsets: Int64,
    relevance: object,
    users: Users,
    interactions: int,
    rng: np.random.Generator,
    *,
    frequencies: object = None,
) -> Counts:
    """Let users interact with the policy that these scores make, and count.

    Args:
        scores: items.
        offsets: queries + 1.
        relevance: items, in [0, 1].
        users: who clicks; how many ranks they see is how many are shown.
        interactions: how many.
        rng: where all chance comes from.
        frequencies: queries; how likely each one is to come, up to a factor. None: all alike.

    Example:
        >>> from rankloop.clicks import users
        >>> scores, offsets, relevance = np.zeros(5), np.array([0, 3, 5]), np.array([1, 0, 0, 1, 0.5])
        >>> counts = gather(scores, offsets, relevance, users("position@2"), 1000, np.random.default_rng(1))
        >>> counts.interactions, counts.displays_by_rank.sum(axis=0)
        (1000, array([1000, 1000]))
        >>> counts.clicks[[1, 2]]
        array([0, 0])

    Reference: docs/clicks.md.
    """
    setting = _Setting.draw(scores, offsets, relevance, users, interactions, rng, frequencies)
    shape = (len(setting.scores), users.behaviour.ranks)
    displays, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    setting.run((displays, clicks), _no_log(shape[1]))
    return Counts(np.diff(setting.starts), displays, clicks)


def gather_log(
    scores: object,
    offsets: Int64,
    relevance: object,
    users: Users,
    interactions: int,
    rng: np.random.Generator,
    *,
    frequencies: object = None,
) -> Impressions:
    """Let users interact with the policy that these scores make, and write everything down.

    Arguments as for `gather`; given a generator in the same state, these are the interactions it counts.

    Example:
        >>> from rankloop.clicks import users
        >>> scores, offsets, relevance = np.zeros(5), np.array([0, 3, 5]), np.array([1, 0, 0, 1, 0.5])
        >>> setting = scores, offsets, relevance, users("position@3"), 1000
        >>> log = gather_log(*setting, np.random.default_rng(1))
        >>> len(log), log.rankings.shape, log.clicks.shape
        (1000, (1000, 3), (1000, 3))
        >>> np.unique(log.rankings[log.queries == 1, 2])
        array([-1], dtype=int32)
        >>> counts = gather(*setting, np.random.default_rng(1))
        >>> np.array_equal(log.counts(offsets).clicks_by_rank, counts.clicks_by_rank)
        True
    """
    setting = _Setting.draw(scores, offsets, relevance, users, interactions, rng, frequencies)
    shape = (interactions, users.behaviour.ranks)
    rankings, clicks = np.full(shape, -1, np.int32), np.zeros(shape, np.bool_)
    # Impressions are drawn query by query; in which order they happened is a matter of chance too.
    rows = rng.permutation(interactions)
    setting.run(_no_counts(shape[1]), (rows, rankings, clicks))
    queries = np.empty(interactions, np.int64)
    queries[rows] = np.repeat(np.arange(len(offsets) - 1), np.diff(setting.starts))
    return Impressions(queries, rankings, clicks)


@dataclass(frozen=True, eq=False)
class _Setting:
    """All that decides the clicks: checked, and with how often each query comes and the seed drawn."""

    starts: Int64
    offsets: Int64
    scores: Float64
    relevance: Float64
    users: Users
    seed: np.int64

    @classmethod
    def draw(
        cls,
        scores: object,
        offsets: Int64,
        relevance: object,
        users: Users,
        interactions: int,
        rng: np.random.Generator,
        frequencies: object,
    ) -> _Setting:
        flat = check_scores(scores, offsets)
        relevant = check_relevance(relevance, offsets)
        if not isinstance(interactions, int | np.integer) or interactions < 0:
            raise DataError(f"interactions must be a whole number, not negative, got {interactions!r}")
        chances = _check_frequencies(frequencies, len(offsets) - 1)
        counts = rng.multinomial(interactions, chances)
        seed = rng.integers(2**63, dtype=np.int64)
        return cls(offsets_of(counts), offsets, flat, relevant, users, seed)

    def run(self, counts: _CountArrays, log: _LogArrays) -> None:
        behaviour = self.users.behaviour
        # Threads share the impressions out evenly, which is why these are the segments.
        for_segments(
            simulate_impressions,
            self.starts,
            self.offsets,
            self.scores,
            self.relevance,
            behaviour.table,
            behaviour.stops,
            self.seed,
            counts,
            log,
        )


def _no_counts(ranks: int) -> _CountArrays:
    return np.empty((0, ranks), np.int64), np.empty((0, ranks), np.int64)


def _no_log(ranks: int) -> _LogArrays:
    return np.empty(0, np.int64), np.empty((0, ranks), np.int32), np.empty((0, ranks), np.bool_)


def check_relevance(relevance: object, offsets: Int64) -> Float64:
    """One chance a document of these queries; anything else is refused with `DataError`."""
    array = np.ascontiguousarray(relevance, dtype=np.float64)
    if array.shape != (offsets[-1],):
        raise DataError(f"{offsets[-1]} items need as many relevances, got shape {array.shape}")
    # Written so that NaN fails.
    bad = np.flatnonzero(~((array >= 0.0) & (array <= 1.0)))
    if len(bad):
        q = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        raise DataError(
            f"query number {q}, document {bad[0] - offsets[q]}: the relevance is {array[bad[0]]}; it is a "
            f"chance, in [0, 1] ({len(bad)} bad ones in all); make it from labels with relevance('linear').of"
        )
    return array


def _check_frequencies(frequencies: object, n_queries: int) -> Float64:
    if frequencies is None:
        return np.full(n_queries, 1.0 / n_queries)
    array = np.asarray(frequencies, dtype=np.float64)
    if array.shape != (n_queries,):
        raise DataError(f"{n_queries} queries need as many frequencies, got shape {array.shape}")
    bad = np.flatnonzero(~((array >= 0.0) & (array < np.inf)))
    if len(bad):
        raise DataError(f"query number {bad[0]}: the frequency {array[bad[0]]} is negative or not finite")
    if not array.any():
        raise DataError("all frequencies are 0: at least one query must be able to come")
    # First by the largest, so that huge frequencies do not add up to infinity.
    relative = array / array.max()
    chances: Float64 = relative / relative.sum()
    return chances
