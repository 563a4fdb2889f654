"""From a log to statistics, with exposures from what the policies could have shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.logs.counting import DEEPEST_RANK, Counting
from rankloop.logs.counts import LogCounts
from rankloop.logs.engines import engine as open_engine
from rankloop.logs.folder import Log
from rankloop.logs.policy_exposures import Candidates, estimated_exposure, exposures_of_candidates
from rankloop.logs.schema import CANDIDATES
from rankloop.ragged import segment_sum
from rankloop.statistics.exposure import Exposure
from rankloop.statistics.statistics import PolicyStatistics, Statistics
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
        unknown: by policy, for how many queries that came under other policies alone nobody knows what it
            would have shown; its exposures are 0 there. Policies of which all is known are not in it.
        left_out: rows of impressions below the last rank of the bias.
    """

    statistics: Statistics
    query_ids: Str
    doc_ids: Str
    estimated: Mapping[str, int]
    unknown: Mapping[str, int]
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
            said.append(
                f"Exposures are estimated from how often each document was shown at each rank, not computed "
                f"from the scores of candidates, under: {_listed(self.estimated)}. A document that was never "
                f"shown counts as one that never can be."
            )
        if self.unknown:
            said.append(
                f"Nobody knows what policies would have shown for queries that came under others alone: "
                f"{_listed(self.unknown)}. Exposures are 0 there, which intervention-aware(average=query) "
                f"does not ask for."
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
        counting = Counting(log, running, bias.ranks, counts)
        known = counting.counts() if counts is None else counts
        return _assembled(known, bias, exposures_of_candidates(counting, known, bias) if exact else None)


def _assembled(counts: LogCounts, bias: Bias, exact: Mapping[str, Candidates] | None) -> LogStatistics:
    displays = counts.displays_by_rank
    _refuse_repeated_rows(counts, displays)
    policies = {}
    estimated: dict[str, int] = {}
    unasked: dict[str, int] = {}
    asked = counts.query_counts.any(axis=0)
    for number, policy in enumerate(counts.policy_ids):
        shown, came = counts.displays_of(number), counts.query_counts[number]
        clicks: NDArray[Any] = counts.clicks_of(number)
        values = estimated_exposure(shown, came, counts.offsets, bias)
        unknown = np.ones(counts.n_queries, np.bool_)
        if exact is not None:
            own = exact[policy]
            scored = np.logical_or.reduceat(own.known, counts.offsets[:-1])
            covered = np.repeat(scored, np.diff(counts.offsets))
            _refuse_strangers(counts, policy, shown.any(axis=1) & covered & ~own.known)
            values = np.where(covered, own.values, values)
            # A rank at which nobody sees or clicks anything says nothing.
            seen = shown @ np.stack([bias.alpha, bias.beta, bias.examination]).any(axis=0)
            _refuse_impossible(counts, policy, ((seen > 0) | (clicks > 0)) & ~values.any(axis=0))
            unknown &= ~scored
        for queries, where in ((estimated, came > 0), (unasked, came == 0)):
            if (unknown & where & asked).any():
                queries[policy] = int((unknown & where & asked).sum())
        policies[policy] = PolicyStatistics(came, clicks, Exposure(*values))
    statistics = Statistics(
        counts.offsets,
        policies,
        displays,
        counts.clicks_by_rank,
        int(counts.query_counts.sum()),
    )
    return LogStatistics(
        statistics,
        counts.query_ids,
        counts.doc_ids,
        MappingProxyType(estimated),
        MappingProxyType(unasked),
        counts.left_out,
    )


def _listed(queries: Mapping[str, int]) -> str:
    return ", ".join(f"{policy} ({count:,} queries)" for policy, count in queries.items())


def _refuse_repeated_rows(counts: LogCounts, displays: Int64) -> None:
    filled = segment_sum(displays, counts.offsets)
    came = counts.query_counts.sum(axis=0)
    bad = np.argwhere(filled > came[:, None])
    if len(bad):
        query, rank = map(int, bad[0])
        raise DataError(
            f"query {str(counts.query_ids[query])!r} came {came[query]:,} times, but rank {rank + 1} was "
            f"filled {filled[query, rank]:,} times: rows are repeated, or documents share a position; "
            f"`rankloop check` says where, `rankloop import columns` repairs it"
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
            f"policy {policy!r}, {counts.item_name(items[0])}: it was shown, but by the policy's scores it "
            f"never is ({len(items)} such documents in all): rankings are not drawn from these scores; "
            f"give those that they are drawn from, or estimate exposures from displays (exposure='displays')"
        )


def _check_ranks(ranks: int | None) -> None:
    if ranks is not None and not 1 <= ranks <= DEEPEST_RANK:
        raise RankloopError(f"ranks are counted from 1 to {DEEPEST_RANK:,} at most, got {ranks}")
