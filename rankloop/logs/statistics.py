"""All that an estimator needs of a log, as sums: logs of any length take the same room, and they add.

Per logging policy: how often each query came, how often each item was clicked, and what the policy's users
could be expected to do (`Exposure`). Over all policies: displays and clicks by rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.errors import DataError
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, segment_sum
from rankloop.types import Bias, Float64, Int64, check_offsets

# The error that `expected_rank_weights` states: exposures of one policy that differ by more are of two.
EXPOSURE_RTOL, EXPOSURE_ATOL = 1e-6, 1e-12


def _frozen(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The values as a read-only array; not copied if they have the type already."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or (dtype is np.int64 and array.dtype.kind == "f"):
        raise DataError(f"{what} must be {np.dtype(dtype)}, got {array.dtype}")
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Exposure:
    """What one policy's users can be expected to do with each item, over all rankings it may show.

        alpha_d = E_y[α_rank(d)],   beta_d = E_y[β_rank(d)],   examination_d = E_y[P(E | rank(d))]

    so that d is clicked with chance ``alpha_d · R(d) + beta_d`` whenever its query comes. Zero in all three
    means that the policy never shows the item.

    Attributes:
        alpha: float64, items.
        beta: float64, items.
        examination: float64, items.

    Example:
        Two items at equal scores and users who see one rank: each is there half the time.

        >>> bias = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
        >>> exposure = Exposure.of_scores(np.zeros(2), np.array([0, 2]), bias)
        >>> exposure.alpha.round(6), exposure.beta.round(6)
        (array([0.4, 0.4]), array([0.05, 0.05]))
    """

    alpha: Float64
    beta: Float64
    examination: Float64

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "examination"):
            values = _frozen(getattr(self, name), np.float64, f"the expected {name}")
            object.__setattr__(self, name, values)
            if values.shape != self.alpha.shape or values.ndim != 1:
                raise DataError(
                    f"exposures must be flat arrays over the same items, got {name} of shape {values.shape}"
                )
            # alpha may be negative: nothing forbids users whom relevance puts off.
            bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) & (name != "alpha")))
            if len(bad):
                raise DataError(f"item {bad[0]}: the expected {name} is {values[bad[0]]}")

    @classmethod
    def of_scores(cls, scores: object, offsets: Int64, bias: Bias) -> Exposure:
        """The exposure under the Plackett–Luce policy with these scores; exact, not sampled."""
        by_rank = np.stack([bias.alpha, bias.beta, bias.examination])
        return cls(*np.ascontiguousarray(expected_rank_weights(scores, offsets, by_rank).T))

    def agrees_with(self, other: Exposure) -> bool:
        """Whether both can be of one policy."""
        return self is other or all(
            np.allclose(getattr(self, name), getattr(other, name), rtol=EXPOSURE_RTOL, atol=EXPOSURE_ATOL)
            for name in ("alpha", "beta", "examination")
        )

    def __getitem__(self, items: Any) -> Exposure:
        return Exposure(self.alpha[items], self.beta[items], self.examination[items])


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """What was gathered while one policy was logging.

    Attributes:
        query_counts: int64, queries; how often each came.
        clicks: int64, items; how often each was clicked.
        exposure: what the policy's users can be expected to do with each item.
    """

    query_counts: Int64
    clicks: Int64
    exposure: Exposure

    def __post_init__(self) -> None:
        for name in ("query_counts", "clicks"):
            values = _frozen(getattr(self, name), np.int64, name)
            object.__setattr__(self, name, values)
            if values.ndim != 1 or (values < 0).any():
                raise DataError(f"{name} must be a flat array of numbers from 0, got shape {values.shape}")
        if self.clicks.shape != self.exposure.alpha.shape:
            raise DataError(
                f"clicks on {len(self.clicks)} items need the exposure of as many, "
                f"got {len(self.exposure.alpha)}"
            )
        seen = self.exposure
        never = (seen.alpha == 0) & (seen.beta == 0) & (seen.examination == 0)
        bad = np.flatnonzero(never & (self.clicks > 0))
        if len(bad):
            raise DataError(
                f"item {bad[0]} was clicked {self.clicks[bad[0]]} times, but the policy never shows it "
                f"({len(bad)} such items in all): give the exposure of the policy that gathered the clicks"
            )

    @property
    def timesteps(self) -> int:
        """How often any of these queries came."""
        return int(self.query_counts.sum())

    def __add__(self, other: PolicyStatistics) -> PolicyStatistics:
        return PolicyStatistics(
            self.query_counts + other.query_counts, self.clicks + other.clicks, self.exposure
        )


@dataclass(frozen=True, eq=False)
class Statistics:
    """What was shown and clicked under any number of policies; ``a + b`` is what both logs together give.

    Arrays are read-only and shared, not copied, between statistics that are made of each other.

    Attributes:
        offsets: int64, queries + 1; query q owns items ``offsets[q]:offsets[q + 1]``.
        policies: by the policy's id (such as its model's fingerprint), in the order they were deployed.
        displays_by_rank: int64, items × ranks; how often each item was shown at each rank.
        clicks_by_rank: int64, items × ranks; how often it was clicked there.
        log_timesteps: the length T of the whole log; more than `timesteps` if queries were left out.

    Example:
        One query of two items that came three times; users see one rank.

        >>> bias = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
        >>> offsets = np.array([0, 2])
        >>> monday = Statistics.of_policy(
        ...     "a", offsets, Exposure.of_scores(np.zeros(2), offsets, bias),
        ...     query_counts=[3], displays_by_rank=[[2], [1]], clicks_by_rank=[[1], [0]],
        ... )
        >>> tuesday = monday
        >>> both = monday + tuesday
        >>> both.timesteps, both.policies["a"].clicks
        (6, array([2, 0]))
    """

    offsets: Int64
    policies: Mapping[str, PolicyStatistics]
    displays_by_rank: Int64
    clicks_by_rank: Int64
    log_timesteps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", MappingProxyType(dict(self.policies)))
        for name in ("offsets", "displays_by_rank", "clicks_by_rank"):
            object.__setattr__(self, name, _frozen(getattr(self, name), np.int64, name))
        n_items = len(self.displays_by_rank)
        check_offsets(self.offsets, n_items)
        shape = self.displays_by_rank.shape
        if len(shape) != 2 or shape[1] == 0 or self.clicks_by_rank.shape != shape:
            raise DataError(
                "displays and clicks by rank must be two matrices of items × ranks, "
                f"got shapes {shape} and {self.clicks_by_rank.shape}"
            )
        for policy, gathered in self.policies.items():
            if gathered.query_counts.shape != (self.n_queries,) or gathered.clicks.shape != (n_items,):
                raise DataError(
                    f"policy {policy!r}: {self.n_queries} queries and {n_items} items are in the offsets, "
                    f"{len(gathered.query_counts)} and {len(gathered.clicks)} in its counts"
                )
        self._refuse((self.clicks_by_rank < 0).any(axis=1), "a negative number of clicks")
        self._refuse(
            (self.clicks_by_rank > self.displays_by_rank).any(axis=1), "more clicks at a rank than displays"
        )
        self._refuse(self.clicks != self.clicks_by_rank.sum(axis=1), "clicks by rank that are not all clicks")
        shown = segment_sum(self.displays_by_rank, self.offsets)
        bad = np.flatnonzero((shown > self.query_counts[:, None]).any(axis=1))
        if len(bad):
            raise DataError(
                f"query number {bad[0]} came {self.query_counts[bad[0]]} times, but a rank was filled more "
                f"often: {shown[bad[0]].tolist()} ({len(bad)} such queries in all)"
            )
        if self.log_timesteps < self.timesteps:
            raise DataError(f"a log of {self.log_timesteps} timesteps cannot hold {self.timesteps} queries")

    def _refuse(self, bad: ArrayLike, what: str) -> None:
        items = np.flatnonzero(bad)
        if len(items):
            q = int(np.searchsorted(self.offsets, items[0], side="right")) - 1
            raise DataError(
                f"query number {q}, document {items[0] - self.offsets[q]}: {what} "
                f"({len(items)} such documents in all)"
            )

    @classmethod
    def of_policy(
        cls,
        policy: str,
        offsets: object,
        exposure: Exposure,
        *,
        query_counts: object,
        displays_by_rank: object,
        clicks_by_rank: object,
    ) -> Statistics:
        """What one policy gathered, from its counts (shapes as in the attributes)."""
        by_rank = _frozen(clicks_by_rank, np.int64, "clicks_by_rank")
        gathered = PolicyStatistics(np.asarray(query_counts), by_rank.sum(axis=-1), exposure)
        shown = _frozen(displays_by_rank, np.int64, "displays_by_rank")
        cut = _frozen(offsets, np.int64, "offsets")
        return cls(cut, {policy: gathered}, shown, by_rank, gathered.timesteps)

    @classmethod
    def empty(cls, offsets: object, ranks: int) -> Statistics:
        """Nothing yet: added to any statistics of these queries it changes nothing."""
        cut = _frozen(offsets, np.int64, "offsets")
        nothing = np.zeros((cut[-1], ranks), np.int64)
        return cls(cut, {}, nothing, nothing, 0)

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.offsets) - 1

    @property
    def n_items(self) -> int:
        """How many items there are, over all queries."""
        return len(self.displays_by_rank)

    @property
    def ranks(self) -> int:
        """How many ranks are shown."""
        return int(self.displays_by_rank.shape[1])

    @property
    def query_counts(self) -> Int64:
        """How often each query came, over all policies."""
        return sum((p.query_counts for p in self.policies.values()), start=np.zeros(self.n_queries, np.int64))

    @property
    def clicks(self) -> Int64:
        """How often each item was clicked, over all policies and ranks."""
        return sum((p.clicks for p in self.policies.values()), start=np.zeros(self.n_items, np.int64))

    @property
    def timesteps(self) -> int:
        """How often any of these queries came, over all policies."""
        return sum(gathered.timesteps for gathered in self.policies.values())

    @property
    def nbytes(self) -> int:
        """The room the arrays take."""
        arrays: list[NDArray[Any]] = [self.offsets, self.displays_by_rank, self.clicks_by_rank]
        for p in self.policies.values():
            arrays += [p.query_counts, p.clicks, p.exposure.alpha, p.exposure.beta, p.exposure.examination]
        return sum(array.nbytes for array in arrays)

    def per_item(self, by_query: NDArray[Any]) -> NDArray[Any]:
        """A value of each query, repeated for each of its items."""
        return np.repeat(by_query, np.diff(self.offsets))

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both logs; a policy that is in both must have the same exposure in both."""
        if not isinstance(other, Statistics):
            return NotImplemented
        if not np.array_equal(self.offsets, other.offsets) or self.ranks != other.ranks:
            raise DataError(
                "only statistics of the same queries and ranks add: "
                f"{self.n_queries} queries, {self.n_items} items and {self.ranks} ranks on the left, "
                f"{other.n_queries}, {other.n_items} and {other.ranks} on the right"
                + ("" if self.n_items != other.n_items else " (with different offsets)")
            )
        policies = dict(self.policies)
        for policy, gathered in other.policies.items():
            mine = policies.get(policy)
            if mine is not None and not mine.exposure.agrees_with(gathered.exposure):
                raise DataError(
                    f"policy {policy!r} has two different exposures: either two policies share this id, or "
                    f"the exposures were computed for two different biases"
                )
            policies[policy] = gathered if mine is None else mine + gathered
        return Statistics(
            self.offsets,
            policies,
            self.displays_by_rank + other.displays_by_rank,
            self.clicks_by_rank + other.clicks_by_rank,
            self.log_timesteps + other.log_timesteps,
        )

    def select(self, queries: object) -> Statistics:
        """The statistics of these queries alone (by number, in this order), such as those of one split.

        The length of the whole log is kept as `log_timesteps`. Queries in a row cost no memory: their
        statistics are views.

        Example:
            >>> offsets = np.array([0, 1, 2])
            >>> both = Statistics.of_policy(
            ...     "a", offsets, Exposure(*np.ones((3, 2))),
            ...     query_counts=[3, 1], displays_by_rank=[[3], [1]], clicks_by_rank=[[2], [0]],
            ... )
            >>> train = both.select([0])
            >>> train.timesteps, train.log_timesteps, train.clicks
            (3, 4, array([2]))
        """
        chosen = self._chosen(queries)
        sizes = np.diff(self.offsets)[chosen]
        cut = offsets_of(sizes)
        query_rows: slice | Int64 = chosen
        items: slice | Int64 = np.repeat(self.offsets[chosen] - cut[:-1], sizes) + np.arange(cut[-1])
        if (np.diff(chosen) == 1).all():
            query_rows = slice(int(chosen[0]), int(chosen[-1]) + 1)
            items = slice(int(self.offsets[chosen[0]]), int(self.offsets[chosen[-1] + 1]))
        policies = {
            policy: PolicyStatistics(p.query_counts[query_rows], p.clicks[items], p.exposure[items])
            for policy, p in self.policies.items()
        }
        return Statistics(
            cut, policies, self.displays_by_rank[items], self.clicks_by_rank[items], self.log_timesteps
        )

    def _chosen(self, queries: object) -> Int64:
        chosen = np.asarray(queries)
        if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
            raise DataError(
                "select takes numbers of queries, at least one "
                f"(np.flatnonzero of a mask), got {chosen.dtype} of shape {chosen.shape}"
            )
        outside = chosen[(chosen < 0) | (chosen >= self.n_queries)]
        if len(outside):
            raise DataError(f"there is no query number {outside[0]}: there are {self.n_queries} queries")
        unique, counts = np.unique(chosen, return_counts=True)
        if len(unique) < len(chosen):
            raise DataError(f"query number {unique[counts > 1][0]} is selected more than once")
        return chosen.astype(np.int64)
