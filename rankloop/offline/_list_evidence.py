"""Compare two policies that served at the same time, by the probabilities of their lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.evidence import Assumption, Decision, Evidence, decide
from rankloop.evidence.traffic import traffic_cuts
from rankloop.logs import LogReader
from rankloop.logs.schema import CANDIDATES
from rankloop.names import unknown
from rankloop.notebook import NotebookResult
from rankloop.offline.scores import DocumentIndex, read_candidates
from rankloop.policies import log_probability
from rankloop.ragged import offsets_of
from rankloop.statistics import Bets
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.intervals import tail_quantile
from rankloop.storage.plain import plain_fields
from rankloop.types import Float64, Int64
from rankloop.value.lists import list_differences, list_ranges, prefix_differences

ListEvidence = Literal["list", "prefix"]
EVIDENCE: tuple[ListEvidence, ...] = ("list", "prefix")
LEVEL = 0.05
# Leaving out more impressions than this makes the others a chosen sample.
FEW_MISSING = 0.01
# With fewer users who came twice, it does not show how they were assigned.
FEW_USERS = 20
# Users who keep a policy are as rare as this if a coin chooses for each page.
CHANCE = tail_quantile(1e-6)


@dataclass(frozen=True)
class ListComparison(NotebookResult):
    """Two policies that served at the same time, compared by their lists.

    Attributes:
        policy: the policy that is judged.
        against: the policy that it is compared with.
        evidence: ``list``, or ``prefix`` if nothing below a click matters.
        impressions: how many were used.
        left_out: how many were not, because the scores of both policies are not known.
        share: the share of the impressions that the judged policy had.
        better: log₁₀ of E that it is better.
        worse: log₁₀ of E that it is worse.
        decision: what they decide, in clicks per impression.
    """

    document: ClassVar[str] = "rankloop.reports.evaluation:list_document"
    policy: str
    against: str
    evidence: ListEvidence
    impressions: int
    left_out: int
    share: float
    better: float
    worse: float
    decision: Decision

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return plain_fields(self)


class _Scores(NamedTuple):
    """The candidates of a policy, query by query.

    Attributes:
        scores: float64.
        offsets: int64, queries + 1.
        place: int64, documents of the log; the number within its query, -1 for one that is no candidate.
    """

    scores: Float64
    offsets: Int64
    place: Int64

    @property
    def known(self) -> NDArray[np.bool_]:
        """bool, queries; whether the policy scored them."""
        return np.diff(self.offsets) > 0


def compare_lists(
    log: LogReader, policy: str, against: str, *, evidence: ListEvidence = "list"
) -> ListComparison:
    """Compare two policies of a log that served at the same time, by the clicks on their lists.

    Needs the scores of both policies for the same candidates, as the live service logs them, and a coin per
    impression that chose between them. Of the period in which both served, the clicks and lists of both say
    which is better, whatever users do (`rankloop.value.lists`); bets decide, at 5 % in each direction.

    Args:
        log: the log.
        policy: the id of the policy that is judged.
        against: the id of the policy that it is compared with.
        evidence: ``list``; or ``prefix``, which needs fewer impressions and assumes that what is shown below
            a document does not change whether it is clicked.

    Raises:
        RankloopError: the evidence or a policy is unknown, or both are the same.
        DataError: the log has no scores, the policies never served at the same time, or users kept theirs.
    """
    if evidence not in EVIDENCE:
        raise unknown("evidence", evidence, EVIDENCE)
    for name in (policy, against):
        if name not in log.policy_ids:
            raise RankloopError(
                f"{name!r} is not a policy of the log; lists compare two of {', '.join(log.policy_ids)}"
            )
    if policy == against:
        raise RankloopError(f"both policies are {policy!r}: there is nothing to compare")
    if not log.draws:
        raise DataError(
            "the log has no scores of candidates, so the probabilities of its lists are not known: use "
            "another kind of evidence, or import the scores that rankings were drawn from"
        )
    table = log.impression_table()
    numbers = [table.policy_ids.index(name) if name in table.policy_ids else -1 for name in (policy, against)]
    chosen, share = _parallel(table, *numbers)
    _refuse_kept_policies(table, chosen, share, numbers[0])
    new, old = (_read_scores(log, name) for name in (policy, against))
    values, losses, gains, used = _values(table, chosen, share, (new, old), evidence)
    left_out = int(len(chosen) - used.sum())
    if not used.any():
        raise DataError(
            f"no impression is of a query that both {policy!r} and {against!r} have scores for, so the lists "
            f"of one say nothing about the other"
        )
    better, worse = Bets().add(values, losses), Bets().add(-values, gains)
    doubts: tuple[Assumption, ...] = ()
    if left_out > FEW_MISSING * len(chosen):
        text = (
            f"{left_out:,} of {len(chosen):,} impressions were left out, because the scores of both policies "
            f"are not known there"
        )
        doubts = (Assumption("complete", "broken", text, "Log the scores of both policies for each query."),)
    decided = decide(replace(Evidence.of_bets(better, worse), assumptions=doubts), level=LEVEL)
    ten = float(np.log(10.0))
    return ListComparison(
        policy,
        against,
        evidence,
        int(used.sum()),
        left_out,
        float(np.mean(table.policy[chosen[used]] == numbers[0])),
        better.highest / ten,
        worse.highest / ten,
        decided,
    )


def _parallel(table: ImpressionTable, new: int, old: int) -> tuple[Int64, Float64]:
    """Impressions of both policies while both served, in order of time, and the new one's share then."""
    time = np.arange(len(table.rows), dtype=np.float64) if table.time is None else table.time
    cuts = traffic_cuts(table)
    period = np.searchsorted(cuts, time, side="right")
    parts, shares = [], []
    for each in np.unique(period):
        rows = np.flatnonzero((period == each) & np.isin(table.policy, (new, old)) & ~np.isnan(time))
        own = float(np.mean(table.policy[rows] == new)) if len(rows) else 0.0
        if 0.0 < own < 1.0:
            parts.append(rows[np.argsort(time[rows], kind="stable")])
            shares.append(np.full(len(rows), own))
    if not parts:
        raise DataError(
            "the two policies never served at the same time, so their lists cannot be compared: evidence by "
            "a model of users can, within its assumptions"
        )
    return np.concatenate(parts), np.concatenate(shares)


def _refuse_kept_policies(table: ImpressionTable, chosen: Int64, share: Float64, new: int) -> None:
    """Refuse users who kept a policy: their impressions are alike, and would count as independent."""
    if table.unit_name == "impression":
        return
    order = np.argsort(table.unit[chosen], kind="stable")
    _, starts, sizes = np.unique(table.unit[chosen][order], return_index=True, return_counts=True)
    own = np.add.reduceat((table.policy[chosen][order] == new).astype(float), starts)
    expected = np.add.reduceat(share[order], starts) / sizes
    often = sizes > 1
    if often.sum() < FEW_USERS:
        return
    kept = ((own == 0) | (own == sizes))[often]
    alone = (expected**sizes + (1.0 - expected) ** sizes)[often]
    if kept.sum() - alone.sum() > CHANCE * np.sqrt((alone * (1.0 - alone)).sum()) and kept.mean() > 0.9:
        raise DataError(
            f"{kept.mean():.0%} of the {table.unit_name}s who came more than once kept one policy: their "
            f"impressions are alike, and evidence by impressions would be wrong far too often. It needs a "
            f"coin per impression"
        )


def _read_scores(log: LogReader, policy: str) -> _Scores:
    counts = log.count()
    index = DocumentIndex(counts)
    candidates = read_candidates(log.files(CANDIDATES), policy)
    query = index.queries(candidates.query_ids)
    document = index.documents(candidates.query_ids, candidates.doc_ids)
    rows = np.flatnonzero(query >= 0)
    rows = rows[np.argsort(query[rows], kind="stable")]
    offsets = offsets_of(np.bincount(query[rows], minlength=counts.n_queries))
    place = np.full(counts.n_documents, -1, np.int64)
    within = np.arange(len(rows)) - offsets[query[rows]]
    named = document[rows] >= 0
    place[document[rows][named]] = within[named]
    return _Scores(candidates.scores[rows], offsets, place)


def _values(
    table: ImpressionTable,
    chosen: Int64,
    share: Float64,
    scores: tuple[_Scores, _Scores],
    evidence: ListEvidence,
) -> tuple[Float64, Float64, Float64, NDArray[np.bool_]]:
    """What each impression says, its largest loss and gain, and which impressions were used."""
    rows, longest = table.rows, int(table.length[chosen].max(initial=1))
    used = np.ones(len(chosen), np.bool_)
    lists = np.full((len(chosen), longest), -1, np.int64)
    clicks = np.zeros((len(chosen), longest))
    for number, impression in enumerate(chosen):
        inside = slice(rows.offsets[impression], rows.offsets[impression + 1])
        size = inside.stop - inside.start
        lists[number, :size], clicks[number, :size] = rows.document[inside], rows.amount[inside] > 0.0
    shown, query = lists >= 0, rows.query[chosen]
    for own in scores:
        used &= own.known[query] & (shown <= (own.place[lists] >= 0)).all(axis=1) & shown.any(axis=1)
    ranks = range(longest) if evidence == "prefix" else (longest - 1,)
    kept = np.flatnonzero(used)
    logs = [_logs(own, lists[kept], query[kept], ranks) for own in scores]
    parts = share[kept][:, None]
    live = np.logaddexp(np.log(parts) + logs[0], np.log(1.0 - parts) + logs[1])
    amount, length = clicks[kept].sum(axis=1), shown[kept].sum(axis=1).astype(float)
    if evidence == "prefix":
        values = prefix_differences(clicks[kept], logs[0], logs[1], live)
        losses, gains = list_ranges(share[kept], 1.0 - share[kept], length)
    else:
        # What was usual before each impression.
        before = np.concatenate([[0.0], np.cumsum(amount)[:-1]]) / np.maximum(np.arange(len(kept)), 1)
        values = list_differences(amount, logs[0][:, -1], logs[1][:, -1], live[:, -1], guessed=before)
        losses, gains = list_ranges(share[kept], 1.0 - share[kept], length, guessed=before)
    return values, losses, gains, used


def _logs(scores: _Scores, lists: Int64, query: Int64, ranks: range | tuple[int, ...]) -> Float64:
    """The logarithms of the probabilities of the first documents of each list: impressions × ranks."""
    sizes = np.diff(scores.offsets)[query]
    offsets = offsets_of(sizes)
    rows = np.repeat(scores.offsets[query] - offsets[:-1], sizes) + np.arange(offsets[-1])
    places = np.where(lists >= 0, scores.place[lists], -1)
    flat = scores.scores[rows]
    columns = [log_probability(flat, offsets, places[:, : rank + 1]) for rank in ranks]
    return np.stack(columns, axis=1)
