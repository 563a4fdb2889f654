"""Pairwise Differentiable Gradient Descent: preferences from clicks, weighted against position bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.kernels.pdgd import run_pdgd
from rankloop.kernels.preference_pairs import (
    logistic,
    prefer,
    ranks_considered,
    swap_log_odds,
)
from rankloop.kernels.ranking_samples import log_remaining
from rankloop.online._checks import check_impression, check_query_scores
from rankloop.online.base import Method
from rankloop.registry import register
from rankloop.types import Float64


@register
@dataclass(frozen=True)
class PDGD(Method):
    """Each impression is one step along `pdgd_gradient`: ``parameters ← parameters + rate · ∂scores · ∇``.

    Attributes:
        rate: learning rate of gradient ascent; the default is that of the paper.

    Example:
        >>> str(PDGD()), str(PDGD(rate=0.1))
        ('pdgd', 'pdgd(rate=0.1)')
    """

    name: ClassVar[str] = "pdgd"
    debiased: ClassVar[bool] = True
    rate: float = 0.01

    def __post_init__(self) -> None:
        self._require(0.0 < self.rate < math.inf, "rate", "positive and finite")

    @property
    def run(self) -> Callable[..., int]:
        """The compiled loop."""
        return run_pdgd

    @property
    def options(self) -> Float64:
        """The rate, and whether preferences are weighted."""
        return np.array([self.rate, self.debiased])


@register
@dataclass(frozen=True)
class BiasedPDGD(PDGD):
    """PDGD without the weights that correct for position bias: steps along `biased_pdgd_gradient`."""

    name: ClassVar[str] = "biased-pdgd"
    debiased: ClassVar[bool] = False


def pdgd_gradient(
    scores: ArrayLike, ranking: ArrayLike, clicks: ArrayLike, *, logging_scores: ArrayLike | None = None
) -> Float64:
    """Compute the gradient by the scores for one impression.

        ∇ = Σ_{k clicked, l not} ρ_kl · ∂σ(s_k − s_l),   ρ_kl = π(y*) / (π(y) + π(y*))

    The sum runs over the ranks from the first to one past the last click, which users are assumed to have
    examined. y* is the ranking with the two documents swapped. If both documents are equally relevant, only
    their order makes one look better than the other. ρ gives both orders the same weight, so that on average
    neither document is preferred.

    Args:
        scores: s, documents of one query; scores of the learned policy.
        ranking: numbers of the shown documents, best first; -1 for empty ranks.
        clicks: whether the document at each rank was clicked.
        logging_scores: documents of one query; scores of the policy π that drew the ranking, if it is not the
            learned policy (counterfactual PDGD).

    Returns:
        documents; 0 for documents that were not considered, and for all documents if none or all were
        clicked.

    Example:
        Two documents with equal scores, of which the second is clicked: ρ = 1/2, and the slope is σ' = 1/4.

        >>> pdgd_gradient([0.0, 0.0, 0.0], ranking=[0, 1], clicks=[False, True])
        array([-0.125,  0.125,  0.   ])

    Reference:
        Oosterhuis and de Rijke, Differentiable unbiased online learning to rank, CIKM 2018; applied
        counterfactually: Ai, Yang, Wang and Mao, Unbiased learning to rank: online or offline?, 2020.
    """
    return _gradient(scores, ranking, clicks, logging_scores, debiased=True)


def biased_pdgd_gradient(scores: ArrayLike, ranking: ArrayLike, clicks: ArrayLike) -> Float64:
    """Compute `pdgd_gradient` without its weights, ρ = 1, to measure their effect.

    Example:
        >>> biased_pdgd_gradient([0.0, 0.0, 0.0], ranking=[0, 1], clicks=[False, True])
        array([-0.25,  0.25,  0.  ])
    """
    return _gradient(scores, ranking, clicks, None, debiased=False)


def swap_probabilities(scores: ArrayLike, ranking: ArrayLike) -> Float64:
    """Compute ``ρ_kl = π(y*) / (π(y) + π(y*))`` for y* with ranks k and l swapped: ranks × ranks, ½ if k = l.

    The result is stable for any scores: weights are added as logarithms and never subtracted.

    Example:
        Two documents with weights 3 and 1, the heavier one first: 3/4 · 1 against 1/4 · 1.

        >>> swap_probabilities(np.log([3.0, 1.0]), [0, 1]).round(6)
        array([[0.5 , 0.25],
               [0.25, 0.5 ]])
    """
    shown, _ = check_impression(ranking, np.zeros(np.shape(ranking)), np.size(scores))
    flat = check_query_scores(scores, shown, np.size(scores))
    length = len(shown)
    remaining = np.empty(length + 1)
    log_remaining(flat, shown, length, np.empty(len(flat), np.bool_), remaining)
    chances = np.full((length, length), 0.5)
    for j in range(length):
        for i in range(j):
            chances[i, j] = chances[j, i] = logistic(swap_log_odds(i, j, flat, shown, remaining))
    return chances


def _gradient(
    scores: ArrayLike,
    ranking: ArrayLike,
    clicks: ArrayLike,
    logging_scores: ArrayLike | None,
    *,
    debiased: bool,
) -> Float64:
    n_documents = np.size(scores)
    shown, clicked = check_impression(ranking, clicks, n_documents)
    learned = check_query_scores(scores, shown, n_documents)
    logging = learned if logging_scores is None else check_query_scores(logging_scores, shown, n_documents)
    length, gradient = len(shown), np.zeros(len(learned))
    remaining, slope = np.empty(length + 1), np.empty(length)
    log_remaining(logging, shown, length, np.empty(len(logging), np.bool_), remaining)
    considered = ranks_considered(clicked, length)
    prefer(learned[shown], logging, shown, clicked, considered, remaining, debiased, slope)
    gradient[shown[:considered]] = slope[:considered]
    return gradient
