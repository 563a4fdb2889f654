"""Everything an estimator needs from a log, as sums: their size does not grow with the log, and they add.

Per logging policy: how often each query came, how often each item was clicked, and how users were expected to
respond (`Exposure`). Over all policies: displays and clicks by rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.ragged import offsets_of, segment_sum
from rankloop.statistics._arrays import build_unchecked, read_only, read_only_sums
from rankloop.statistics.exposure import Exposure
from rankloop.types import Float64, Int64, check_offsets

# Of sums of shares, relative to the number of displays.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Counts that were collected while one policy was logging.

    Attributes:
        query_counts: int64, queries; number of impressions.
        clicks: int32, items; number of clicks. Or float64: what displays were worth, each between 0 and 1.
        exposure: the expected exposure of each item under the policy.
    """

    query_counts: Int64
    clicks: NDArray[np.int32] | NDArray[np.float64]
    exposure: Exposure

    def __post_init__(self) -> None:
        for name, dtype, read in (
            ("query_counts", np.int64, read_only),
            ("clicks", np.int32, read_only_sums),
        ):
            values = read(getattr(self, name), dtype, name)
            object.__setattr__(self, name, values)
            if values.ndim != 1 or (values < 0).any():
                raise DataError(
                    f"{name} must be a flat array of counts, none negative, got shape {values.shape}"
                )
        if self.clicks.shape != self.exposure.alpha.shape:
            raise DataError(
                f"clicks on {len(self.clicks)} items need the exposure of each, "
                f"got {len(self.exposure.alpha)}"
            )
        seen = self.exposure
        never = (seen.alpha == 0) & (seen.beta == 0) & (seen.examination == 0)
        bad = np.flatnonzero(never & (self.clicks > 0))
        if len(bad):
            raise DataError(
                f"item {bad[0]} was clicked {self.clicks[bad[0]]} times, but the policy never shows it "
                f"({len(bad)} such items in total): give the exposure of the policy that the clicks come from"
            )

    @property
    def timesteps(self) -> int:
        """Total number of impressions."""
        return int(self.query_counts.sum())

    def __add__(self, other: PolicyStatistics) -> PolicyStatistics:
        counts = self.query_counts + other.query_counts
        whole = self.clicks.dtype.kind != "f"
        added = (self.clicks.astype(np.int64) if whole else self.clicks) + other.clicks
        clicks = read_only_sums(added, np.int32, "clicks")
        return build_unchecked(PolicyStatistics, query_counts=counts, clicks=clicks, exposure=self.exposure)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Displays and clicks under any number of policies; ``a + b`` are the statistics of both logs.

    Arrays are read-only; statistics that are derived from others share their arrays.

    Attributes:
        offsets: int64, queries + 1; query q owns items ``offsets[q]:offsets[q + 1]``.
        policies: by policy id (such as its model's fingerprint), in the order of deployment.
        displays_by_rank: int64, items × ranks; number of displays.
        clicks_by_rank: int64, items × ranks; number of clicks. Or float64: what displays were worth.
        log_timesteps: the length T of the whole log; more than `timesteps` if queries were left out.

    Example:
        One query of two items that came three times; users see one rank.

        >>> from rankloop.types import Bias
        >>> bias = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
        >>> offsets = np.array([0, 2])
        >>> monday = Statistics.of_policy(
        ...     "a", offsets, Exposure.of_scores(np.zeros(2), offsets, bias),
        ...     query_counts=[3], displays_by_rank=[[2], [1]], clicks_by_rank=[[1], [0]],
        ... )
        >>> tuesday = monday
        >>> both = monday + tuesday
        >>> both.timesteps, both.clicks
        (6, array([2, 0]))
    """

    offsets: Int64
    policies: Mapping[str, PolicyStatistics]
    displays_by_rank: Int64
    clicks_by_rank: Int64 | Float64
    log_timesteps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", MappingProxyType(dict(self.policies)))
        for name in ("offsets", "displays_by_rank"):
            object.__setattr__(self, name, read_only(getattr(self, name), np.int64, name))
        clicks_by_rank = read_only_sums(self.clicks_by_rank, np.int64, "clicks_by_rank")
        object.__setattr__(self, "clicks_by_rank", clicks_by_rank)
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
        self._refuse(self.clicks_by_rank < 0, "a negative number of clicks")
        # Sums of shares are right but for their last bits.
        slack = ROUNDING if self.clicks_by_rank.dtype.kind == "f" else 0.0
        most = self.displays_by_rank * (1.0 + slack)
        self._refuse(self.clicks_by_rank > most, "more clicks at a rank than displays")
        off = np.abs(self.clicks - self.clicks_by_rank.sum(axis=1))
        self._refuse(
            off > slack * self.displays_by_rank.sum(axis=1), "clicks by rank that do not add up to its clicks"
        )
        shown = segment_sum(self.displays_by_rank, self.offsets)
        bad = np.flatnonzero((shown > self.query_counts[:, None]).any(axis=1))
        if len(bad):
            raise DataError(
                f"query number {bad[0]} came {self.query_counts[bad[0]]} times, but a rank was filled more "
                f"often: {shown[bad[0]].tolist()} ({len(bad)} such queries in total)"
            )
        if self.log_timesteps < self.timesteps:
            raise DataError(f"a log of {self.log_timesteps} timesteps cannot hold {self.timesteps} queries")

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        if bad.any():
            items = np.unique(np.nonzero(bad)[0])
            q = int(np.searchsorted(self.offsets, items[0], side="right")) - 1
            raise DataError(
                f"query number {q}, document {items[0] - self.offsets[q]}: {what} "
                f"({len(items)} such documents in total)"
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
        """The statistics of one policy, from its counts (shapes as in the attributes)."""
        by_rank = read_only(clicks_by_rank, np.int64, "clicks_by_rank")
        gathered = PolicyStatistics(np.asarray(query_counts), by_rank.sum(axis=-1), exposure)
        shown = read_only(displays_by_rank, np.int64, "displays_by_rank")
        cut = read_only(offsets, np.int64, "offsets")
        return cls(cut, {policy: gathered}, shown, by_rank, gathered.timesteps)

    @classmethod
    def empty(cls, offsets: object, ranks: int) -> Statistics:
        """Statistics without any impression: the zero of addition."""
        cut = read_only(offsets, np.int64, "offsets")
        nothing = np.zeros((cut[-1], ranks), np.int64)
        return cls(cut, {}, nothing, nothing, 0)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_items(self) -> int:
        """Number of items over all queries."""
        return len(self.displays_by_rank)

    @property
    def ranks(self) -> int:
        """Number of ranks that are shown."""
        return int(self.displays_by_rank.shape[1])

    @property
    def query_counts(self) -> Int64:
        """Impressions per query, over all policies."""
        total: Int64 = self._total("query_counts", self.n_queries)
        return total

    @property
    def clicks(self) -> Int64 | Float64:
        """Clicks per item, over all policies and ranks."""
        total: Int64 | Float64 = self._total("clicks", self.n_items)
        return total

    @property
    def timesteps(self) -> int:
        """Total number of impressions, over all policies."""
        return sum(gathered.timesteps for gathered in self.policies.values())

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        arrays: list[NDArray[Any]] = [self.offsets, self.displays_by_rank, self.clicks_by_rank]
        for p in self.policies.values():
            arrays += [p.query_counts, p.clicks, p.exposure.alpha, p.exposure.beta, p.exposure.examination]
        return sum(array.nbytes for array in arrays)

    def _total(self, name: str, size: int) -> Any:
        total: NDArray[Any] = np.zeros(size, np.int64)
        for gathered in self.policies.values():
            total = total + getattr(gathered, name)
        return total

    def per_item(self, by_query: NDArray[Any]) -> NDArray[Any]:
        """One value per query, repeated for each of the query's items."""
        return np.repeat(by_query, np.diff(self.offsets))

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping that cannot be changed cannot be pickled either.
        arrays = self.displays_by_rank, self.clicks_by_rank
        return Statistics, (self.offsets, dict(self.policies), *arrays, self.log_timesteps)

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
        return build_unchecked(
            Statistics,
            offsets=self.offsets,
            policies=MappingProxyType(policies),
            displays_by_rank=self.displays_by_rank + other.displays_by_rank,
            clicks_by_rank=self.clicks_by_rank + other.clicks_by_rank,
            log_timesteps=self.log_timesteps + other.log_timesteps,
        )

    def select(self, queries: object) -> Statistics:
        """The statistics of these queries only (by number, in this order), such as those of one split.

        The length of the whole log is kept as `log_timesteps`. Consecutive queries cost no memory: their
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
            policy: build_unchecked(
                PolicyStatistics,
                query_counts=p.query_counts[query_rows],
                clicks=p.clicks[items],
                exposure=p.exposure[items],
            )
            for policy, p in self.policies.items()
        }
        return build_unchecked(
            Statistics,
            offsets=cut,
            policies=MappingProxyType(policies),
            displays_by_rank=self.displays_by_rank[items],
            clicks_by_rank=self.clicks_by_rank[items],
            log_timesteps=self.log_timesteps,
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
