"""The reciprocal rank of the first relevant document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import ragged, rank_weights
from rankloop.evaluation.base import Metric, NoRelevant
from rankloop.policies.plackett_luce import expected_rank_weights
from rankloop.registry import register
from rankloop.types import Float64, Int64


@register
@dataclass(frozen=True)
class MRR(Metric):
    """Reciprocal rank of the first relevant document; its mean over queries is the MRR.

    ``RR@K(y) = 1[k* ≤ K] / k*``, ``k* = min {rank(d) : label_d ≥ relevant_from}``

    A Plackett–Luce policy orders documents by independent exponential arrival times with rates ``exp(s_d)``.
    The first relevant arrival is the minimum of the relevant documents' times, which is itself exponential
    with the sum of their rates. The relevant documents of a query can therefore be merged into one with score
    ``log Σ_relevant exp(s_d)``. The metric is the expected reciprocal rank of the merged document.

    Attributes:
        cutoff: K, or None for all ranks.
        relevant_from: the lowest label that counts as relevant.
        no_relevant: value of a query without a relevant document: ``zero``, ``one`` or ``skip`` (NaN).

    Example:
        >>> MRR().of_ranking(scores=[0.1, 0.3, 0.2], labels=[1, 0, 3], offsets=[0, 3])
        array([0.5])
        >>> equal = MRR().of_policy(scores=[0, 0, 0], labels=[1, 0, 3], offsets=[0, 3])
        >>> np.allclose(equal, 2 / 3 * 1 + 1 / 3 * 1 / 2)
        True
    """

    name: ClassVar[str] = "mrr"
    cutoff: int | None = None
    relevant_from: float = 1.0
    no_relevant: NoRelevant = "zero"

    def _relevant(self, labels: Float64) -> NDArray[np.bool_]:
        return labels >= self.relevant_from

    def _ranking(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        rank = ragged.ranks(scores, offsets)
        counts = self._relevant(labels) & ~np.isneginf(scores)
        if self.cutoff is not None:
            counts &= rank <= self.cutoff
        return np.asarray(ragged.segment_max(counts / rank, offsets))

    def _policy(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        relevant = self._relevant(labels)
        query = ragged.segment_index(offsets)
        # The first relevant document of each query, in document order, represents all of them.
        row = np.where(relevant, np.arange(len(labels)), len(labels))
        representative = np.minimum.reduceat(row, offsets[:-1])[query] == np.arange(len(labels))
        kept = ~relevant | representative
        merged_scores = np.where(relevant, _log_sum_exp(scores, relevant, offsets)[query], scores)[kept]
        merged_offsets = ragged.offsets_of(ragged.segment_sum(kept.astype(np.int64), offsets))
        longest = int(np.diff(merged_offsets).max())
        depth = longest if self.cutoff is None else min(self.cutoff, longest)
        expected = expected_rank_weights(merged_scores, merged_offsets, rank_weights.reciprocal(depth))
        return np.asarray(ragged.segment_sum(np.where(relevant[kept], expected, 0.0), merged_offsets))


def _log_sum_exp(scores: Float64, where: NDArray[np.bool_], offsets: Int64) -> Float64:
    """Compute ``log Σ exp(score)`` over the marked documents of each query; −inf if none is marked."""
    marked = np.where(where, scores, -np.inf)
    largest: Float64 = ragged.segment_max(marked, offsets)
    # −inf minus −inf would be NaN; any finite shift gives log 0 = −inf instead.
    shift = np.where(np.isneginf(largest), 0.0, largest)
    total: Float64 = ragged.segment_sum(np.exp(marked - shift[ragged.segment_index(offsets)]), offsets)
    return np.log(total, out=np.full(len(total), -np.inf), where=total > 0.0) + shift
