"""Additive metrics: a sum over documents of a gain by label times a weight by rank.

    M(y) = Σ_d g(label_d) · θ_{rank(d | y)}

Their expectation under a policy is also a sum over documents, ``Σ_d g(label_d) · E[θ_rank(d)]``. It is exact
for Plackett–Luce policies, whose rank marginals are computed exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import ragged, rank_weights
from rankloop.errors import DataError
from rankloop.evaluation.base import Gain, Metric, NoRelevant, gains
from rankloop.policies.plackett_luce import expected_rank_weights
from rankloop.registry import register
from rankloop.types import Float64, Int64

# The paper's five grades, 0 to 4: a document is relevant with probability label / 4.
PAPER_MAX_LABEL = 4.0


class Additive(Metric):
    """A metric with gains and rank weights; normalised metrics are divided by the ideal value."""

    normalised: ClassVar[bool] = False
    cutoff: int | None

    def as_weights(self, labels: Float64, offsets: Int64) -> tuple[Float64, Float64]:
        """Express the metric as an objective ``M = Σ_d r_d · θ_rank(d)``: document weights r, rank weights θ.

        >>> NDCG(cutoff=2).as_weights(np.array([2.0, 0.0]), np.array([0, 2]))[0]
        array([1., 0.])
        """
        gain = self._gains(labels)
        if self.normalised:
            gain = self._divide(gain, np.repeat(self._ideal(gain, offsets), np.diff(offsets)))
        return gain, self._weights(self._depth(offsets))

    def rank_weights(self, ranks: int) -> Float64:
        """The weights of the first ranks, whatever the documents.

        >>> DCG().rank_weights(2).round(4)
        array([1.    , 0.6309])
        """
        return self._weights(ranks)

    @abstractmethod
    def _gains(self, labels: Float64) -> Float64:
        """Compute the gain of each document."""

    @abstractmethod
    def _weights(self, depth: int) -> Float64:
        """Compute the weight of ranks 1 to ``depth``."""

    def _relevant(self, labels: Float64) -> NDArray[np.bool_]:
        return self._gains(labels) > 0.0

    def _ranking(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        return self._sums(self._shown_weights(scores, offsets), labels, offsets)

    def _policy(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        weights = self._weights(self._depth(offsets))
        return self._sums(expected_rank_weights(scores, offsets, weights), labels, offsets)

    def _sums(self, weights: Float64, labels: Float64, offsets: Int64) -> Float64:
        gain = self._gains(labels)
        values: Float64 = ragged.segment_sum(gain * weights, offsets)
        return self._divide(values, self._ideal(gain, offsets)) if self.normalised else values

    def _ideal(self, gain: Float64, offsets: Int64) -> Float64:
        """Compute the value of the ideal ranking of each query."""
        ideal: Float64 = ragged.segment_sum(gain * self._shown_weights(gain, offsets), offsets)
        return ideal

    @staticmethod
    def _divide(values: Float64, ideal: Float64) -> Float64:
        # Without a relevant document both are 0. The value of such queries is replaced later, by
        # `no_relevant`.
        return np.divide(values, ideal, out=np.zeros_like(values), where=ideal > 0.0)

    def _shown_weights(self, scores: Float64, offsets: Int64) -> Float64:
        """Compute the rank weight of each document: 0 after the cut-off and for excluded documents."""
        weights = np.append(self._weights(self._depth(offsets)), 0.0)
        rows = np.minimum(ragged.ranks(scores, offsets) - 1, len(weights) - 1)
        return np.where(np.isneginf(scores), 0.0, weights[rows])

    def _depth(self, offsets: Int64) -> int:
        longest = int(np.diff(offsets).max())
        return longest if self.cutoff is None else min(self.cutoff, longest)


@register
@dataclass(frozen=True)
class DCG(Additive):
    """Discounted cumulative gain.

    ``DCG@K(y) = Σ_d g(label_d) · 1[rank(d) ≤ K] / log2(rank(d) + 1)``

    Attributes:
        cutoff: K, or None for all ranks.
        gain: ``linear``, g = label, or ``exponential``, g = 2^label − 1.
        no_relevant: value of a query without a positive gain: ``zero`` or ``skip`` (NaN).

    Example:
        >>> DCG(cutoff=2).of_ranking(scores=[0.1, 0.3, 0.2], labels=[4, 2, 0], offsets=[0, 3])
        array([2.])

    Reference:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """

    name: ClassVar[str] = "dcg"
    no_relevant_choices: ClassVar[tuple[NoRelevant, ...]] = ("zero", "skip")
    cutoff: int | None = None
    gain: Gain = "linear"
    no_relevant: NoRelevant = "zero"

    def _gains(self, labels: Float64) -> Float64:
        return gains(labels, self.gain)

    def _weights(self, depth: int) -> Float64:
        return rank_weights.dcg(depth)


@register
@dataclass(frozen=True)
class NDCG(DCG):
    """Normalised discounted cumulative gain: DCG divided by the DCG of the ideal ranking.

    ``NDCG@K(y) = DCG@K(y) / max_y' DCG@K(y')``

    Attributes:
        cutoff: K, or None for all ranks.
        gain: ``linear``, g = label, or ``exponential``, g = 2^label − 1.
        no_relevant: value of a query without a positive gain: ``zero``, ``one`` or ``skip`` (NaN).

    Example:
        >>> ndcg, query = NDCG(cutoff=2), dict(labels=[4, 2, 0], offsets=[0, 3])
        >>> np.isclose(ndcg.of_ranking([0.1, 0.3, 0.2], **query), 2 / (4 + 2 / np.log2(3)))
        array([ True])
        >>> ndcg.of_policy([0.1, 0.3, 0.2], **query).round(4)
        array([0.6051])

    Reference:
        Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """

    name: ClassVar[str] = "ndcg"
    normalised: ClassVar[bool] = True
    no_relevant_choices: ClassVar[tuple[NoRelevant, ...]] = ("zero", "one", "skip")


@register
@dataclass(frozen=True)
class Precision(Additive):
    """The share of relevant documents among the first K ranks; empty ranks count as irrelevant.

    ``P@K(y) = 1/K · Σ_d 1[label_d ≥ relevant_from] · 1[rank(d) ≤ K]``

    Attributes:
        cutoff: K.
        relevant_from: the lowest label that counts as relevant.
        no_relevant: value of a query without a relevant document: ``zero``, ``one`` or ``skip`` (NaN).

    Example:
        >>> Precision(cutoff=2).of_ranking(scores=[0.1, 0.3, 0.2], labels=[4, 2, 0], offsets=[0, 3])
        array([0.5])
    """

    name: ClassVar[str] = "precision"
    cutoff: int
    relevant_from: float = 1.0
    no_relevant: NoRelevant = "zero"

    def _gains(self, labels: Float64) -> Float64:
        return (labels >= self.relevant_from).astype(np.float64)

    def _weights(self, depth: int) -> Float64:
        # The divisor is the cut-off even if no query has that many documents.
        return rank_weights.precision(self.cutoff)[:depth]


@register
@dataclass(frozen=True)
class NRCTR(Additive):
    """Normalised RCTR: the paper's metric divided by that of the ideal ranking.

    ``NRCTR@K(y) = RCTR@K(y) / max_y' RCTR@K(y')``. The highest grade cancels out and is not a parameter.

    Attributes:
        cutoff: K, the number of ranks that users see.
        no_relevant: value of a query whose labels are all 0: ``zero``, ``one`` or ``skip`` (NaN).

    Example:
        >>> NRCTR(cutoff=5).of_ranking(scores=[0.1, 0.3, 0.2], labels=[0, 4, 2], offsets=[0, 3])
        array([1.])
    """

    name: ClassVar[str] = "nrctr"
    normalised: ClassVar[bool] = True
    cutoff: int
    no_relevant: NoRelevant = "zero"

    def _gains(self, labels: Float64) -> Float64:
        return labels

    def _weights(self, depth: int) -> Float64:
        return rank_weights.relevant_clicks(depth)


@register
@dataclass(frozen=True)
class RCTR(Additive):
    """Relevant click-through rate: the expected number of clicks on relevant documents.

    ``RCTR@K(y) = Σ_d R_d · (α_rank(d) + β_rank(d)) · 1[rank(d) ≤ K]``, with ``R_d = label_d / max_label``

    A document is relevant with probability R_d, and a relevant document at rank k is clicked with
    probability ``α_k + β_k`` by the paper's users.

    Attributes:
        cutoff: K, the number of ranks that users see.
        max_label: the grade of a document that is certainly relevant; 4 in the paper. Higher labels are
            rejected, because they would be probabilities above 1.
        no_relevant: value of a query whose labels are all 0: ``zero`` or ``skip`` (NaN).

    Example:
        >>> RCTR(cutoff=1).of_ranking(scores=[0.1, 0.3, 0.2], labels=[4, 2, 0], offsets=[0, 3])
        array([0.5])
    """

    name: ClassVar[str] = "rctr"
    no_relevant_choices: ClassVar[tuple[NoRelevant, ...]] = ("zero", "skip")
    cutoff: int
    max_label: float = PAPER_MAX_LABEL
    no_relevant: NoRelevant = "zero"

    def _gains(self, labels: Float64) -> Float64:
        if labels.max() > self.max_label:
            raise DataError(
                f"a label of {labels.max():g} is above the highest grade of {str(self)!r}, "
                f"{self.max_label:g}: set that of the data, {self.name}@{self.cutoff}(max_label=…)"
            )
        return labels / self.max_label

    def _weights(self, depth: int) -> Float64:
        return rank_weights.relevant_clicks(depth)
