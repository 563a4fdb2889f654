"""How a policy ranks the documents of a log: a fit, a model, a table of scores, or a policy of the log."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.frames import ArrowRows, Tabular
from rankloop.logs import LogFolder, LogReader
from rankloop.logs.engines import Engine
from rankloop.logs.impression_rows import map_impressions, rows_of
from rankloop.logs.schema import CANDIDATES
from rankloop.model_files import load
from rankloop.offline.fit_result import Fit, name_of
from rankloop.offline.scores import (
    BELOW_ALL,
    DocumentIndex,
    DocumentScores,
    LogScores,
    is_scores,
    judged_scores,
    read_candidates,
    read_scores,
    score_documents,
    scores_of_frame,
    source_of_scores,
)
from rankloop.policies import expected_rank_weights, rank_marginals, sorted_rank_weights
from rankloop.ragged import offsets_of, segment_index
from rankloop.statistics import Counts
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import Float64, Int64, Model
from rankloop.value.uncertainty import without_last_bits
from rankloop.value.valuation import LoggedMetric, PolicyRanking, RankingPair

Ranking = Literal["sorted", "drawn"]
RANKINGS = ("sorted", "drawn")
# How the ranking of a policy is called if it orders what an impression displayed.
# How a policy ranks that is known only from its displays.
DISPLAYED = "as displayed"
WITHIN = "within impressions"
# How a policy is called that is a frame of scores.
FRAME = "the table of scores"
Policy = Fit | Model | Tabular | ArrowRows | str | os.PathLike[str]


class ScoredDocuments(NamedTuple):
    """Documents with the scores that a policy gives them, divided into the queries of a log.

    Attributes:
        name: the policy.
        documents: the documents of the log, or -1 for documents that the log does not have.
        scores: float64; -inf for documents that are never shown.
        offsets: int64, queries + 1.
        known: bool, queries; whether the policy scores the query at all.
    """

    name: str
    documents: Int64
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
        counts: its counts, with at least as many ranks as the metric has.
        metric: the value of a ranking.
        within: bool, queries; which queries are re-ranked impression by impression. None for no query.
        queries: bool, queries; which queries models score: the others cost nothing. None for all queries.

    Attributes:
        notes: caveats about the policies that have been resolved, which every report must state.
        by_features: the names of those that rank by features; queries without features are not known for
            them, and the notes say how many there are.
        document_scores: the scores of the log's documents by the policies that are given as scores, models or
            fits; NaN where a policy has none.
    """

    def __init__(
        self,
        log: LogReader,
        counts: Counts,
        metric: LoggedMetric,
        *,
        within: NDArray[np.bool_] | None = None,
        queries: NDArray[np.bool_] | None = None,
    ) -> None:
        self.log, self.counts, self.metric = log, counts, metric
        self.within = np.zeros(counts.n_queries, np.bool_) if within is None else within
        self.queries = queries
        self.index = DocumentIndex(counts)
        weights = log.slots().rank_weights(counts, metric.vectors)
        self.rank_weights = metric.vectors if weights is None else weights
        self.notes: list[str] = []
        self.by_features: set[str] = set()
        self.document_scores: list[Float64] = []

    def resolve(self, policies: tuple[Policy, Policy], ranking: Ranking) -> RankingPair:
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
            of_folds, own = policy.judged_scores, name_of(policy)
            if of_folds is None or policy.log != self.counts.fingerprint:
                return self._score_by_model(policy, own)
            return self._score_all(judged_scores(of_folds, own, self.counts, self.queries), own)
        if not isinstance(policy, str | os.PathLike):
            return self._score_by_frame(policy)
        path = Path(policy)
        if not path.is_file():
            known = ", ".join(map(repr, self.counts.policy_ids))
            raise RankloopError(
                f"{str(policy)!r} is neither a policy of the log nor a stored policy: give the path of a "
                f"fit, of a model or of a table of scores, or one of the log's policies, which are {known}"
            )
        if is_scores(path):
            self._note_own_clicks(source_of_scores(path), path.name)
            return self._score_by_table(self._with_unscored(read_scores(path), path.name), path.name)
        return self._score_by_model(load(path), path.name)

    def _score_by_frame(self, frame: Tabular | ArrowRows) -> ScoredDocuments:
        scored, source = scores_of_frame(frame)
        self._note_own_clicks(source, FRAME)
        return self._score_by_table(self._with_unscored(scored, FRAME), FRAME)

    def _note_own_clicks(self, source: str | None, name: str) -> None:
        """Say that scores were computed from this log, if they were."""
        if source == self.counts.fingerprint:
            self.notes.append(
                f"{name} was computed from the clicks of this very log, so that it looks better than it is: "
                f"evaluate it on another log, such as that of a later week."
            )

    def _score_by_model(self, policy: Fit | Model, name: str) -> ScoredDocuments:
        """Documents without features come last; queries without any are not known."""
        return self._score_all(score_documents(policy, name, self.log, self.counts, self.queries), name)

    def _score_all(self, scored: LogScores, name: str) -> ScoredDocuments:
        self.notes.extend(scored.notes)
        self.by_features.add(name)
        documents = np.arange(len(scored.scores))
        return ScoredDocuments(name, documents, scored.scores, self.counts.offsets, scored.known)

    def _with_unscored(self, scored: DocumentScores, name: str) -> DocumentScores:
        """Documents without a score come last in impressions that are re-ranked."""
        documents = self.index.documents(scored.query_ids, scored.doc_ids)
        has_score = np.zeros(self.counts.n_documents, np.bool_)
        has_score[documents[documents >= 0]] = True
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
        documents = self.index.documents(scored.query_ids, scored.doc_ids)
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
        scores[filled], at[filled] = scored.scores[rows], documents[rows]
        return ScoredDocuments(name, at, scores, starts, known)

    def _rank_as_logged(self, policy: str) -> PolicyRanking:
        """As it displayed, and as it draws where whole queries are ranked and its candidates are known."""
        counts, number = self.counts, self.counts.policy_ids.index(policy)
        came, vectors = counts.impressions_by_policy[number], self.metric.vectors
        positions_seen = min(counts.positions, vectors.shape[1])
        placed = counts.displays_of(number)[:, :positions_seen] @ vectors[:, :positions_seen].T
        placed = placed / np.repeat(np.maximum(came, 1), np.diff(counts.offsets))[:, None]
        displayed = PolicyRanking(policy, DISPLAYED, placed, self._nothing, came > 0)
        if not self.log.draws or self.within.all():
            return displayed
        candidates = read_candidates(self.log.files(CANDIDATES), policy)
        drawn = self._rank_queries(self._score_by_table(candidates, policy), "drawn")
        scored = drawn.known & ~self.within
        return _merge(drawn, displayed, scored, counts.offsets) if scored.any() else displayed

    @property
    def _nothing(self) -> Float64:
        return np.zeros((self.counts.n_queries, len(self.metric.vectors)))

    def _rank_scored(self, scored: ScoredDocuments, ranking: Ranking, against: str | None) -> PolicyRanking:
        """Whole queries, or each impression's own documents."""
        inside = scored.documents >= 0
        scores = np.full(self.counts.n_documents, np.nan)
        scores[scored.documents[inside]] = scored.scores[inside]
        self.document_scores.append(scores)
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
        scores = np.full(self.counts.n_documents, -np.inf)
        inside = scored.documents >= 0
        scores[scored.documents[inside]] = scored.scores[inside]
        with self.log.open_engine() as running:
            placed = rerank_impressions(
                running,
                self.log,
                self.counts,
                scores,
                self.metric.vectors,
                queries=self.within,
                ranking=ranking,
                policy=against,
            )
        return PolicyRanking(scored.name, f"{ranking} {WITHIN}", placed, self._nothing, scored.known)

    def _rank_queries(self, scored: ScoredDocuments, ranking: Ranking) -> PolicyRanking:
        """All documents of each query; those that the log does not have take the ranks of their scores."""
        weights = RANK_WEIGHTS[ranking](scored.scores, scored.offsets, self.rank_weights)
        placed = np.zeros((self.counts.n_documents, weights.shape[1]))
        inside = scored.documents >= 0
        placed[scored.documents[inside]] = weights[inside]
        outside = np.add.reduceat(np.where(inside[:, None], 0.0, weights), scored.offsets[:-1])
        return PolicyRanking(scored.name, ranking, placed, outside, scored.known)


def _merge(
    first: PolicyRanking, second: PolicyRanking, use_first: NDArray[np.bool_], offsets: Int64
) -> PolicyRanking:
    """The first ranking on some queries, the second on the others."""
    by_document = np.repeat(use_first, np.diff(offsets))
    return PolicyRanking(
        first.name,
        first.ranking,
        np.where(by_document[:, None], first.placed, second.placed),
        np.where(use_first[:, None], first.elsewhere, second.elsewhere),
        np.where(use_first, first.known, second.known),
    )


def drawn_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """The expected weight of each document's rank if rankings are drawn from the scores (Plackett–Luce).

    Arguments are those of `sorted_rank_weights`.
    """
    if weights.ndim < 3:
        return expected_rank_weights(scores, offsets, weights)
    marginals = rank_marginals(scores, offsets, weights.shape[2])
    result: Float64 = np.einsum("dk,dvk->dv", marginals, weights[segment_index(offsets)])
    return result


RANK_WEIGHTS = {"sorted": sorted_rank_weights, "drawn": drawn_rank_weights}


def rerank_impressions(
    engine: Engine,
    log: LogFolder,
    counts: Counts,
    scores: Float64,
    vectors: Float64,
    *,
    queries: NDArray[np.bool_],
    ranking: str = "sorted",
    policy: str | None = None,
) -> Float64:
    """The expected weights of each document's slots per impression of its query: documents × vectors.

    Args:
        engine: the engine that runs the expression.
        log: the log.
        counts: its counts: names and numbers of its queries and documents.
        scores: float64, documents; -inf for documents that are never shown.
        vectors: float64, vectors × ranks; the weight of each position.
        queries: bool, queries; those whose impressions are re-ranked. The documents of others have 0.
        ranking: ``sorted`` by score, ties in random order, or ``drawn`` from the scores.
        policy: re-rank the impressions of this policy alone; None for all impressions.
    """
    came = counts.impressions_by_query
    if policy is not None:
        came = counts.impressions_by_policy[counts.policy_ids.index(policy)]
    query = segment_index(counts.offsets)
    documents = np.flatnonzero(queries[query])
    total = np.zeros((len(documents), len(vectors)))
    rerank = partial(rerank_batch, scores=scores[documents], vectors=vectors, ranking=ranking)
    parts = map_impressions(
        engine, log, counts, rerank, _schema(len(vectors)), queries=queries, policy=policy
    )
    for batch in parts:
        values = np.stack([batch.column(name).to_numpy() for name in batch.schema.names[1:]], axis=1)
        # Spark joins the results of several batches into one.
        np.add.at(total, batch.column("document").to_numpy(), values)
    result = np.zeros((counts.n_documents, len(vectors)))
    result[documents] = without_last_bits(total / np.maximum(came, 1)[query[documents], None])
    return result


def rerank_batch(batch: pa.RecordBatch, *, scores: Float64, vectors: Float64, ranking: str) -> pa.RecordBatch:
    """Re-rank the impressions of a batch; the sums over it of the weights of each document's slots."""
    schema = _schema(len(vectors))
    if not len(batch):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    rows = rows_of(batch)
    weights = _slot_weights(rows, scores[rows.document], vectors, ranking)
    documents, place = np.unique(rows.document, return_inverse=True)
    sums = [np.bincount(place, column, len(documents)) for column in weights.T]
    return pa.RecordBatch.from_arrays([pa.array(documents), *map(pa.array, sums)], schema=schema)


def _slot_weights(rows: ImpressionRows, scores: Float64, vectors: Float64, ranking: str) -> Float64:
    """Rows × vectors; the k-th row of an impression is its k-th slot."""
    ranks, impression = vectors.shape[1], rows.impression_of
    slot = np.arange(len(scores)) - rows.offsets[impression]
    # A slot is never above its own rank, so that slots past the last rank are worth nothing.
    seen = (slot < ranks) & (rows.position < ranks)
    weights = np.zeros((len(rows), len(vectors), ranks))
    weights[impression[seen], :, slot[seen]] = vectors[:, rows.position[seen]].T
    return RANK_WEIGHTS[ranking](scores, rows.offsets, weights)


def _schema(vectors: int) -> pa.Schema:
    return pa.schema(
        [("document", pa.int64()), *((f"weight_{number}", pa.float64()) for number in range(vectors))]
    )
