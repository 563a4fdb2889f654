"""Everything an estimator needs from a log, as sums: their size does not grow with the log, and they add.

Per logging policy: how often each query came, how often each document was clicked, and how users were
expected to respond (`Exposure`). Over all policies: displays and clicks by rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, segment_sum
from rankloop.types import Bias, Float64, Int64, check_offsets

# Clicks are kept for every document and policy, so they take 4 bytes each; 8 would add a tenth to all memory.
MOST_CLICKS = 2**31 - 1

T = TypeVar("T")

# The error bound of `expected_rank_weights`: exposures that differ by more belong to different policies.
EXPOSURE_RTOL, EXPOSURE_ATOL = 1e-6, 1e-12
# Of sums of shares, relative to the number of displays.
ROUNDING = 1e-9


def read_only(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The values as a read-only array; not copied if they have the type already."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or (dtype is not np.float64 and array.dtype.kind == "f"):
        raise DataError(f"{what} must be {np.dtype(dtype)}, got {array.dtype}")
    if dtype is np.int32 and array.dtype != np.int32 and array.size and array.max() > MOST_CLICKS:
        raise DataError(f"{what} are counted up to {MOST_CLICKS} per document and policy, got {array.max()}")
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def read_only_sums(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The same for sums over displays: counts of the given type, or numbers if displays have shares."""
    array = np.asarray(values)
    return read_only(array, np.float64 if array.dtype.kind == "f" else dtype, what)


def build_unchecked(kind: type[T], **attributes: object) -> T:
    """Make a value without its checks, from sums and parts of values that have been checked."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(made, name, value)
    return made


@dataclass(frozen=True, eq=False)
class Exposure:
    """The expected exposure of each document under one policy, over all rankings that it may show.

        alpha_d = E_y[α_rank(d)],   beta_d = E_y[β_rank(d)],   examination_d = E_y[P(E | rank(d))]

    so that d is clicked with probability ``alpha_d · R(d) + beta_d`` whenever its query comes. Zero in all
    three means that the policy never shows the document.

    Attributes:
        alpha: float64, documents.
        beta: float64, documents.
        examination: float64, documents.

    Example:
        Two documents with equal scores and users who see one rank: each document is there half of the time.

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
            values = read_only(getattr(self, name), np.float64, f"the expected {name}")
            object.__setattr__(self, name, values)
            if values.shape != self.alpha.shape or values.ndim != 1:
                raise DataError(
                    f"exposures must be flat arrays over the same documents, got {name} of shape "
                    f"{values.shape}"
                )
            # alpha may be negative: users may click relevant documents less often.
            bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) & (name != "alpha")))
            if len(bad):
                raise DataError(f"document {bad[0]}: the expected {name} is {values[bad[0]]}")

    @classmethod
    def of_scores(cls, scores: object, offsets: Int64, bias: Bias) -> Exposure:
        """The exposure under the Plackett–Luce policy with these scores; exact, not sampled."""
        by_rank = np.stack([bias.alpha, bias.beta, bias.examination])
        return cls(*np.ascontiguousarray(expected_rank_weights(scores, offsets, by_rank).T))

    def agrees_with(self, other: Exposure) -> bool:
        """Return whether both can be the exposure of one policy."""
        return self is other or all(
            np.allclose(getattr(self, name), getattr(other, name), rtol=EXPOSURE_RTOL, atol=EXPOSURE_ATOL)
            for name in ("alpha", "beta", "examination")
        )

    def __getitem__(self, documents: Any) -> Exposure:
        alpha, beta, examination = self.alpha[documents], self.beta[documents], self.examination[documents]
        return build_unchecked(Exposure, alpha=alpha, beta=beta, examination=examination)


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Counts that were collected while one policy was logging.

    Attributes:
        impressions_by_query: int64, queries; number of impressions.
        clicks: int32, documents; number of clicks. Or float64: what displays were worth, each between 0 and
            1.
        exposure: the expected exposure of each document under the policy.
    """

    impressions_by_query: Int64
    clicks: NDArray[np.int32] | NDArray[np.float64]
    exposure: Exposure

    def __post_init__(self) -> None:
        for name, dtype, read in (
            ("impressions_by_query", np.int64, read_only),
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
                f"clicks on {len(self.clicks)} documents need the exposure of each, "
                f"got {len(self.exposure.alpha)}"
            )
        seen = self.exposure
        never = (seen.alpha == 0) & (seen.beta == 0) & (seen.examination == 0)
        bad = np.flatnonzero(never & (self.clicks > 0))
        if len(bad):
            raise DataError(
                f"document {bad[0]} was clicked {self.clicks[bad[0]]} times, but the policy never shows it "
                f"({len(bad)} such documents in total): give the exposure of the policy that the clicks come "
                "from"
            )

    @property
    def impressions(self) -> int:
        """Total number of impressions."""
        return int(self.impressions_by_query.sum())

    def __add__(self, other: PolicyStatistics) -> PolicyStatistics:
        counts = self.impressions_by_query + other.impressions_by_query
        whole = self.clicks.dtype.kind != "f"
        added = (self.clicks.astype(np.int64) if whole else self.clicks) + other.clicks
        clicks = read_only_sums(added, np.int32, "clicks")
        return build_unchecked(
            PolicyStatistics, impressions_by_query=counts, clicks=clicks, exposure=self.exposure
        )


@dataclass(frozen=True, eq=False)
class Statistics:
    """Displays and clicks under any number of policies; ``a + b`` are the statistics of both logs.

    Arrays are read-only; statistics that are derived from others share their arrays.

    Attributes:
        offsets: int64, queries + 1; query q owns documents ``offsets[q]:offsets[q + 1]``.
        policies: by policy id (such as its model's fingerprint), in the order of deployment.
        displays_by_position: int64, documents × ranks; number of displays.
        clicks_by_position: int64, documents × ranks; number of clicks. Or float64: what displays were worth.
        log_impressions: the length T of the whole log; more than `impressions` if queries were left out.
        weighted_displays: float64, documents × ranks; displays, each as often as users click in its context;
            None if all count alike.

    Example:
        One query of two documents that came three times; users see one rank.

        >>> from rankloop.types import Bias
        >>> bias = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
        >>> offsets = np.array([0, 2])
        >>> monday = Statistics.of_policy(
        ...     "a", offsets, Exposure.of_scores(np.zeros(2), offsets, bias),
        ...     impressions_by_query=[3], displays_by_position=[[2], [1]], clicks_by_position=[[1], [0]],
        ... )
        >>> tuesday = monday
        >>> both = monday + tuesday
        >>> both.impressions, both.clicks
        (6, array([2, 0]))
    """

    offsets: Int64
    policies: Mapping[str, PolicyStatistics]
    displays_by_position: Int64
    clicks_by_position: Int64 | Float64
    log_impressions: int
    weighted_displays: Float64 | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", MappingProxyType(dict(self.policies)))
        for name in ("offsets", "displays_by_position"):
            object.__setattr__(self, name, read_only(getattr(self, name), np.int64, name))
        clicks_by_position = read_only_sums(self.clicks_by_position, np.int64, "clicks_by_position")
        object.__setattr__(self, "clicks_by_position", clicks_by_position)
        n_documents = len(self.displays_by_position)
        check_offsets(self.offsets, n_documents)
        shape = self.displays_by_position.shape
        if len(shape) != 2 or shape[1] == 0 or self.clicks_by_position.shape != shape:
            raise DataError(
                "displays and clicks by rank must be two matrices of documents × ranks, "
                f"got shapes {shape} and {self.clicks_by_position.shape}"
            )
        for policy, gathered in self.policies.items():
            if gathered.impressions_by_query.shape != (self.n_queries,) or gathered.clicks.shape != (
                n_documents,
            ):
                raise DataError(
                    f"policy {policy!r}: {self.n_queries} queries and {n_documents} documents are in the "
                    f"offsets, {len(gathered.impressions_by_query)} and {len(gathered.clicks)} in its counts"
                )
        self._refuse(self.clicks_by_position < 0, "a negative number of clicks")
        # Sums of shares are right but for their last bits.
        slack = ROUNDING if self.clicks_by_position.dtype.kind == "f" else 0.0
        most = self.displays_by_position * (1.0 + slack)
        self._refuse(self.clicks_by_position > most, "more clicks at a rank than displays")
        off = np.abs(self.clicks - self.clicks_by_position.sum(axis=1))
        self._refuse(
            off > slack * self.displays_by_position.sum(axis=1),
            "clicks by rank that do not add up to its clicks",
        )
        shown = segment_sum(self.displays_by_position, self.offsets)
        bad = np.flatnonzero((shown > self.impressions_by_query[:, None]).any(axis=1))
        if len(bad):
            raise DataError(
                f"query number {bad[0]} came {self.impressions_by_query[bad[0]]} times, but a rank was "
                f"filled more often: {shown[bad[0]].tolist()} ({len(bad)} such queries in total)"
            )
        if self.log_impressions < self.impressions:
            raise DataError(
                f"the log has {self.log_impressions} impressions, but its policies have {self.impressions}"
            )

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        if bad.any():
            documents = np.unique(np.nonzero(bad)[0])
            q = int(np.searchsorted(self.offsets, documents[0], side="right")) - 1
            raise DataError(
                f"query number {q}, document {documents[0] - self.offsets[q]}: {what} "
                f"({len(documents)} such documents in total)"
            )

    @classmethod
    def of_policy(
        cls,
        policy: str,
        offsets: object,
        exposure: Exposure,
        *,
        impressions_by_query: object,
        displays_by_position: object,
        clicks_by_position: object,
    ) -> Statistics:
        """The statistics of one policy, from its counts (shapes as in the attributes)."""
        by_rank = read_only(clicks_by_position, np.int64, "clicks_by_position")
        gathered = PolicyStatistics(np.asarray(impressions_by_query), by_rank.sum(axis=-1), exposure)
        shown = read_only(displays_by_position, np.int64, "displays_by_position")
        cut = read_only(offsets, np.int64, "offsets")
        return cls(cut, {policy: gathered}, shown, by_rank, gathered.impressions)

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
    def n_documents(self) -> int:
        """Number of documents over all queries."""
        return len(self.displays_by_position)

    @property
    def positions(self) -> int:
        """Number of ranks that are shown."""
        return int(self.displays_by_position.shape[1])

    @property
    def impressions_by_query(self) -> Int64:
        """Impressions per query, over all policies."""
        total: Int64 = self._total("impressions_by_query", self.n_queries)
        return total

    @property
    def clicks(self) -> Int64 | Float64:
        """Clicks per document, over all policies and ranks."""
        total: Int64 | Float64 = self._total("clicks", self.n_documents)
        return total

    @property
    def impressions(self) -> int:
        """Total number of impressions, over all policies."""
        return sum(gathered.impressions for gathered in self.policies.values())

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        arrays: list[NDArray[Any]] = [self.offsets, self.displays_by_position, self.clicks_by_position]
        for p in self.policies.values():
            arrays += [
                p.impressions_by_query,
                p.clicks,
                p.exposure.alpha,
                p.exposure.beta,
                p.exposure.examination,
            ]
        return sum(array.nbytes for array in arrays)

    def _total(self, name: str, size: int) -> Any:
        total: NDArray[Any] = np.zeros(size, np.int64)
        for gathered in self.policies.values():
            total = total + getattr(gathered, name)
        return total

    @property
    def effective_displays(self) -> Int64 | Float64:
        """What clicks are compared with: displays, each as often as users click in its context."""
        return self.displays_by_position if self.weighted_displays is None else self.weighted_displays

    def totals_by_position(self) -> tuple[Int64 | Float64, Int64 | Float64]:
        """Effective displays and clicks at each rank, over all documents: ranks, each."""
        return self.effective_displays.sum(axis=0), self.clicks_by_position.sum(axis=0)

    def at_level(self, level: float) -> Statistics:
        """The same statistics if users click so many times as often, whatever is shown, and wherever.

        A display then counts as so many, and exposures are so many times as large.
        """
        policies = {
            name: replace(
                part,
                exposure=Exposure(
                    level * part.exposure.alpha, level * part.exposure.beta, part.exposure.examination
                ),
            )
            for name, part in self.policies.items()
        }
        displays = level * self.effective_displays.astype(np.float64)
        return replace(self, policies=policies, weighted_displays=displays)

    def per_document(self, by_query: NDArray[Any]) -> NDArray[Any]:
        """One value per query, repeated for each of the query's documents."""
        return np.repeat(by_query, np.diff(self.offsets))

    def mean_exposure(self, average: Literal["all", "query"]) -> tuple[Float64, Float64]:
        """The α and β that each document could expect over all policies of the log: float64, documents, each.

            E[α_d] = Σ_i share_i · E_y[α_d | π_i]   (and likewise for β)

        Args:
            average: ``all``: share_i is the share of all impressions that π_i logged; ``query``: its share of
                the impressions of the document's query.
        """
        n_query = np.maximum(self.per_document(self.impressions_by_query), 1)
        alpha, beta = np.zeros(self.n_documents), np.zeros(self.n_documents)
        for policy in self.policies.values():
            share: float | Float64 = policy.impressions / self.impressions
            if average == "query":
                # A query that never came has no share, no clicks, and therefore no weight.
                share = self.per_document(policy.impressions_by_query) / n_query
            alpha += share * policy.exposure.alpha
            beta += share * policy.exposure.beta
        return alpha, beta

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping that cannot be changed cannot be pickled either.
        arrays = self.displays_by_position, self.clicks_by_position
        policies = dict(self.policies)
        return Statistics, (self.offsets, policies, *arrays, self.log_impressions, self.weighted_displays)

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both logs; a policy that is in both must have the same exposure in both."""
        if not isinstance(other, Statistics):
            return NotImplemented
        if not np.array_equal(self.offsets, other.offsets) or self.positions != other.positions:
            raise DataError(
                "only statistics of the same queries and ranks add: "
                f"{self.n_queries} queries, {self.n_documents} documents and {self.positions} ranks on the "
                f"left, {other.n_queries}, {other.n_documents} and {other.positions} on the right"
                + ("" if self.n_documents != other.n_documents else " (with different offsets)")
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
            displays_by_position=self.displays_by_position + other.displays_by_position,
            clicks_by_position=self.clicks_by_position + other.clicks_by_position,
            log_impressions=self.log_impressions + other.log_impressions,
            weighted_displays=None
            if self.weighted_displays is None and other.weighted_displays is None
            else self.effective_displays + other.effective_displays,
        )

    def select(self, queries: object) -> Statistics:
        """The statistics of these queries only (by number, in this order), such as those of one split.

        The length of the whole log is kept as `log_impressions`. Consecutive queries cost no memory: their
        statistics are views.

        Example:
            >>> offsets = np.array([0, 1, 2])
            >>> both = Statistics.of_policy(
            ...     "a", offsets, Exposure(*np.ones((3, 2))),
            ...     impressions_by_query=[3, 1],
            ...     displays_by_position=[[3], [1]], clicks_by_position=[[2], [0]],
            ... )
            >>> train = both.select([0])
            >>> train.impressions, train.log_impressions, train.clicks
            (3, 4, array([2]))
        """
        chosen = self._chosen(queries)
        sizes = np.diff(self.offsets)[chosen]
        cut = offsets_of(sizes)
        query_rows: slice | Int64 = chosen
        documents: slice | Int64 = np.repeat(self.offsets[chosen] - cut[:-1], sizes) + np.arange(cut[-1])
        if (np.diff(chosen) == 1).all():
            query_rows = slice(int(chosen[0]), int(chosen[-1]) + 1)
            documents = slice(int(self.offsets[chosen[0]]), int(self.offsets[chosen[-1] + 1]))
        policies = {
            policy: build_unchecked(
                PolicyStatistics,
                impressions_by_query=p.impressions_by_query[query_rows],
                clicks=p.clicks[documents],
                exposure=p.exposure[documents],
            )
            for policy, p in self.policies.items()
        }
        return build_unchecked(
            Statistics,
            offsets=cut,
            policies=MappingProxyType(policies),
            displays_by_position=self.displays_by_position[documents],
            clicks_by_position=self.clicks_by_position[documents],
            log_impressions=self.log_impressions,
            weighted_displays=None if self.weighted_displays is None else self.weighted_displays[documents],
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
