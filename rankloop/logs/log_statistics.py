"""The statistics of a log: its counts, with the exposures of its policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.policy_exposures import CandidateExposures, estimate_exposures
from rankloop.logs.slots import Gaps, Slots
from rankloop.ragged import offsets_of, segment_sum
from rankloop.statistics.counts import Counts
from rankloop.statistics.statistics import Exposure, PolicyStatistics, Statistics
from rankloop.types import Bias, Float64, Int64, Str


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """The statistics of a log, the names of its queries and documents, and where its exposures come from.

    Attributes:
        statistics: queries and documents, ordered by their ids.
        query_ids: queries.
        doc_ids: documents.
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
    gaps: Gaps | None = None

    @property
    def offsets(self) -> Int64:
        """The first document of each query, and the number of documents."""
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
            ranks = self.statistics.positions
            notes.append(f"{self.left_out:,} rows of impressions below position {ranks} are left out.")
        return tuple(notes)

    def of_part(self, part: Counts, bias: Bias, exposures: Mapping[str, Float64] | None = None) -> Statistics:
        """The statistics of part of the log, such as a period, with the exposures of its policies.

        Args:
            part: the counts of the part, of the queries and documents of the whole log, by the contexts of
                the bias, if it has any.
            bias: how users click.
            exposures: by policy, float64, 3 × documents; where exposures are exact, those of this part. None
                for those of the whole log, which are the same if there are no contexts.
        """
        policies, effects = {}, bias.contexts
        for number, policy in enumerate(part.policy_ids):
            shown, came = part.displays_of(number), part.impressions_by_policy[number]
            weighted = shown if effects is None else part.effective_displays(effects, number)
            values = estimate_exposures(weighted, came, part.offsets, bias)
            exact = self.exact.get(policy)
            if exact is not None:
                whole = self.statistics.policies[policy].exposure
                known = np.stack([whole.alpha, whole.beta, whole.examination])
                if exposures is not None and policy in exposures:
                    known = exposures[policy]
                values = np.where(np.repeat(exact, np.diff(part.offsets)), known, values)
            clicks: NDArray[Any] = part.clicks_of(number)
            policies[policy] = PolicyStatistics(came, clicks, Exposure(*values))
        return Statistics(
            part.offsets,
            policies,
            part.displays_by_position,
            part.clicks_by_position,
            part.impressions,
            None if effects is None else part.effective_displays(effects),
        )

    def keep(self, kept: NDArray[np.bool_]) -> LogStatistics:
        """The statistics of some documents; queries of which none is kept are left out.

        Exposures are those of the rankings that were shown, with all documents in them.

        Args:
            kept: bool, documents; at least one is True.
        """
        whole = self.statistics
        sizes = np.add.reduceat(kept, whole.offsets[:-1], dtype=np.int64)
        queries = sizes > 0
        policies = {
            policy: PolicyStatistics(
                part.impressions_by_query[queries],
                part.clicks[kept],
                part.exposure[kept],
            )
            for policy, part in whole.policies.items()
        }
        statistics = Statistics(
            offsets_of(sizes[queries]),
            policies,
            whole.displays_by_position[kept],
            whole.clicks_by_position[kept],
            whole.log_impressions,
            None if whole.weighted_displays is None else whole.weighted_displays[kept],
        )
        return replace(
            self, statistics=statistics, query_ids=self.query_ids[queries], doc_ids=self.doc_ids[kept]
        )


def assemble_statistics(
    counts: Counts,
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
        counts: the counts, of as many ranks as the bias has, by the contexts of the bias, if it has any.
        bias: how users click.
        exact: by policy, the exposures of its candidates; None to estimate all exposures from displays.
        slots: the slots of the impressions with gaps; None if there are no gaps.
    """
    displays, effects = counts.displays_by_position, bias.contexts
    _refuse_repeated_rows(counts, displays)
    policies = {}
    estimated: dict[str, int] = {}
    unasked: dict[str, int] = {}
    asked = counts.impressions_by_policy.any(axis=0)
    displaced = np.zeros(counts.impressions_by_policy.shape, np.bool_)
    if slots is not None:
        displaced = slots.displaced(displaced.shape, bias.positions)
    scored_by, exact_by = {}, {}
    for number, policy in enumerate(counts.policy_ids):
        shown, came = counts.displays_of(number), counts.impressions_by_policy[number]
        clicks: NDArray[Any] = counts.clicks_of(number)
        weighted = shown if effects is None else counts.effective_displays(effects, number)
        values = estimate_exposures(weighted, came, counts.offsets, bias)
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
        counts.clicks_by_position,
        counts.impressions,
        None if effects is None else counts.effective_displays(effects),
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
        None if slots is None else slots.gaps,
    )


def _listed(queries: Mapping[str, int]) -> str:
    return ", ".join(f"{policy} ({count:,} queries)" for policy, count in queries.items())


def _refuse_repeated_rows(counts: Counts, displays: Int64) -> None:
    filled = segment_sum(displays, counts.offsets)
    came = counts.impressions_by_query
    bad = np.argwhere(filled > came[:, None])
    if len(bad):
        query, rank = map(int, bad[0])
        raise DataError(
            f"query {str(counts.query_ids[query])!r} has {came[query]:,} impressions, but "
            f"{filled[query, rank]:,} rows at position {rank + 1}: rows are repeated, or documents share a "
            f"position; `rankloop check` shows where, and `rankloop import columns` repairs it"
        )


def _refuse_strangers(counts: Counts, policy: str, strange: NDArray[np.bool_]) -> None:
    documents = np.flatnonzero(strange)
    if len(documents):
        raise DataError(
            f"policy {policy!r}, {counts.document_name(documents[0])}: it was shown, but is not among the "
            f"policy's candidates for the query ({len(documents)} such documents in total): list all "
            f"candidates, or estimate exposures from displays (exposure='displays')"
        )


def _refuse_impossible(counts: Counts, policy: str, never: NDArray[np.bool_]) -> None:
    documents = np.flatnonzero(never)
    if len(documents):
        raise DataError(
            f"policy {policy!r}, {counts.document_name(documents[0])}: it was shown, although by the "
            f"policy's scores it never is ({len(documents)} such documents in total): rankings are not drawn "
            "from these scores; log the scores that they are drawn from, or estimate exposures from "
            f"displays (exposure='displays')"
        )
