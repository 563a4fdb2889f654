"""What an impression says about two policies by the probabilities of its whole list, without any model.

The chance that a list was drawn is known, under each policy and under the mixture that was live. So a page
speaks for every policy that could have shown it, not only for the one that a coin chose: the evidence is that
of two arms, amount · (1[new] / share_new − 1[old] / share_old), with the label averaged out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from rankloop.types import Float64


def list_differences(
    amounts: Float64,
    log_new: Float64,
    log_old: Float64,
    log_live: Float64,
    *,
    guessed: Float64 | float = 0.0,
    expected: Float64 | float = 0.0,
    tolerated: float = 0.0,
) -> Float64:
    """What each impression says about the difference between two policies that are live.

        x_t = Σ_d m_d (λ_new(d) − λ_old(d)) + (π_new(y) − π_old(y)) / Σ_j s_j π_j(y) · (C − G),
        G = Σ_k (α_k m_k + β_k)

    y is the list that was shown, s_j the share of each policy of the mixture that drew it, and m_k the guess
    for the document at rank k. The mean is the value of the new policy minus that of the old one, whatever
    users do and whatever m, α and β are: they only lower the variance. Without them the evidence is what
    that of two arms expects, given the list, so it is never noisier; where both policies show the same lists
    it has no noise.

    Args:
        amounts: C, what users did on the page: clicks, or what they were worth.
        log_new: the logarithm of the probability of the list under the new policy.
        log_old: the same under the old policy.
        log_live: the same under the mixture that was live.
        guessed: G, the amount of the list that was guessed before the page.
        expected: Σ_d m_d (λ_new(d) − λ_old(d)), the guessed difference; 0 if the guess is the same for all
            lists of a page.
        tolerated: a share of the old policy's value that may be lost. With it, the mean is that of
            ``value(new) − (1 − tolerated) · value(old)``, if all lists of a page have the same guess.

    Example:
        A list that the new policy shows three times as often, when each had half of the traffic:

        >>> list_differences(np.array([2.0]), *np.log([[0.3], [0.1], [0.2]]))
        array([2.])
        >>> list_differences(np.array([2.0]), *np.log([[0.3], [0.1], [0.2]]), guessed=1.5)
        array([0.5])
    """
    kept = 1.0 - tolerated
    ratio: Float64 = np.exp(log_new - log_live) - kept * np.exp(log_old - log_live)
    return expected + tolerated * guessed + (amounts - guessed) * ratio


def prefix_differences(
    amounts: Float64,
    log_new: Float64,
    log_old: Float64,
    log_live: Float64,
    *,
    guessed: Float64 | float = 0.0,
    expected: Float64 | float = 0.0,
) -> Float64:
    """The same, if what users do at a rank does not depend on what is shown below it.

        x_t = Σ_d m_d (λ_new(d) − λ_old(d)) + Σ_k r_k · (c_k − α_k m_k − β_k),
        r_k = (π_new(y_1…k) − π_old(y_1…k)) / Σ_j s_j π_j(y_1…k)

    The probability of the first k documents is less extreme than that of the whole list, so this is less
    noisy. Users who stop after a click fit; users who look at the whole list first do not.

    Args:
        amounts: c, pages × ranks.
        log_new: pages × ranks; the logarithm of the probability of the first k documents.
        log_old: the same under the old policy.
        log_live: the same under the mixture that was live.
        guessed: α_k m_k + β_k, pages × ranks.
        expected: Σ_d m_d (λ_new(d) − λ_old(d)), pages.

    Example:
        >>> half = np.log([[0.5, 0.25]])
        >>> prefix_differences(np.array([[1.0, 0.0]]), half + np.log([[1.0, 2.0]]), half, half)
        array([0.])
    """
    by_rank = list_differences(amounts, log_new, log_old, log_live, guessed=guessed)
    result: Float64 = expected + by_rank.sum(axis=1)
    return result


def list_ranges(
    share_new: Float64 | float,
    share_old: Float64 | float,
    highest: Float64 | float,
    *,
    guessed: Float64 | float = 0.0,
    tolerated: float = 0.0,
    log_ratios: tuple[Float64 | float, Float64 | float] = (-np.inf, np.inf),
) -> tuple[Float64, Float64]:
    """The largest loss −x_t and the largest gain x_t that a page could have, known before the page.

    With ρ = π_new(y) / π_old(y), the weight of a list is at most ``(ρ − 1) / (s_new ρ + s_old)`` in size,
    which grows with ρ from −1 / s_old to 1 / s_new; what users do is between 0 and `highest`.

    Args:
        share_new: the share of the traffic that the new policy had.
        share_old: the share of the old policy.
        highest: the highest amount of a page.
        guessed: the amount that was guessed for the page, the same for all its lists.
        tolerated: the share of the old value that may be lost.
        log_ratios: the lowest and the highest log ρ of any list, as `log_ratio_range` gives them.

    Example:
        >>> [float(end) for end in list_ranges(0.1, 0.9, 9.0)]
        [10.0, 90.0]
        >>> [round(float(end), 2) for end in list_ranges(0.1, 0.9, 9.0, log_ratios=np.log([0.5, 2.0]))]
        [4.74, 8.18]
    """
    above, kept = np.maximum(np.subtract(highest, guessed), 0.0), 1.0 - tolerated

    def weight(log_ratio: Float64 | float) -> Float64:
        # ρ / (1 + ρ), so that it may be infinite.
        new = expit(np.asarray(log_ratio, np.float64))
        old = 1.0 - new
        result: Float64 = (new - kept * old) / (share_new * new + share_old * old)
        return result

    lowest, most = np.maximum(-weight(log_ratios[0]), 0.0), np.maximum(weight(log_ratios[1]), 0.0)
    losses: Float64 = np.asarray(np.maximum(above * lowest, guessed * most))
    gains: Float64 = np.asarray(np.maximum(above * most, guessed * lowest))
    return losses, np.asarray(gains + tolerated * guessed)


def log_ratio_range(new: Float64, old: Float64, ranks: int) -> tuple[float, float]:
    """Bounds of log(π_new(y) / π_old(y)) over all lists of so many ranks.

    Documents are drawn one by one. At each rank the ratio gains the difference of the scores of the document,
    and loses a mean of these differences over the documents that are left.

    Args:
        new: the scores of the documents under the new policy.
        old: their scores under the old policy.
        ranks: the length of the list.

    Example:
        >>> log_ratio_range(np.array([1.0, 0.0]), np.array([0.5, 0.0]), 1)
        (-0.5, 0.5)
    """
    differences = np.sort(new - old)
    if not len(differences):
        return 0.0, 0.0
    ranks = min(ranks, len(differences))
    lowest = float((differences[:ranks] - differences[-1]).sum())
    return lowest, float((differences[len(differences) - ranks :] - differences[0]).sum())
