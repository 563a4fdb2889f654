"""What a policy shows of a log's documents: a stored model, a table of scores, or a policy of the log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankloop import rank_weights
from rankloop.errors import DataError, RankloopError
from rankloop.logs import Log, LogCounts, split_of_log
from rankloop.logs.schema import CANDIDATES
from rankloop.model_files import load
from rankloop.names import parse
from rankloop.offline.tables import Places, Scored, is_table, read_candidates, read_scores
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, ranks
from rankloop.types import Bias, Float64, Int64, Model

Ranking = Literal["sorted", "drawn"]
RANKINGS = ("sorted", "drawn")
Policy = Model | str | os.PathLike[str]


class Measure(NamedTuple):
    """What a ranking is worth: ``Σ_d (gain_rank(d) · R(d) + always_rank(d))``.

    Attributes:
        name: what it is called.
        gain: float64, ranks; what the relevance at a rank counts.
        always: float64, ranks; what a document at a rank counts whatever its relevance.
    """

    name: str
    gain: Float64
    always: Float64

    @classmethod
    def of(cls, name: str, bias: Bias) -> Measure:
        """By its name: ``dcg@5``, ``dcg`` (as many ranks as the bias has) or ``clicks``.

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

    @property
    def vectors(self) -> Float64:
        """Both, 2 × ranks."""
        return np.stack([self.gain, self.always])


@dataclass(frozen=True, eq=False)
class PolicyRanking:
    """How a policy ranks a log's queries, as far as a `Measure` needs it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` or ``drawn``, or ``as displayed`` where only the displays tell.
        weights: float64, items; λ, the expected gain of the item's rank.
        elsewhere: float64, queries; λ of documents that the log does not know, together.
        always: float64, queries; what the ranking is worth whatever the relevances.
        known: bool, queries; whether it is known how the policy ranks the query.
    """

    name: str
    ranking: str
    weights: Float64
    elsewhere: Float64
    always: Float64
    known: NDArray[np.bool_]


def sorted_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """What each item's rank is worth where items are sorted by score; ties are in the items' order.

    Args:
        scores: items; -inf for what is never shown.
        offsets: queries + 1.
        weights: ranks; or several vectors at once, vectors × ranks. Nothing is earned past the last.

    Example:
        >>> sorted_rank_weights(np.array([1.0, 3.0, 1.0]), np.array([0, 3]), np.array([1.0, 0.5]))
        array([0.5, 1. , 0. ])
    """
    at = ranks(scores, offsets)
    padded = np.concatenate([np.atleast_2d(weights), np.zeros((len(np.atleast_2d(weights)), 1))], axis=1)
    earned = padded[:, np.minimum(at, padded.shape[1]) - 1] * (scores > -np.inf)
    return earned[0] if weights.ndim == 1 else np.ascontiguousarray(earned.T)


class RankingResolver:
    """Finds out how policies rank the queries of one log.

    Args:
        log: the log.
        counts: its counts, with as many ranks as the bias has.
        worth: what a ranking is worth.
        candidates: whether the scores of candidates say how the log's own policies rank.
    """

    def __init__(self, log: Log, counts: LogCounts, worth: Measure, *, candidates: bool = True) -> None:
        self.log, self.counts, self.worth = log, counts, worth
        self.candidates = candidates and log.has(CANDIDATES)
        self.places = Places(counts)

    def of(self, policy: Policy, ranking: Ranking) -> PolicyRanking:
        """How a policy ranks; a text is the id of a policy of the log, or else the path of a file."""
        if ranking not in RANKINGS:
            raise RankloopError(f"rankings are {' or '.join(RANKINGS)}, not {ranking!r}")
        if isinstance(policy, Model):
            return self._model(policy, policy.fingerprint, ranking)
        if isinstance(policy, str) and policy in self.counts.policy_ids:
            return self._logged(policy)
        path = Path(policy)
        if not path.is_file():
            known = ", ".join(map(repr, self.counts.policy_ids))
            raise RankloopError(
                f"{str(policy)!r} is neither a policy of the log nor a file: give the path of a stored model "
                f"or of a table of scores, or one of the log's policies, which are {known}"
            )
        if is_table(path):
            return self._scored(read_scores(path), path.name, ranking)
        return self._model(load(path), path.name, ranking)

    def _model(self, model: Model, name: str, ranking: Ranking) -> PolicyRanking:
        split = split_of_log(self.log, self.counts)
        if split.n_features != model.n_features:
            raise DataError(
                f"{name} takes {model.n_features} features, and the log's documents have "
                f"{split.n_features}: give the model that was fitted to such documents, or its scores"
            )
        everywhere = np.ones(self.counts.n_queries, np.bool_)
        scores = model.scores(split.features)
        return self._shown(name, ranking, np.arange(len(scores)), scores, split.offsets, everywhere)

    def _scored(self, scored: Scored, name: str, ranking: Ranking) -> PolicyRanking:
        """Documents that the log does not know stand where their scores put them."""
        items = self.places.items(scored.query_ids, scored.doc_ids)
        queries = self.places.queries(scored.query_ids)
        known = np.zeros(self.counts.n_queries, np.bool_)
        known[queries[queries >= 0]] = True
        rows = np.flatnonzero(queries >= 0)
        # Ties go by the documents' ids, and the log's items are in the order of theirs.
        names = pa.array(scored.doc_ids).take(pa.array(rows)).dictionary_encode()
        order_of = np.argsort(np.argsort(np.array(names.dictionary.to_pylist(), dtype=object)))
        rows = rows[np.lexsort((order_of[names.indices.to_numpy()], queries[rows]))] if len(rows) else rows
        sizes = np.bincount(queries[rows], minlength=self.counts.n_queries)
        # A query without scores has one document that is never shown, and is not known.
        places = np.repeat(np.arange(self.counts.n_queries), np.maximum(sizes, 1))
        starts = offsets_of(np.maximum(sizes, 1))
        scores, at = np.full(len(places), -np.inf), np.full(len(places), -1)
        filled = np.repeat(sizes > 0, np.maximum(sizes, 1))
        scores[filled], at[filled] = scored.scores[rows], items[rows]
        return self._shown(name, ranking, at, scores, starts, known)

    def _logged(self, policy: str) -> PolicyRanking:
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
        if not self.candidates:
            return displayed
        drawn = self._scored(read_candidates(self.log.files(CANDIDATES), policy), policy, "drawn")
        if not drawn.known.any():
            return displayed
        by_item = np.repeat(drawn.known, np.diff(counts.offsets))
        return PolicyRanking(
            policy,
            "drawn",
            np.where(by_item, drawn.weights, displayed.weights),
            drawn.elsewhere,
            np.where(drawn.known, drawn.always, displayed.always),
            drawn.known | displayed.known,
        )

    def _shown(
        self,
        name: str,
        ranking: Ranking,
        items: Int64,
        scores: Float64,
        offsets: Int64,
        known: NDArray[np.bool_],
    ) -> PolicyRanking:
        """From scores of documents (items of the log, or -1), cut into the log's queries."""
        vectors = self.worth.vectors
        earned = (
            sorted_rank_weights(scores, offsets, vectors)
            if ranking == "sorted"
            else expected_rank_weights(scores, offsets, vectors)
        )
        weights = np.zeros(self.counts.n_items)
        inside = items >= 0
        weights[items[inside]] = earned[inside, 0]
        outside = np.where(inside, 0.0, earned[:, 0])
        return PolicyRanking(
            name,
            ranking,
            weights,
            np.add.reduceat(outside, offsets[:-1]),
            np.add.reduceat(earned[:, 1], offsets[:-1]),
            known,
        )
