"""The statistics of a log: its counts, with the exposures of its policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.counts import LogCounts
from rankloop.logs.policy_exposures import CandidateExposures, estimate_exposures
from rankloop.logs.slots import GapSummary, Slots
from rankloop.ragged import segment_sum
from rankloop.statistics.exposure import Exposure
from rankloop.statistics.statistics import PolicyStatistics, Statistics
from rankloop.types import Bias, Int64, Str


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """The statistics of a log, the names of its queries and items, and where its exposures come from.

    Attributes:
        statistics: queries and items, ordered by their ids.
        query_ids: queries.
        doc_ids: items.
        estimated: by policy, the number of queries it served whose exposures are estimated from displays;
            policies whose exposures are all exact are left out.
        unknown: by policy, the number of queries that only other policies served, and for which it is not
            known what this policy would have shown; its exposures are 0 there. Policies for which everything
            is known are left out.
        left_out: the number of rows of impressions below the last rank of the bias.
        scored: by policy, queries; whether the scores of its candidates are known.
        exact: by policy, queries; whether its exposures are computed from them.
        gaps: how many impressions have positions without a row; None if that was not counted.
    """

    statistics: Statistics
    query_ids: Str
    doc_ids: Str
    estimated: Mapping[str, int]
    unknown: Mapping[str, int]
    left_out: int
    scored: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    exact: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    gaps: GapSummary | None = None

    @property
    def offsets(self) -> Int64:
        """The first item of each query, and the number of items."""
        return self.statistics.offsets

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats that every report on these statistics must state; empty if there are none."""
        notes = list(self.gaps.notes) if self.gaps is not None else []
        if self.estimated:
            notes.append(
                f"Exposures are estimated from how often each document was shown at each rank, not computed "
                f"from the scores of candidates, for: {_listed(self.estimated)}. A document that was never "
                f"shown is treated as one that can never be shown."
            )
        if self.unknown:
            notes.append(
                f"For queries that only other policies served, it is not known what these policies would "
                f"have shown: {_listed(self.unknown)}. Their exposures are set to 0 there; "
                f"intervention-aware(average=query) does not use them."
            )
        if self.left_out:
            ranks = self.statistics.ranks
            notes.append(f"{self.left_out:,} rows of impressions below rank {ranks} are left out.")
        return tuple(notes)


def assemble_statistics(
    counts: LogCounts,
    bias: Bias,
    exact: Mapping[str, CandidateExposures] | None,
    slots: Slots | None = None,
) -> LogStatistics:
    """The statistics of a log, from its counts and the exposures of its policies.

    Exposures are exact where the scores of all candidates of the policy and the query are known. Elsewhere
    they are estimated from displays:

        alpha_d = Σ_k α_k · (how often d was shown at rank k) / (number of impressions of its query)

    So they are where a policy's impressions of the query have gaps among the first ranks, unless the log says
    that documents were pinned there: displays hold whatever the reason of the gap.

    Args:
        counts: the counts, of as many ranks as the bias has.
        bias: how users click.
        exact: by policy, the exposures of its candidates; None to estimate all exposures from displays.
        slots: the slots of the impressions with gaps; None if there are no gaps.
    """
    displays = counts.displays_by_rank
    _refuse_repeated_rows(counts, displays)
    policies = {}
    estimated: dict[str, int] = {}
    unasked: dict[str, int] = {}
    asked = counts.query_counts.any(axis=0)
    displaced = np.zeros(counts.query_counts.shape, np.bool_)
    if slots is not None:
        displaced = slots.displaced(displaced.shape, bias.ranks)
    scored_by, exact_by = {}, {}
    for number, policy in enumerate(counts.policy_ids):
        shown, came = counts.displays_of(number), counts.query_counts[number]
        clicks: NDArray[Any] = counts.clicks_of(number)
        values = estimate_exposures(shown, came, counts.offsets, bias)
        unknown = np.ones(counts.n_queries, np.bool_)
        if exact is not None:
            own = exact[policy]
            scored = np.logical_or.reduceat(own.known, counts.offsets[:-1])
            scored_by[policy], exact_by[policy] = scored, scored & ~displaced[number]
            covered = np.repeat(exact_by[policy], np.diff(counts.offsets))
            _refuse_strangers(counts, policy, shown.any(axis=1) & covered & ~own.known)
            values = np.where(covered, own.values, values)
            # Displays at ranks where nothing is seen or clicked carry no information.
            seen = shown @ np.stack([bias.alpha, bias.beta, bias.examination]).any(axis=0)
            _refuse_impossible(counts, policy, ((seen > 0) | (clicks > 0)) & ~values.any(axis=0))
            unknown &= ~exact_by[policy]
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
        MappingProxyType(scored_by),
        MappingProxyType(exact_by),
        None if slots is None else slots.summary,
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
            f"query {str(counts.query_ids[query])!r} has {came[query]:,} impressions, but "
            f"{filled[query, rank]:,} rows at rank {rank + 1}: rows are repeated, or documents share a "
            f"position; `rankloop check` shows where, and `rankloop import columns` repairs it"
        )


def _refuse_strangers(counts: LogCounts, policy: str, strange: NDArray[np.bool_]) -> None:
    items = np.flatnonzero(strange)
    if len(items):
        raise DataError(
            f"policy {policy!r}, {counts.item_name(items[0])}: it was shown, but is not among the policy's "
            f"candidates for the query ({len(items)} such documents in total): list all candidates, or "
            f"estimate exposures from displays (exposure='displays')"
        )


def _refuse_impossible(counts: LogCounts, policy: str, never: NDArray[np.bool_]) -> None:
    items = np.flatnonzero(never)
    if len(items):
        raise DataError(
            f"policy {policy!r}, {counts.item_name(items[0])}: it was shown, although by the policy's scores "
            f"it never is ({len(items)} such documents in total): rankings are not drawn from these scores; "
            f"log the scores that they are drawn from, or estimate exposures from displays "
            f"(exposure='displays')"
        )
