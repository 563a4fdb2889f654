"""A trust region around the start: how much a policy may take away from any document, whatever users do.

If a policy keeps at least the share 1 − ε of the expected rank weight of every document of a query, its DCG
is at least 1 − ε times that of the start, for every relevance that is not negative: no model of users is
needed.

    Σ_d R(d) λ_new(d) ≥ (1 − ε_q) Σ_d R(d) λ_start(d),    ε_q = 1 − min_d λ_new(d) / λ_start(d)

NDCG divides both sides by the same number, so a policy loses at most the mean of ε_q · NDCG_q(start).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import RankloopError
from rankloop.policies import expected_rank_weights
from rankloop.ragged import segment_max, segment_sum
from rankloop.relevance.click_model import mean_relevance
from rankloop.statistics import Statistics
from rankloop.statistics.sequences import best_tuning, log_e_value
from rankloop.types import Bias, Float64, Int64
from rankloop.value.calibrated import centred
from rankloop.value.contribution import debias, unexplained

# The number of impressions and the level at which the test whether clicks agree is most sensitive.
EXPECTED_IMPRESSIONS, LEVEL = 1_000, 0.05


def worst_loss(new: Float64, start: Float64, offsets: Int64) -> Float64:
    """Compute ε_q: the largest share of its value that each query can lose, over all relevances.

    Args:
        new: documents; the expected rank weights of the new policy.
        start: documents; those of the start.
        offsets: queries + 1.

    Returns:
        float64, queries; from 0 to 1.

    Example:
        The first document falls from 0.8 to 0.6: if it is the only relevant one, a quarter is lost.

        >>> worst_loss(np.array([0.6, 0.4]), np.array([0.8, 0.2]), np.array([0, 2])).round(6)
        array([0.25])
    """
    lost = np.divide(start - new, start, out=np.zeros(len(start)), where=start > 0.0)
    result: Float64 = np.clip(segment_max(lost, offsets), 0.0, 1.0)
    return result


@dataclass(frozen=True)
class TrustRegion:
    """How far policies may go from the start: the wider, the more clicks agree that the start is good.

        ε = min(loosest, tightest · max(E, 1))

    E is an e-value: the evidence that documents which the start shows more are more relevant (`agreement`).
    Users whose clicks mean the opposite of relevance, and joins that mix up documents, say that they are not.
    If they are not, E ever exceeds c with probability at most 1/c, however often one looks (Ville), so a
    policy whose loss could exceed c · tightest of the value of the start is deployed with probability at most
    1/c.

    Attributes:
        tightest: ε without any evidence.
        loosest: the largest ε; 1 for no limit once clicks agree with the start.
    """

    tightest: float = 0.1
    loosest: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.tightest <= self.loosest <= 1.0:
            raise RankloopError(
                f"a trust region grows from its tightest to its loosest width, both from 0 to 1, got "
                f"{self.tightest} and {self.loosest}"
            )

    def width(self, log_e: float) -> float:
        """Return ε for the logarithm of an e-value.

        >>> TrustRegion(0.02).width(-3.0), round(TrustRegion(0.02).width(math.log(10.0)), 6)
        (0.02, 0.2)
        """
        if self.tightest == 0.0:
            return 0.0
        return float(min(self.loosest, math.exp(min(math.log(self.tightest) + max(log_e, 0.0), 0.0))))


def agreement_contrast(given: Float64, examined: Float64, offsets: Int64) -> Float64:
    """How much the relevance of each document says about whether relevance rises with what a policy gives.

        a_d (λ_d − λ̄_q),    λ̄_q = Σ_d a_d λ_d / Σ_d a_d

    It sums to 0 in every query: a relevance that is the same for all documents agrees with no policy.

    Args:
        given: λ, documents; the expected rank weights of the policy.
        examined: a, documents; their expected α under the policy.
        offsets: queries + 1.

    Example:
        >>> agreement_contrast(np.array([0.8, 0.2]), np.array([0.5, 0.5]), np.array([0, 2])).round(6)
        array([ 0.15, -0.15])
    """
    contrast: Float64 = examined * centred(given, examined, offsets)
    return contrast


def agreement(parts: Sequence[tuple[Statistics, Float64]], bias: Bias, rank_weights: Float64) -> float:
    """Compute the logarithm of the e-value that documents to which the start gives more are more relevant.

        Σ_q N_q Σ_d R(d) a_d (λ_d − λ̄_q) > 0,    λ̄_q = Σ_d a_d λ_d / Σ_d a_d

    λ and a are the expected rank weight and the expected α of a document under the start: relevance is to
    rise with λ where the start is looked at. The clicks of each logging policy, corrected by its own
    exposure, give an unbiased estimate, and these are weighted by their precision, which is known beforehand:
    what policies far from the start add is little, and never lessens what is known. All clicks count, also on
    training queries, since the start has not learned from them.

    Args:
        parts: all clicks so far, with the scores of the start; several parts for several sets of queries.
        bias: how users click.
        rank_weights: θ, what each rank is worth.
    """
    total = expected = observed = noise = 0.0
    for statistics, start in parts:
        offsets, guess = statistics.offsets, mean_relevance(statistics.totals_by_position(), bias)
        examined = np.maximum(expected_rank_weights(start, offsets, bias.alpha), 0.0)
        given = expected_rank_weights(start, offsets, rank_weights)
        contrast = agreement_contrast(given, examined, offsets)
        click = examined * guess + expected_rank_weights(start, offsets, bias.beta)
        # What an impression of each query under the start itself would add to the variance.
        noise += _sum_of_squares(contrast, examined, click)
        for policy in statistics.policies.values():
            counts, alpha = statistics.per_document(policy.impressions_by_query), policy.exposure.alpha
            click = alpha * guess + policy.exposure.beta
            # Documents that this policy never shows, but the contrast needs, would bias it.
            if (counts * (contrast != 0.0))[alpha <= 0.0].any():
                continue
            variance = _sum_of_squares(contrast, alpha, click, counts)
            if not 0.0 < variance < np.inf:
                continue
            surprise = unexplained(policy.clicks, counts * policy.exposure.beta, counts * alpha, guess)
            by_query = segment_sum(debias(contrast, alpha) * surprise, offsets)
            precision = policy.impressions / variance
            total += precision * float(by_query.sum())
            expected += precision**2 * variance
            observed += precision**2 * float((by_query**2).sum())
    # The larger of what clicks should vary and what they did vary.
    variance = max(expected, observed)
    if not (0.0 < variance < np.inf and noise > 0.0):
        return 0.0
    queries = sum(statistics.n_queries for statistics, _ in parts)
    return log_e_value(total, variance, best_tuning(EXPECTED_IMPRESSIONS * queries / noise, LEVEL))


def _sum_of_squares(
    contrast: Float64, alpha: Float64, click: Float64, counts: Float64 | Int64 | float = 1.0
) -> float:
    """``Σ_d N_q (contrast_d / α_d)² p_d (1 − p_d)``, with p the probability of a click in an impression."""
    chance = np.clip(click, 0.0, 1.0)
    return float((counts * debias(contrast, alpha) ** 2 * chance * (1.0 - chance)).sum())
