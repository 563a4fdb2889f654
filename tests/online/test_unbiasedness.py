"""The mean preference of PDGD: all rankings and click patterns of four documents, with their probabilities.

The expected gradient is a sum over pairs, ``Σ_{i<j} m_ij · ∂σ(s_i − s_j)``. Theorem of the PDGD paper: m_ij
has the sign of ``R_i − R_j``. m_ij is read off the gradient itself: the learned scores are set so far apart
that the slope σ' vanishes for every pair but one, where it is 1/4; the policy that logs is another.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from rankloop.clicks import bias_of, users
from rankloop.online import biased_pdgd_gradient, pdgd_gradient
from tests.enumeration import all_rankings

# Two documents that are equally relevant, of which the policy prefers one; it ranks the best document lowest.
RELEVANCE = np.array([0.5, 0.0, 1.0, 0.5])
LOGGING = np.array([1.2, 0.3, -0.9, -0.2])
PAIRS = list(combinations(range(4), 2))

FAIR = users("affine(alpha=0.8:0.8:0.8:0.8, beta=0.1:0.1:0.1:0.1)")
POSITION = users("affine(alpha=0.8:0.4:0.27:0.2, beta=0.1:0.05:0.03:0.02)")
TRUST = users("paper@4")


def expected(gradient, who, ranks):
    """``E[gradient(ranking, clicks)]`` under the logging policy and these users."""
    bias = bias_of(who)
    total = 0.0
    for ranking, log_chance in zip(*all_rankings(LOGGING), strict=True):
        shown = ranking[:ranks]
        click = bias.alpha[:ranks] * RELEVANCE[shown] + bias.beta[:ranks]
        for pattern in product([False, True], repeat=ranks):
            chance = np.exp(log_chance) * np.prod(np.where(pattern, click, 1.0 - click))
            total = total + chance * gradient(shown, pattern)
    return total


def alone(i, j):
    """Scores at which only documents i and j have a gradient."""
    scores = 1000.0 * np.arange(1, 5)
    scores[[i, j]] = 0.0
    return scores


def preferences(who, ranks, *, debiased=True):
    """m_ij for every pair."""
    result = {}
    for i, j in PAIRS:
        if debiased:
            # The learned policy differs from the logging policy: the theorem also holds counterfactually.
            mean = expected(lambda y, c: pdgd_gradient(alone(i, j), y, c, logging_scores=LOGGING), who, ranks)  # noqa: B023
        else:
            mean = expected(lambda y, c: biased_pdgd_gradient(alone(i, j), y, c), who, ranks)  # noqa: B023
        assert mean[i] == pytest.approx(-mean[j], abs=1e-13)
        result[i, j] = 4.0 * mean[i]
    return result


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("who", [FAIR, POSITION, TRUST], ids=["fair", "position", "trust"])
def test_on_average_the_more_relevant_document_is_preferred_and_equal_documents_tie(who, ranks):
    for (i, j), preference in preferences(who, ranks).items():
        if RELEVANCE[i] == RELEVANCE[j]:
            assert preference == pytest.approx(0.0, abs=1e-13)
        else:
            assert preference * (RELEVANCE[i] - RELEVANCE[j]) > 1e-4


@pytest.mark.parametrize("who", [FAIR, POSITION, TRUST], ids=["fair", "position", "trust"])
def test_without_weights_equal_documents_do_not_tie(who):
    """Documents 0 and 3 are equally relevant. The policy shows 0 higher: it is skipped more often there."""
    assert abs(preferences(who, 4, debiased=False)[0, 3]) > 0.01


def test_the_expected_gradient_is_the_sum_over_pairs():
    """The pairwise means m_ij are meaningful: for any scores, the pairs sum to the gradient."""
    scores = np.array([0.3, -0.4, 0.1, 0.9])
    total = np.zeros(4)
    for (i, j), preference in preferences(TRUST, 3).items():
        chance = 1.0 / (1.0 + np.exp(scores[j] - scores[i]))
        total[i] += preference * chance * (1.0 - chance)
        total[j] -= preference * chance * (1.0 - chance)
    mean = expected(lambda y, c: pdgd_gradient(scores, y, c, logging_scores=LOGGING), TRUST, 3)
    np.testing.assert_allclose(mean, total, rtol=1e-12, atol=1e-13)


def test_position_bias_changes_how_much_pairs_count():
    """Signs are right, sizes are not: PDGD is not an unbiased estimate of the gradient without position bias.

    Were position bias a factor on the whole gradient, all ratios would be the same.
    """
    fair, position, trust = (
        np.array([m for m in preferences(who, 4).values() if abs(m) > 1e-10])
        for who in (FAIR, POSITION, TRUST)
    )
    assert len(fair) == 5
    ratios = position / fair
    assert ratios.max() / ratios.min() == pytest.approx(1.87, abs=0.01)
    ratios = trust / fair
    assert ratios.max() / ratios.min() == pytest.approx(1.12, abs=0.01)
