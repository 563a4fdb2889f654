"""Simulate impressions of users with a Plackett–Luce policy, as counts or as a log.

A user issues a query, the policy shows a ranking with as many documents as the user sees ranks, and the user
clicks:

    q ~ frequencies,   y ~ π(· | q),   c ~ users(y, R)        for each impression

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
from rankloop.statistics.counts import Counts
from rankloop.types import Float64, Int64, as_numbers, reject_documents

# What counts call the policy of a simulation, unless it has a name.
POLICY = "simulated"
# What the kernel fills: displays and clicks by rank; rows, rankings and clicks of a log.
_ByRank = tuple[Int64, Int64]
_LogArrays = tuple[Int64, NDArray[np.int32], NDArray[np.bool_]]


# Impressions per query, and displays and clicks, documents × ranks.
CountArrays = tuple[Int64, Int64, Int64]


@dataclass(frozen=True, eq=False)
class Impressions:
    """A log of single impressions in chronological order.

    Attributes:
        queries: int64, impressions; the number of the query.
        rankings: int32, impressions × ranks; numbers of documents within their query, best first. Rankings
            of queries with fewer documents than ranks are padded with -1.
        clicks: bool, impressions × ranks; whether the document at each rank was clicked.
    """

    queries: Int64
    rankings: NDArray[np.int32]
    clicks: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.queries)

    def counts(self, offsets: Int64, policy: str = POLICY) -> Counts:
        """Count the impressions, as those of a policy."""
        return Counts.of_arrays(offsets, {policy: self.arrays(offsets)})

    def arrays(self, offsets: Int64) -> CountArrays:
        """The same as arrays: impressions per query, and displays and clicks, documents × ranks."""
        ranks = self.rankings.shape[1]
        documents = self.rankings + offsets[self.queries][:, None]
        cells = documents * ranks + np.arange(ranks)
        shown, n_cells = self.rankings >= 0, int(offsets[-1]) * ranks

        def count(which: NDArray[np.bool_]) -> Int64:
            return np.bincount(cells[which], minlength=n_cells).reshape(-1, ranks)

        came = np.bincount(self.queries, minlength=len(offsets) - 1)
        return came, count(shown), count(shown & self.clicks)


def gather(
    scores: object,
    offsets: Int64,
    relevance: object,
    users: Users,
    impressions: int,
    rng: np.random.Generator,
    *,
    frequencies: object = None,
    policy: str = POLICY,
) -> Counts:
    """Simulate impressions with the policy that has these scores, and count them.

    Args:
        scores: documents.
        offsets: queries + 1.
        relevance: documents, in [0, 1].
        users: the users, who also determine the number of ranks to show.
        impressions: number of impressions.
        rng: random generator.
        frequencies: queries; relative frequencies of the queries. All queries are equally frequent if None.
        policy: what the counts call the policy.

    Example:
        >>> from rankloop.clicks import users
        >>> scores, offsets, relevance = np.zeros(5), np.array([0, 3, 5]), np.array([1, 0, 0, 1, 0.5])
        >>> counts = gather(scores, offsets, relevance, users("position@2"), 1000, np.random.default_rng(1))
        >>> counts.impressions, counts.displays_by_position.sum(axis=0)
        (1000, array([1000, 1000]))
        >>> counts.clicks[[1, 2]]
        array([0, 0])

    Reference: docs/clicks.md.
    """
    arrays = gather_arrays(scores, offsets, relevance, users, impressions, rng, frequencies=frequencies)
    return Counts.of_arrays(offsets, {policy: arrays})


def gather_arrays(
    scores: object,
    offsets: Int64,
    relevance: object,
    users: Users,
    impressions: int,
    rng: np.random.Generator,
    *,
    frequencies: object = None,
) -> CountArrays:
    """The same as `gather`, as arrays: impressions per query, and displays and clicks, documents × ranks."""
    setting = _Setting.draw(scores, offsets, relevance, users, impressions, rng, frequencies)
    shape = (len(setting.scores), users.behaviour.positions)
    displays, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    setting.run((displays, clicks), _no_log(shape[1]))
    return np.diff(setting.starts), displays, clicks


def gather_log(
    scores: object,
    offsets: Int64,
    relevance: object,
    users: Users,
    impressions: int,
    rng: np.random.Generator,
    *,
    frequencies: object = None,
) -> Impressions:
    """Simulate impressions with the policy that has these scores, and log them.

    Arguments are those of `gather`. With a generator in the same state, both simulate the same impressions.

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
        >>> np.array_equal(log.counts(offsets).clicks_by_position, counts.clicks_by_position)
        True
    """
    setting = _Setting.draw(scores, offsets, relevance, users, impressions, rng, frequencies)
    shape = (impressions, users.behaviour.positions)
    rankings, clicks = np.full(shape, -1, np.int32), np.zeros(shape, np.bool_)
    # Impressions are drawn query by query; their chronological order is random.
    rows = rng.permutation(impressions)
    setting.run(_no_counts(shape[1]), (rows, rankings, clicks))
    queries = np.empty(impressions, np.int64)
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
        impressions: int,
        rng: np.random.Generator,
        frequencies: object,
    ) -> _Setting:
        flat = check_scores(scores, offsets)
        relevant = check_relevance(relevance, offsets)
        check_impressions(impressions)
        probabilities = _check_frequencies(frequencies, len(offsets) - 1)
        counts = rng.multinomial(impressions, probabilities)
        seed = rng.integers(2**63, dtype=np.int64)
        return cls(offsets_of(counts), offsets, flat, relevant, users, seed)

    def run(self, counts: _ByRank, log: _LogArrays) -> None:
        behaviour = self.users.behaviour
        # Impressions, not documents, are the segments, so that they are divided evenly between threads.
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


def _no_counts(ranks: int) -> _ByRank:
    return np.empty((0, ranks), np.int64), np.empty((0, ranks), np.int64)


def _no_log(ranks: int) -> _LogArrays:
    return np.empty(0, np.int64), np.empty((0, ranks), np.int32), np.empty((0, ranks), np.bool_)


def check_relevance(relevance: object, offsets: Int64) -> Float64:
    """Convert relevance to a float64 array with one probability per document."""
    array = as_numbers(relevance, "relevances")
    if array.shape != (offsets[-1],):
        raise DataError(f"{offsets[-1]} documents need {offsets[-1]} relevances, got shape {array.shape}")
    # The condition is written so that it rejects NaN.
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        reason = (
            f"the relevance is {array[np.argmax(bad)]}; it must be a probability in [0, 1], such as those "
            f"that relevance('linear').of computes from labels"
        )
        reject_documents(bad, offsets, reason)
    return array


def check_impressions(impressions: int) -> None:
    """Raise an error unless the number of impressions is an integer of at least 0."""
    if not isinstance(impressions, int | np.integer) or impressions < 0:
        raise DataError(f"impressions must be an integer of at least 0, got {impressions!r}")


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
    """Let one user read one page, and return which of its documents were clicked.

    Args:
        users: the users; documents below the last rank that they see are not clicked.
        relevance: of the documents in the order in which they are shown, in [0, 1].
        rng: random generator.

    Example:
        >>> from rankloop.clicks import users
        >>> click_page(users("position@2"), [0.0, 0.0, 1.0], np.random.default_rng(0))
        array([False, False, False])
    """
    shown = np.ascontiguousarray(relevance, dtype=np.float64)
    behaviour = users.behaviour
    clicked = np.zeros(len(shown), np.bool_)
    length = min(len(shown), behaviour.positions)
    seed = rng.integers(2**63, dtype=np.int64)
    draw_page_clicks(seed, shown, length, behaviour.table, behaviour.stops, clicked)
    return clicked
