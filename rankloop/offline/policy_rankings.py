"""How a policy ranks the documents of a log: a fit, a model, a table of scores, or a policy of the log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankloop import rank_weights
from rankloop.errors import RankloopError
from rankloop.logs import LogCounts, LogReader
from rankloop.logs.grading import Grading
from rankloop.logs.schema import CANDIDATES
from rankloop.model_files import load
from rankloop.names import parse
from rankloop.offline.earned_weights import RANK_WEIGHTS
from rankloop.offline.fit_result import Fit
from rankloop.offline.model_inputs import BELOW_ALL, score_items
from rankloop.offline.reranking import rerank_impressions
from rankloop.offline.tables import (
    DocumentScores,
    ItemIndex,
    is_table,
    read_candidates,
    read_scores,
    source_of_scores,
)
from rankloop.ragged import offsets_of, segment_index
from rankloop.types import Bias, Float64, Int64, Model

Ranking = Literal["sorted", "drawn"]
RANKINGS = ("sorted", "drawn")
Policy = Fit | Model | str | os.PathLike[str]
# Down to the last rank of the bias.
DEFAULT_MEASURE = "dcg"


class Measure(NamedTuple):
    """The value of a ranking: ``Σ_d (gain_rank(d) · R(d) + always_rank(d))``.

    Attributes:
        name: the name of the measure.
        gain: float64, ranks; the weight of the relevance at each rank.
        always: float64, ranks; the value of any document at each rank, whatever its relevance.
    """

    name: str
    gain: Float64
    always: Float64

    @classmethod
    def of(cls, name: str, bias: Bias) -> Measure:
        """Find a measure by its name: ``dcg@5``, ``dcg`` (as many ranks as the bias has) or ``clicks``.

        >>> bias = Bias(alpha=np.array([0.5]), beta=np.array([0.1]), examination=np.array([1.0]))
        >>> Measure.of("clicks", bias)
        Measure(name='clicks', gain=array([0.5]), always=array([0.1]))
        >>> Measure.of("dcg@2", bias).gain.round(4)
        array([1.    , 0.6309])
        """
        parsed = parse(name, ("clicks", "dcg"), kind="measure")
        if parsed.options or (parsed.name == "clicks" and parsed.cutoff is not None):
            raise RankloopError(f"expected 'clicks', 'dcg' or a cut-off as in 'dcg@5', got {name!r}")
        if parsed.name == "clicks":
            return cls("clicks", bias.alpha, bias.beta)
        cutoff = parsed.cutoff or bias.ranks
        return cls(f"dcg@{cutoff}", rank_weights.dcg(cutoff), np.zeros(cutoff))

    def of_worth(self, grading: Grading) -> Measure:
        """The same in units of the signal, if displays are worth their signal."""
        if not grading.graded:
            return self
        return Measure(f"{self.name} of the signal", self.gain * grading.unit, self.always * grading.unit)

    @property
    def vectors(self) -> Float64:
        """Gain and always, 2 × ranks."""
        return np.stack([self.gain, self.always])


@dataclass(frozen=True, eq=False)
class PolicyRanking:
    """How a policy ranks a log's queries, as far as a `Measure` needs it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` or ``drawn``, followed by ``within impressions`` if only the documents of an
            impression are ranked; or ``as displayed`` if it is known only from displays.
        weights: float64, items; λ, the expected gain of the item's rank.
        elsewhere: float64, queries; the sum of λ over documents that are not in the log.
        always: float64, queries; the value of the ranking whatever the relevances.
        known: bool, queries; whether it is known how the policy ranks the query.
    """

    name: str
    ranking: str
    weights: Float64
    elsewhere: Float64
    always: Float64
    known: NDArray[np.bool_]


class ScoredDocuments(NamedTuple):
    """Documents with the scores that a policy gives them, divided into the queries of a log.

    Attributes:
        name: the policy.
        items: the items of the log, or -1 for documents that the log does not have.
        scores: float64; -inf for documents that are never shown.
        offsets: int64, queries + 1.
        known: bool, queries; whether the policy scores the query at all.
    """

    name: str
    items: Int64
    scores: Float64
    offsets: Int64
    known: NDArray[np.bool_]


class RankingResolver:
    """Determines how policies rank the queries of one log.

    A query is ranked as a whole where the candidates of all policies that served it are known: the k-th
    document of a ranking goes to the k-th slot of each impression. Elsewhere only what was displayed is
    known, and policies re-rank each impression's own documents.

    Args:
        log: the log.
        counts: its counts, with at least as many ranks as the measure has.
        worth: the value of a ranking.
        within: bool, queries; which queries are re-ranked impression by impression. None for no query.
        queries: bool, queries; which queries models score: the others cost nothing. None for all queries.

    Attributes:
        notes: caveats about the policies that have been resolved, which every report must state.
        by_features: the names of those that rank by features; queries without features are not known for
            them, and the notes say how many there are.
        item_scores: the scores of the log's items by the policies that are given as scores, models or fits;
            NaN where a policy has none.
    """

    def __init__(
        self,
        log: LogReader,
        counts: LogCounts,
        worth: Measure,
        *,
        within: NDArray[np.bool_] | None = None,
        queries: NDArray[np.bool_] | None = None,
    ) -> None:
        self.log, self.counts, self.worth = log, counts, worth
        self.within = np.zeros(counts.n_queries, np.bool_) if within is None else within
        self.queries = queries
        self.index = ItemIndex(counts)
        weights = log.slots().rank_weights(counts, worth.vectors)
        self.rank_weights = worth.vectors if weights is None else weights
        self.notes: list[str] = []
        self.by_features: set[str] = set()
        self.item_scores: list[Float64] = []

    def resolve(
        self, policies: tuple[Policy, Policy], ranking: Ranking
    ) -> tuple[PolicyRanking, PolicyRanking]:
        """How two policies rank; a string is the id of a policy of the log, or else the path of a file.

        Within impressions, a policy is compared with a policy of the log on the impressions of that policy.
        """
        if ranking not in RANKINGS:
            raise RankloopError(f"rankings are {' or '.join(RANKINGS)}, not {ranking!r}")
        logged = [policy for policy in policies if self._is_logged(policy)]
        against = str(logged[0]) if logged else None
        first, second = (
            self._rank_as_logged(str(policy))
            if self._is_logged(policy)
            else self._rank_scored(self._score(policy), ranking, against)
            for policy in policies
        )
        return first, second

    def _is_logged(self, policy: Policy) -> bool:
        return isinstance(policy, str) and policy in self.counts.policy_ids

    def _score(self, policy: Policy) -> ScoredDocuments:
        if isinstance(policy, Model):
            return self._score_by_model(policy, policy.fingerprint)
        if isinstance(policy, Fit):
            return self._score_by_model(policy, policy.name or policy.model.fingerprint)
        path = Path(policy)
        if not path.is_file():
            known = ", ".join(map(repr, self.counts.policy_ids))
            raise RankloopError(
                f"{str(policy)!r} is neither a policy of the log nor a stored policy: give the path of a "
                f"fit, of a model or of a table of scores, or one of the log's policies, which are {known}"
            )
        if is_table(path):
            if source_of_scores(path) == self.counts.fingerprint:
                self.notes.append(
                    f"{path.name} was computed from the clicks of this very log, so that it looks better "
                    f"than it is: evaluate it on another log, such as that of a later week."
                )
            return self._score_by_table(self._with_unscored(read_scores(path), path.name), path.name)
        return self._score_by_model(load(path), path.name)

    def _score_by_model(self, policy: Fit | Model, name: str) -> ScoredDocuments:
        """Documents without features come last; queries without any are not known."""
        scored = score_items(policy, name, self.log, self.counts, self.queries)
        self.notes.extend(scored.notes)
        self.by_features.add(name)
        items = np.arange(len(scored.scores))
        return ScoredDocuments(name, items, scored.scores, self.counts.offsets, scored.known)

    def _with_unscored(self, scored: DocumentScores, name: str) -> DocumentScores:
        """Documents without a score come last in impressions that are re-ranked."""
        items = self.index.items(scored.query_ids, scored.doc_ids)
        has_score = np.zeros(self.counts.n_items, np.bool_)
        has_score[items[items >= 0]] = True
        queries = self.index.queries(scored.query_ids)
        known = np.zeros(self.counts.n_queries, np.bool_)
        known[queries[queries >= 0]] = True
        query_of = segment_index(self.counts.offsets)
        last = np.flatnonzero(~has_score & (known & self.within)[query_of])
        if not len(last):
            return scored
        self.notes.append(f"{len(last):,} documents have no score in {name} and are ranked last.")
        finite = scored.scores[np.isfinite(scored.scores)]
        below = (finite.min() if len(finite) else 0.0) - BELOW_ALL
        return DocumentScores(
            pa.concat_arrays([scored.query_ids, pa.array(self.counts.query_ids[query_of[last]].tolist())]),
            pa.concat_arrays([scored.doc_ids, pa.array(self.counts.doc_ids[last].tolist())]),
            np.concatenate([scored.scores, np.full(len(last), below)]),
        )

    def _score_by_table(self, scored: DocumentScores, name: str) -> ScoredDocuments:
        """Documents that are not in the log take the ranks that their scores give them."""
        items = self.index.items(scored.query_ids, scored.doc_ids)
        queries = self.index.queries(scored.query_ids)
        known = np.zeros(self.counts.n_queries, np.bool_)
        known[queries[queries >= 0]] = True
        rows = np.flatnonzero(queries >= 0)
        rows = rows[np.argsort(queries[rows], kind="stable")]
        sizes = np.bincount(queries[rows], minlength=self.counts.n_queries)
        # A query without scores gets one document that is never shown, and counts as unknown.
        places = np.repeat(np.arange(self.counts.n_queries), np.maximum(sizes, 1))
        starts = offsets_of(np.maximum(sizes, 1))
        scores, at = np.full(len(places), -np.inf), np.full(len(places), -1)
        filled = np.repeat(sizes > 0, np.maximum(sizes, 1))
        scores[filled], at[filled] = scored.scores[rows], items[rows]
        return ScoredDocuments(name, at, scores, starts, known)

    def _rank_as_logged(self, policy: str) -> PolicyRanking:
        """As it displayed, and as it draws where whole queries are ranked and its candidates are known."""
        counts, number = self.counts, self.counts.policy_ids.index(policy)
        came = counts.query_counts[number]
        ranks_seen = min(counts.ranks, len(self.worth.gain))
        per_display = self.worth.vectors[:, :ranks_seen].T
        shares = counts.displays_of(number)[:, :ranks_seen] @ per_display
        shares = shares / np.repeat(np.maximum(came, 1), np.diff(counts.offsets))[:, None]
        displayed = PolicyRanking(
            policy,
            "as displayed",
            shares[:, 0],
            np.zeros(counts.n_queries),
            np.add.reduceat(shares[:, 1], counts.offsets[:-1]),
            came > 0,
        )
        if not self.log.draws or self.within.all():
            return displayed
        candidates = read_candidates(self.log.files(CANDIDATES), policy)
        drawn = self._rank_queries(self._score_by_table(candidates, policy), "drawn")
        scored = drawn.known & ~self.within
        return _merge(drawn, displayed, scored, counts.offsets) if scored.any() else displayed

    def _rank_scored(self, scored: ScoredDocuments, ranking: Ranking, against: str | None) -> PolicyRanking:
        """Whole queries, or each impression's own documents."""
        inside = scored.items >= 0
        scores = np.full(self.counts.n_items, np.nan)
        scores[scored.items[inside]] = scored.scores[inside]
        self.item_scores.append(scores)
        if not self.within.any():
            return self._rank_queries(scored, ranking)
        within = self._rank_impressions(scored, ranking, against)
        if self.within.all():
            return within
        return _merge(self._rank_queries(scored, ranking), within, ~self.within, self.counts.offsets)

    def _rank_impressions(
        self, scored: ScoredDocuments, ranking: Ranking, against: str | None
    ) -> PolicyRanking:
        """Each impression's own documents among its own slots; other documents cannot be shown."""
        counts = self.counts
        scores = np.full(counts.n_items, -np.inf)
        inside = scored.items >= 0
        scores[scored.items[inside]] = scored.scores[inside]
        scores[np.repeat(~self.within, np.diff(counts.offsets))] = np.nan
        with self.log.open_engine() as running:
            earned = rerank_impressions(
                running, self.log, counts, scores, self.worth.vectors, ranking=ranking, policy=against
            )
        always = np.add.reduceat(earned[:, 1], counts.offsets[:-1])
        nothing = np.zeros(counts.n_queries)
        return PolicyRanking(
            scored.name, f"{ranking} within impressions", earned[:, 0], nothing, always, scored.known
        )

    def _rank_queries(self, scored: ScoredDocuments, ranking: Ranking) -> PolicyRanking:
        """All documents of each query; those that the log does not have take the ranks of their scores."""
        earned = RANK_WEIGHTS[ranking](scored.scores, scored.offsets, self.rank_weights)
        weights = np.zeros(self.counts.n_items)
        inside = scored.items >= 0
        weights[scored.items[inside]] = earned[inside, 0]
        outside = np.where(inside, 0.0, earned[:, 0])
        return PolicyRanking(
            scored.name,
            ranking,
            weights,
            np.add.reduceat(outside, scored.offsets[:-1]),
            np.add.reduceat(earned[:, 1], scored.offsets[:-1]),
            scored.known,
        )


def _merge(
    first: PolicyRanking, second: PolicyRanking, use_first: NDArray[np.bool_], offsets: Int64
) -> PolicyRanking:
    """The first ranking on some queries, the second on the others."""
    by_item = np.repeat(use_first, np.diff(offsets))
    return PolicyRanking(
        first.name,
        first.ranking,
        np.where(by_item, first.weights, second.weights),
        np.where(use_first, first.elsewhere, second.elsewhere),
        np.where(use_first, first.always, second.always),
        np.where(use_first, first.known, second.known),
    )
