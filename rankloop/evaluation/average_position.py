"""The average position of relevant documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import ragged
from rankloop.evaluation.base import Gain, Metric, NoRelevant, gains
from rankloop.kernels.expected_ranks import add_documents_ahead
from rankloop.registry import register
from rankloop.types import Float64, Int64


@register
@dataclass(frozen=True)
class ARP(Metric):
    """Average relevance position: the mean rank, each document weighted by its gain. Lower is better.

    ``ARP(y) = Σ_d g(label_d) · rank(d | y) / Σ_d g(label_d)``

    The expected rank under a Plackett–Luce policy adds up the probability that each other document comes
    first: ``E[rank(d)] = 1 + Σ_{j≠d} exp(s_j) / (exp(s_j) + exp(s_d))``.

    This metric needs a rank for every document, so excluded documents (score −inf) follow all others, in
    document order. A query whose gains are all 0 has no average: its value is NaN and left out of means.

    Attributes:
        gain: ``linear``, g = label, or ``exponential``, g = 2^label − 1.
        no_relevant: ``skip``, the only choice.

    Example:
        >>> ARP().of_ranking(scores=[0.1, 0.3, 0.2], labels=[1, 3, 0], offsets=[0, 3])
        array([1.5])
        >>> ARP().of_policy(scores=[0, 0, 0], labels=[1, 3, 0], offsets=[0, 3])
        array([2.])

    Reference:
        Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017 (the
        sum; the mean here does not depend on how many documents are relevant).
    """

    name: ClassVar[str] = "arp"
    higher_is_better: ClassVar[bool] = False
    no_relevant_choices: ClassVar[tuple[NoRelevant, ...]] = ("skip",)
    gain: Gain = "linear"
    no_relevant: NoRelevant = "skip"

    def _relevant(self, labels: Float64) -> NDArray[np.bool_]:
        return gains(labels, self.gain) > 0.0

    def _ranking(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        return self._mean(ragged.ranks(scores, offsets).astype(np.float64), labels, offsets)

    def _policy(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        return self._mean(expected_ranks(scores, offsets), labels, offsets)

    def _mean(self, ranks: Float64, labels: Float64, offsets: Int64) -> Float64:
        gain = gains(labels, self.gain)
        total: Float64 = ragged.segment_sum(gain, offsets)
        weighted: Float64 = ragged.segment_sum(gain * ranks, offsets)
        return np.divide(weighted, total, out=np.zeros_like(total), where=total > 0.0)


def expected_ranks(scores: Float64, offsets: Int64) -> Float64:
    """Compute the expected rank of each document under a Plackett–Luce policy.

    ``E[rank(d)] = 1 + Σ_{j≠d} 1 / (1 + exp(s_d − s_j))``

    Excluded documents (score −inf) come last, in document order.

    Args:
        scores: float64, documents.
        offsets: int64, queries + 1.

    Example:
        >>> expected_ranks(np.array([0.0, np.log(3.0), -np.inf]), np.array([0, 3]))
        array([1.75, 1.25, 3.  ])
    """
    result = np.ones(len(scores))
    ragged.for_segments(add_documents_ahead, offsets, scores, result)
    return result
