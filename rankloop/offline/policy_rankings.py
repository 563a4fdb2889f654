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
from rankloop.logs import LogCounts, LogFolder
from rankloop.logs.schema import CANDIDATES
from rankloop.model_files import load
from rankloop.names import parse
from rankloop.offline.fit_result import Fit
from rankloop.offline.model_inputs import score_items
from rankloop.offline.tables import DocumentScores, ItemIndex, is_table, read_candidates, read_scores
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of, ranks
from rankloop.types import Bias, Float64, Int64, Model

Ranking = Literal["sorted", "drawn"]
RANKINGS = ("sorted", "drawn")
Policy = Fit | Model | str | os.PathLike[str]


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

    @property
    def vectors(self) -> Float64:
        """Gain and always, 2 × ranks."""
        return np.stack([self.gain, self.always])


@dataclass(frozen=True, eq=False)
class PolicyRanking:
    """How a policy ranks a log's queries, as far as a `Measure` needs it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` or ``drawn``, or ``as displayed`` if it is known only from displays.
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


def sorted_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """What each item's rank is worth if items are sorted by score; ties keep the order of the items.

    Args:
        scores: items; -inf for items that are never shown.
        offsets: queries + 1.
        weights: ranks; or several vectors at once, vectors × ranks. Ranks past the last one are worth 0.

    Example:
        >>> sorted_rank_weights(np.array([1.0, 3.0, 1.0]), np.array([0, 3]), np.array([1.0, 0.5]))
        array([0.5, 1. , 0. ])
    """
    at = ranks(scores, offsets)
    padded = np.concatenate([np.atleast_2d(weights), np.zeros((len(np.atleast_2d(weights)), 1))], axis=1)
    earned = padded[:, np.minimum(at, padded.shape[1]) - 1] * (scores > -np.inf)
    return earned[0] if weights.ndim == 1 else np.ascontiguousarray(earned.T)


class RankingResolver:
    """Determines how policies rank the queries of one log.

    Args:
        log: the log.
        counts: its counts, with as many ranks as the bias has.
        worth: the value of a ranking.
        candidates: whether the log's own policies draw their rankings from the scores of candidates.

    Attributes:
        notes: caveats about the policies that have been resolved, which every report must state.
        by_features: the names of those that rank by features; queries without features are not known for
            them, and the notes say how many there are.
    """

    def __init__(self, log: LogFolder, counts: LogCounts, worth: Measure, *, candidates: bool = True) -> None:
        self.log, self.counts, self.worth = log, counts, worth
        self.candidates = candidates and log.has(CANDIDATES)
        self.index = ItemIndex(counts)
        self.notes: list[str] = []
        self.by_features: set[str] = set()

    def resolve(self, policy: Policy, ranking: Ranking) -> PolicyRanking:
        """How a policy ranks; a string is the id of a policy of the log, or else the path of a file."""
        if ranking not in RANKINGS:
            raise RankloopError(f"rankings are {' or '.join(RANKINGS)}, not {ranking!r}")
        if isinstance(policy, Model):
            return self._rank_by_model(policy, policy.fingerprint, ranking)
        if isinstance(policy, Fit):
            return self._rank_by_model(policy, policy.name or policy.model.fingerprint, ranking)
        if isinstance(policy, str) and policy in self.counts.policy_ids:
            return self._rank_as_logged(policy)
        path = Path(policy)
        if not path.is_file():
            known = ", ".join(map(repr, self.counts.policy_ids))
            raise RankloopError(
                f"{str(policy)!r} is neither a policy of the log nor a stored policy: give the path of a "
                f"fit, of a model or of a table of scores, or one of the log's policies, which are {known}"
            )
        if is_table(path):
            return self._rank_by_scores(read_scores(path), path.name, ranking)
        return self._rank_by_model(load(path), path.name, ranking)

    def _rank_by_model(self, policy: Fit | Model, name: str, ranking: Ranking) -> PolicyRanking:
        """Documents without features come last; queries without any are not known."""
        scored = score_items(policy, name, self.log, self.counts)
        self.notes.extend(scored.notes)
        self.by_features.add(name)
        items = np.arange(len(scored.scores))
        return self._rank(name, ranking, items, scored.scores, self.counts.offsets, scored.known)

    def _rank_by_scores(self, scored: DocumentScores, name: str, ranking: Ranking) -> PolicyRanking:
        """Documents that are not in the log take the ranks that their scores give them."""
        items = self.index.items(scored.query_ids, scored.doc_ids)
        queries = self.index.queries(scored.query_ids)
        known = np.zeros(self.counts.n_queries, np.bool_)
        known[queries[queries >= 0]] = True
        rows = np.flatnonzero(queries >= 0)
        # Ties are ordered by document id, as the items of the log are.
        names = pa.array(scored.doc_ids).take(pa.array(rows)).dictionary_encode()
        order_of = np.argsort(np.argsort(np.array(names.dictionary.to_pylist(), dtype=object)))
        rows = rows[np.lexsort((order_of[names.indices.to_numpy()], queries[rows]))] if len(rows) else rows
        sizes = np.bincount(queries[rows], minlength=self.counts.n_queries)
        # A query without scores gets one document that is never shown, and counts as unknown.
        places = np.repeat(np.arange(self.counts.n_queries), np.maximum(sizes, 1))
        starts = offsets_of(np.maximum(sizes, 1))
        scores, at = np.full(len(places), -np.inf), np.full(len(places), -1)
        filled = np.repeat(sizes > 0, np.maximum(sizes, 1))
        scores[filled], at[filled] = scored.scores[rows], items[rows]
        return self._rank(name, ranking, at, scores, starts, known)

    def _rank_as_logged(self, policy: str) -> PolicyRanking:
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
        drawn = self._rank_by_scores(read_candidates(self.log.files(CANDIDATES), policy), policy, "drawn")
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

    def _rank(
        self,
        name: str,
        ranking: Ranking,
        items: Int64,
        scores: Float64,
        offsets: Int64,
        known: NDArray[np.bool_],
    ) -> PolicyRanking:
        """From scores of documents (items of the log, or -1), divided into the log's queries."""
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
