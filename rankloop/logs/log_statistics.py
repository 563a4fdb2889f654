"""The statistics of a log: its counts, with the exposures of its policies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.logs.counter import LogCounter
from rankloop.logs.schema import CANDIDATES, QUERY_DOCUMENT
from rankloop.logs.slots import Gaps, Placement, Slots
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, segment_index, segment_sum
from rankloop.statistics.counts import Counts
from rankloop.statistics.statistics import Exposure, PolicyStatistics, Statistics
from rankloop.types import Bias, Float64, Int64, Str

PARTS = ("alpha", "beta", "examination")
# What tells apart the rankings that policies draw.
RANKING = ("policy_id", "query_id")


@dataclass(frozen=True, eq=False)
class CandidateExposures:
    """The exposures of one policy, where its candidates are known.

    Attributes:
        values: float64, 3 × documents; expected α, β and examination, 0 where the candidates are not known.
        known: bool, documents; whether the document is a candidate of the policy.
    """

    values: Float64
    known: NDArray[np.bool_]


class RankShares(NamedTuple):
    """The probabilities of some candidates of a policy at each rank.

    Attributes:
        policy: its id.
        documents: the numbers of the documents.
        shares: float64, documents × ranks.
    """

    policy: str
    documents: NDArray[np.int32]
    shares: Float64


def compute_exposures(
    counter: LogCounter, counts: Counts, bias: Bias, placements: Mapping[str, Placement] | None = None
) -> dict[str, CandidateExposures]:
    """The exact exposures of every policy of the log, by its id.

        alpha_d = Σ_j α_j · P(d at j)     and the same for β and examination

    Args:
        counter: counts the log.
        counts: its counts, by the contexts of the bias, if it has any.
        bias: α, β and examination by rank.
        placements: by policy, at which positions its ranks are. None if every impression has as many slots as
            there are documents and ranks, each at its own position.
    """
    by_rank = np.stack([getattr(bias, part) for part in PARTS])
    result = {
        policy: CandidateExposures(
            np.zeros((len(PARTS), counts.n_documents)), np.zeros(counts.n_documents, np.bool_)
        )
        for policy in counts.policy_ids
    }
    query_of = segment_index(counts.offsets)
    relative = None if bias.contexts is None else counts.mean_effects(bias.contexts)
    plain = placements is None and relative is None
    rows = 0
    for policy, documents, values in _expected(counter, by_rank if plain else np.eye(bias.positions)):
        own = result[policy]
        rows += len(documents)
        own.known[documents] = True
        if placements is not None:
            values = placements[policy].place(values, query_of[documents])
        if relative is not None:
            values = values * relative[query_of[documents]]
        own.values[:, documents] = values.T if plain else by_rank @ values.T
    if rows > sum(int(own.known.sum()) for own in result.values()):
        _refuse_repeated_candidates(counter)
    return result


def compute_rank_shares(counter: LogCounter, ranks: int) -> Iterator[RankShares]:
    """The exact probability of each candidate at each rank, in parts."""
    for policy, documents, values in _expected(counter, np.eye(ranks)):
        yield RankShares(policy, documents, values)


def _expected(counter: LogCounter, vectors: Float64) -> Iterator[tuple[str, NDArray[np.int32], Float64]]:
    """Policies, documents and the documents' expected rank weights, rows × vectors."""
    assert counter.candidates is not None
    _refuse_bad_scores(counter)
    logged = counter.candidates.filter(
        _.policy_id.isin(sorted(row["policy_id"] for row in counter.policy_times))
    )
    scored = logged.join(counter.documents, QUERY_DOCUMENT).select(*RANKING, "document", "score")
    schema = _schema(len(vectors))
    for batch in counter.engine.grouped(scored, RANKING, partial(expose_batch, vectors=vectors), schema):
        policies = batch.column("policy_id").dictionary_encode()
        codes, documents = policies.indices.to_numpy(), batch.column("document").to_numpy()
        values = np.stack([batch.column(name).to_numpy() for name in schema.names[2:]], axis=1)
        for code, policy in enumerate(policies.dictionary.to_pylist()):
            yield policy, documents[codes == code], values[codes == code]


def _schema(vectors: int) -> pa.Schema:
    weights = ((f"weight_{number}", pa.float64()) for number in range(vectors))
    return pa.schema([("policy_id", pa.string()), ("document", pa.int32()), *weights])


def expose_batch(batch: pa.RecordBatch, *, vectors: Float64) -> pa.RecordBatch:
    """Compute the expected rank weights of every candidate of the queries in a batch."""
    schema = _schema(len(vectors))
    keys = (batch.column(name) for name in RANKING)
    changes = [pc.not_equal(key[1:], key[:-1]).to_numpy(zero_copy_only=False) for key in keys]
    ranking = np.append(0, np.cumsum(np.any(changes, axis=0)))
    documents = batch.column("document").to_numpy()
    # Engines sort by the keys alone, and the last bits of sums depend on the order of documents.
    order = np.lexsort((documents, ranking))
    offsets = offsets_of(np.bincount(ranking))
    weights = expected_rank_weights(batch.column("score").to_numpy()[order], offsets, vectors)
    columns = [batch.column("policy_id"), pa.array(documents[order])]
    columns += [pa.array(np.ascontiguousarray(column)) for column in weights.T]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def estimate_exposures(
    displays: Int64 | Float64, impressions_by_query: Int64, offsets: Int64, bias: Bias
) -> Float64:
    """Estimate the exposures of one policy from its displays: float64, 3 × documents.

        alpha_d = Σ_k α_k · n_dk / N_q     and the same for β and examination

    Args:
        displays: documents × ranks; n_dk, how often the policy showed d at rank k.
        impressions_by_query: queries; N_q, the number of impressions of d's query. Without any, exposures are
            0.
        offsets: queries + 1.
        bias: α, β and examination by rank.

    Example:
        >>> bias = Bias(alpha=np.array([0.8, 0.4]), beta=np.zeros(2), examination=np.ones(2))
        >>> estimate_exposures(np.array([[3, 1], [1, 3]]), np.array([4]), np.array([0, 2]), bias)[0]
        array([0.7, 0.5])
        >>> 0.8 * 3 / 4 + 0.4 * 1 / 4, 0.8 * 1 / 4 + 0.4 * 3 / 4
        (0.7000000000000001, 0.5)
    """
    came = np.repeat(impressions_by_query, np.diff(offsets))
    shares = displays / np.maximum(came, 1)[:, None]
    return np.stack([shares @ getattr(bias, part) for part in PARTS])


def _refuse_bad_scores(counter: LogCounter) -> None:
    table = counter.candidates
    assert table is not None
    where = counter.log.source(CANDIDATES)
    # Not with isinf, on which engines differ.
    too_large = (_.score > LARGEST_SCORE) | ((_.score < -LARGEST_SCORE) & (_.score >= -sys.float_info.max))
    nameless = ibis.or_(*(table[column].isnull() for column in ("policy_id", *QUERY_DOCUMENT)))
    bad = table.filter(nameless | _.score.isnull() | _.score.isnan() | too_large)
    for row in counter.rows(bad.order_by("policy_id", *QUERY_DOCUMENT).limit(1)):
        raise DataError(
            f"{where}: {_named(row)}: the score is {row['score']}; every candidate needs a policy, a query, "
            f"a document and a score within ±{LARGEST_SCORE:g}, or -inf if it can never be shown"
        )


def _refuse_repeated_candidates(counter: LogCounter) -> None:
    """Called only if there are some: finding them takes as long as computing exposures."""
    table = counter.candidates
    assert table is not None
    repeated = table.group_by("policy_id", *QUERY_DOCUMENT).agg(times=_.count()).filter(_.times > 1)
    for row in counter.rows(repeated.order_by("policy_id", *QUERY_DOCUMENT).limit(1)):
        raise DataError(
            f"{counter.log.source(CANDIDATES)}: {_named(row)}: {row['times']} rows; a policy has one score "
            f"per document of a query (a policy whose scores have changed needs another id)"
        )


def _named(row: dict[str, object]) -> str:
    return f"policy {row['policy_id']!r}, query {row['query_id']!r}, document {row['doc_id']!r}"


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
