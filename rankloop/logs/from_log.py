"""From a log to statistics, with exposures from what the policies could have shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.logs.counting import Counting
from rankloop.logs.counts import LogCounts
from rankloop.logs.engines import engine as open_engine
from rankloop.logs.exposing import Candidates, estimated_exposure, exposures_of_candidates
from rankloop.logs.exposure import Exposure
from rankloop.logs.folder import Log
from rankloop.logs.schema import CANDIDATES
from rankloop.logs.statistics import PolicyStatistics, Statistics
from rankloop.types import Bias, Int64, Str

Source = Literal["candidates", "displays"]
SOURCES = ("candidates", "displays")


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """The statistics of a log, the names of its queries and items, and where its exposures come from.

    Attributes:
        statistics: queries and items in the order of their ids.
        query_ids: queries.
        doc_ids: items.
        estimated: by policy, in how many of the queries it was asked for its exposures are estimated from
            displays; policies whose exposures are all exact are not in it.
        left_out: rows of impressions below the last rank of the bias.
    """

    statistics: Statistics
    query_ids: Str
    doc_ids: Str
    estimated: Mapping[str, int]
    left_out: int

    @property
    def offsets(self) -> Int64:
        """Where each query's items begin."""
        return self.statistics.offsets

    @property
    def notes(self) -> tuple[str, ...]:
        """What every report on these statistics must say; empty where nothing was estimated or left out."""
        said = []
        if self.estimated:
            policies = ", ".join(
                f"{policy} ({queries:,} queries)" for policy, queries in self.estimated.items()
            )
            said.append(
                f"Exposures are estimated from how often each document was shown at each rank, not computed "
                f"from the scores of candidates, under: {policies}. A document that was never shown counts "
                f"as one that never can be."
            )
        if self.left_out:
            ranks = self.statistics.ranks
            said.append(f"{self.left_out:,} rows of impressions below rank {ranks} are left out.")
        return tuple(said)


def count(
    log: Log, *, ranks: int | None = None, engine: str = "duckdb", master: str | None = None
) -> LogCounts:
    """Count what was shown and clicked in a log.

    Args:
        log: what `open_log` gives.
        ranks: how many ranks are counted; rows below are left out, and counted as such. None: all.
        engine: ``duckdb`` or ``spark``.
        master: where Spark runs.
    """
    _check_ranks(ranks)
    with open_engine(engine, master=master) as running:
        return Counting(log, running, ranks).counts()


def statistics_of_log(
    log: Log,
    bias: Bias,
    *,
    exposure: Source = "candidates",
    counts: LogCounts | None = None,
    engine: str = "duckdb",
    master: str | None = None,
) -> LogStatistics:
    """The statistics of a log: what every estimator takes.

    Exposures are exact where the log has the scores of all candidates of the policy and the query, and the
    policy draws rankings from them (Plackett–Luce). Elsewhere they are estimated from displays:

        alpha_d = Σ_k α_k · (how often d was shown at rank k) / (how often its query came)

    Args:
        log: what `open_log` gives.
        bias: how users click; as many ranks as it has are counted.
        exposure: ``displays`` to estimate all exposures, such as those of a policy that does not draw its
            rankings from its scores.
        counts: what `count` gave with as many ranks, where it was called before.
        engine: ``duckdb`` or ``spark``; on Spark exposures are computed by the workers.
        master: where Spark runs.
    """
    if exposure not in SOURCES:
        raise RankloopError(f"exposures come from {' or '.join(SOURCES)}, not from {exposure!r}")
    if counts is not None and counts.ranks != bias.ranks:
        raise DataError(f"the counts are of {counts.ranks} ranks and the bias of {bias.ranks}: count again")
    exact = exposure == "candidates" and log.has(CANDIDATES)
    if counts is not None and not exact:
        return _assembled(counts, bias, None)
    with open_engine(engine, master=master) as running:
        counting = Counting(log, running, bias.ranks)
        known = counting.counts() if counts is None else counts
        return _assembled(known, bias, exposures_of_candidates(counting, known, bias) if exact else None)


def _assembled(counts: LogCounts, bias: Bias, exact: Mapping[str, Candidates] | None) -> LogStatistics:
    policies, estimated = {}, {}
    for number, policy in enumerate(counts.policy_ids):
        shown, came = counts.displays_of(number), counts.query_counts[number]
        clicks: NDArray[Any] = counts.clicks_of(number)
        values = estimated_exposure(shown, came, counts.offsets, bias)
        unknown = came > 0
        if exact is not None:
            own = exact[policy]
            scored = np.logical_or.reduceat(own.known, counts.offsets[:-1])
            covered = np.repeat(scored, np.diff(counts.offsets))
            _refuse_strangers(counts, policy, shown.any(axis=1) & covered & ~own.known)
            values = np.where(covered, own.values, values)
            _refuse_impossible(counts, policy, (clicks > 0) & ~values.any(axis=0))
            unknown &= ~scored
        if unknown.any():
            estimated[policy] = int(unknown.sum())
        policies[policy] = PolicyStatistics(came, clicks, Exposure(*values))
    statistics = Statistics(
        counts.offsets,
        policies,
        counts.displays_by_rank,
        counts.clicks_by_rank,
        int(counts.query_counts.sum()),
    )
    return LogStatistics(
        statistics, counts.query_ids, counts.doc_ids, MappingProxyType(estimated), counts.left_out
    )


def _refuse_strangers(counts: LogCounts, policy: str, strange: NDArray[np.bool_]) -> None:
    items = np.flatnonzero(strange)
    if len(items):
        raise DataError(
            f"policy {policy!r}, {counts.item_name(items[0])}: it was shown, but is not among the policy's "
            f"candidates for the query ({len(items)} such documents in all): give all candidates, or "
            f"estimate exposures from displays (exposure='displays')"
        )


def _refuse_impossible(counts: LogCounts, policy: str, never: NDArray[np.bool_]) -> None:
    items = np.flatnonzero(never)
    if len(items):
        raise DataError(
            f"policy {policy!r}, {counts.item_name(items[0])}: it was clicked, but by the policy's scores it "
            f"is never shown ({len(items)} such documents in all): rankings are not drawn from these scores; "
            f"give those that they are drawn from, or estimate exposures from displays (exposure='displays')"
        )


def _check_ranks(ranks: int | None) -> None:
    if ranks is not None and ranks < 1:
        raise RankloopError(f"ranks are counted from 1, got {ranks}")
