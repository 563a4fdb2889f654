"""Vectors of rank weights: one weight per rank, from rank 1 to the cut-off.

Each of them can be passed as ``rank_weights``.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import RankloopError
from rankloop.types import Float64

# Examination and trust by rank as simulated by the paper's code; the paper prints α and β rounded.
EXAMINATION_SHARP, EXAMINATION_FLAT, EXAMINATION_DECAY = 0.35, 0.65, 0.05
TRUST_RELEVANT_DECAY = 0.005


def _ranks(cutoff: int) -> Float64:
    if cutoff < 1:
        raise RankloopError(f"the cut-off must be at least 1, got {cutoff}")
    return np.arange(1, cutoff + 1, dtype=np.float64)


def dcg(cutoff: int) -> Float64:
    """Discounted cumulative gain: ``1 / log2(rank + 1)``.

    >>> dcg(3).round(4)
    array([1.    , 0.6309, 0.5   ])
    """
    return 1.0 / np.log2(_ranks(cutoff) + 1.0)


def precision(cutoff: int) -> Float64:
    """Precision: every rank down to the cut-off has weight ``1 / cutoff``.

    >>> precision(2)
    array([0.5, 0.5])
    """
    return np.full(cutoff, 1.0 / len(_ranks(cutoff)))


def reciprocal(cutoff: int) -> Float64:
    """Reciprocal rank: ``1 / rank``.

    >>> reciprocal(2)
    array([1. , 0.5])
    """
    return 1.0 / _ranks(cutoff)


def examination(cutoff: int) -> Float64:
    """The paper's ``P(E | k) = 0.35 / k + 0.65 / (1 + 0.05 (k − 1))``.

    >>> examination(3).round(3)
    array([1.   , 0.794, 0.708])
    """
    k = _ranks(cutoff)
    return EXAMINATION_SHARP / k + EXAMINATION_FLAT / (1.0 + EXAMINATION_DECAY * (k - 1.0))


def relevant_clicks(cutoff: int) -> Float64:
    """The click probability of a relevant document: ``α_k + β_k = P(E | k) · ε⁺_k`` of the paper's users.

    With these weights, the expected metric is RCTR, the expected number of clicks on relevant documents.

    >>> relevant_clicks(3).round(3)
    array([1.   , 0.79 , 0.701])
    """
    return examination(cutoff) / (1.0 + TRUST_RELEVANT_DECAY * (_ranks(cutoff) - 1.0))
