"""Simulate interactions of users with a Plackett–Luce policy, as counts or as a log.

A user issues a query, the policy shows a ranking with as many items as the user sees ranks, and the user
clicks:

    q ~ frequencies,   y ~ π(· | q),   c ~ users(y, R)        for each interaction

The number of impressions of each query is drawn first. The impressions of each query are then drawn from its
own random stream. The same generator therefore gives the same clicks for any number of threads, whether they
are counted (`gather`) or logged (`gather_log`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.clicks.base import Users
from rankloop.errors import DataError
from rankloop.kernels.click_simulation import draw_page_clicks, simulate_impressions
from rankloop.policies.plackett_luce import check_scores
from rankloop.ragged import for_segments, offsets_of
from rankloop.types import Float64, Int64, as_numbers, reject_documents

# What the kernel fills: displays and clicks by rank; rows, rankings and clicks of a log.
_CountArrays = tuple[Int64, Int64]
_LogArrays = tuple[Int64, NDArray[np.int32], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of interactions, which estimators need; memory does not grow with the number of interactions.

    Attributes:
        query_counts: int64, queries; impressions per query.
        displays_by_rank: int64, items × ranks; displays per item and rank.
        clicks_by_rank: int64, items × ranks; clicks per item and rank.
    """

    query_counts: Int64
    displays_by_rank: Int64
    clicks_by_rank: Int64

    @property
    def clicks(self) -> Int64:
        """Clicks per item: int64, items."""
        total: Int64 = self.clicks_by_rank.sum(axis=1)
        return total

    @property
    def interactions(self) -> int:
        """Number of interactions."""
        return int(self.query_counts.sum())


@dataclass(frozen=True, eq=False)
class Impressions:
    """A log of single interactions in chronological order.

    Attributes:
        queries: int64, interactions; the number of the query.
        rankings: int32, interactions × ranks; positions of items within their query, best first. Rankings of
            queries with fewer items than ranks are padded with -1.
        clicks: bool, interactions × ranks; whether the item at each rank was clicked.
    """

    queries: Int64
    rankings: NDArray[np.int32]
    clicks: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.queries)

    def counts(self, offsets: Int64) -> Counts:
        """Count the interactions."""
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
    """Simulate interactions with the policy that has these scores, and count them.

    Args:
        scores: items.
        offsets: queries + 1.
        relevance: items, in [0, 1].
        users: the users, who also determine the number of ranks to show.
        interactions: number of interactions.
        rng: random generator.
        frequencies: queries; relative frequencies of the queries. All queries are equally frequent if None.

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
    """Simulate interactions with the policy that has these scores, and log them.

    Arguments are those of `gather`. With a generator in the same state, both simulate the same interactions.

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
    # Impressions are drawn query by query; their chronological order is random.
    rows = rng.permutation(interactions)
    setting.run(_no_counts(shape[1]), (rows, rankings, clicks))
    queries = np.empty(interactions, np.int64)
    queries[rows] = np.repeat(np.arange(len(offsets) - 1), np.diff(setting.starts))
    return Impressions(queries, rankings, clicks)


@dataclass(frozen=True, eq=False)
class _Setting:
    """The validated arguments of a simulation, with the number of impressions per query and the seed."""

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
        check_interactions(interactions)
        probabilities = _check_frequencies(frequencies, len(offsets) - 1)
        counts = rng.multinomial(interactions, probabilities)
        seed = rng.integers(2**63, dtype=np.int64)
        return cls(offsets_of(counts), offsets, flat, relevant, users, seed)

    def run(self, counts: _CountArrays, log: _LogArrays) -> None:
        behaviour = self.users.behaviour
        # Impressions, not items, are the segments, so that they are divided evenly between threads.
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
    """Convert relevance to a float64 array with one probability per document."""
    array = as_numbers(relevance, "relevances")
    if array.shape != (offsets[-1],):
        raise DataError(f"{offsets[-1]} items need {offsets[-1]} relevances, got shape {array.shape}")
    # The condition is written so that it rejects NaN.
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        reason = (
            f"the relevance is {array[np.argmax(bad)]}; it must be a probability in [0, 1], such as those "
            f"that relevance('linear').of computes from labels"
        )
        reject_documents(bad, offsets, reason)
    return array


def check_interactions(interactions: int) -> None:
    """Raise an error unless the number of interactions is an integer of at least 0."""
    if not isinstance(interactions, int | np.integer) or interactions < 0:
        raise DataError(f"interactions must be an integer of at least 0, got {interactions!r}")


def _check_frequencies(frequencies: object, n_queries: int) -> Float64:
    if frequencies is None:
        return np.full(n_queries, 1.0 / n_queries)
    array = as_numbers(frequencies, "frequencies")
    if array.shape != (n_queries,):
        raise DataError(f"{n_queries} queries need {n_queries} frequencies, got shape {array.shape}")
    bad = np.flatnonzero(~((array >= 0.0) & (array < np.inf)))
    if len(bad):
        raise DataError(f"query number {bad[0]}: the frequency {array[bad[0]]} is negative or not finite")
    if not array.any():
        raise DataError("all frequencies are 0: at least one query must have a positive frequency")
    # Divided by the maximum first, so that the sum of huge frequencies does not overflow.
    relative = array / array.max()
    probabilities: Float64 = relative / relative.sum()
    return probabilities


def click_page(users: Users, relevance: object, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Let one user read one page, and return which of its items were clicked.

    Args:
        users: the users; items below the last rank that they see are not clicked.
        relevance: of the items in the order in which they are shown, in [0, 1].
        rng: random generator.

    Example:
        >>> from rankloop.clicks import users
        >>> click_page(users("position@2"), [0.0, 0.0, 1.0], np.random.default_rng(0))
        array([False, False, False])
    """
    shown = np.ascontiguousarray(relevance, dtype=np.float64)
    behaviour = users.behaviour
    clicked = np.zeros(len(shown), np.bool_)
    length = min(len(shown), behaviour.ranks)
    seed = rng.integers(2**63, dtype=np.int64)
    draw_page_clicks(seed, shown, length, behaviour.table, behaviour.stops, clicked)
    return clicked
