from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.online import biased_pdgd_gradient, pdgd_gradient, swap_probabilities
from tests.online import reference


def random_impression(rng, n, ranks):
    ranking = rng.permutation(n)[:ranks]
    return rng.normal(size=n) * 2, rng.normal(size=n) * 2, ranking, rng.random(len(ranking)) < 0.5


# Truncated and complete rankings, and more ranks than documents.
SHAPES = [(2, 2), (5, 3), (6, 6), (9, 4), (3, 5)]


@pytest.mark.parametrize(("n", "ranks"), SHAPES)
def test_swap_probabilities_equal_those_of_whole_rankings(n, ranks, rng):
    scores, _, ranking, _ = random_impression(rng, n, ranks)
    rho = swap_probabilities(scores, ranking)
    for k in range(len(ranking)):
        for m in range(len(ranking)):
            here = np.exp(reference.log_probability(scores, ranking))
            there = np.exp(reference.log_probability(scores, reference.swapped(ranking, k, m)))
            assert rho[k, m] == pytest.approx(there / (here + there), rel=1e-12)


@pytest.mark.parametrize(("n", "ranks"), SHAPES)
def test_gradients_equal_the_sums_over_pairs(n, ranks, rng):
    for _ in range(20):
        scores, logging, ranking, clicks = random_impression(rng, n, ranks)
        np.testing.assert_allclose(
            pdgd_gradient(scores, ranking, clicks),
            reference.pdgd_gradient(scores, ranking, clicks, scores),
            rtol=1e-11,
            atol=1e-13,
        )
        np.testing.assert_allclose(
            pdgd_gradient(scores, ranking, clicks, logging_scores=logging),
            reference.pdgd_gradient(scores, ranking, clicks, logging),
            rtol=1e-11,
            atol=1e-13,
        )
        np.testing.assert_allclose(
            biased_pdgd_gradient(scores, ranking, clicks),
            reference.pdgd_gradient(scores, ranking, clicks, scores, debiased=False),
            rtol=1e-11,
            atol=1e-13,
        )


@pytest.mark.parametrize("counterfactual", [False, True])
def test_the_gradient_is_that_of_the_weighted_preferences(counterfactual, rng):
    """Central differences of ``Σ ρ σ(s_k − s_l)``, with weights fixed to those of the logging policy."""
    scores, logging, ranking, _ = random_impression(rng, 7, 5)
    clicks = [False, True, True, False, False]
    if not counterfactual:
        logging = scores
    gradient, step = pdgd_gradient(scores, ranking, clicks, logging_scores=logging), 1e-5
    for d, shift in enumerate(step * np.eye(7)):
        rise = reference.pdgd_objective(scores + shift, ranking, clicks, logging)
        rise -= reference.pdgd_objective(scores - shift, ranking, clicks, logging)
        assert gradient[d] == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-10)


# With equal scores every pair weighs ρ σ' = 1/2 · 1/4, and the gradient counts pairs.
@pytest.mark.parametrize(
    ("clicks", "won_and_lost"),
    [
        ("10000", [1, -1, 0, 0, 0]),  # only one rank past the click was examined
        ("01000", [-1, 2, -1, 0, 0]),
        ("00001", [-1, -1, -1, -1, 4]),
        ("11000", [1, 1, -2, 0, 0]),
        ("10100", [2, -2, 2, -2, 0]),
        ("11110", [1, 1, 1, 1, -4]),
        ("11111", [0, 0, 0, 0, 0]),
        ("00000", [0, 0, 0, 0, 0]),
    ],
)
def test_which_pairs_count(clicks, won_and_lost):
    clicked = [click == "1" for click in clicks]
    gradient = pdgd_gradient(np.zeros(6), [3, 1, 0, 5, 2], clicked)
    np.testing.assert_allclose(gradient[[3, 1, 0, 5, 2]], np.array(won_and_lost) / 8, rtol=1e-13)
    assert gradient[4] == 0.0


def test_by_hand():
    """Weights 4, 2, 1, 1; ranking (0, 1) truncated at two; the second document was clicked.

    π(0, 1) = 4/8 · 2/4 = 1/4 and π(1, 0) = 2/8 · 4/6 = 1/6, so ρ = (1/6) / (1/4 + 1/6) = 2/5.
    σ' = 4/6 · 2/6 = 2/9.
    """
    gradient = pdgd_gradient(np.log([4.0, 2.0, 1.0, 1.0]), [0, 1], [False, True])
    np.testing.assert_allclose(gradient, [-2 / 5 * 2 / 9, 2 / 5 * 2 / 9, 0, 0], rtol=1e-13)
    biased = biased_pdgd_gradient(np.log([4.0, 2.0, 1.0, 1.0]), [0, 1], [False, True])
    np.testing.assert_allclose(biased, [-2 / 9, 2 / 9, 0, 0], rtol=1e-13)


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e6])
@pytest.mark.parametrize("spread", [1.0, 40.0, 1e4])
def test_arbitrary_scores(spread, shift, rng):
    """Weights from e^−10000 to e^10000 times each other; the reference adds them in logarithms too."""
    for _ in range(20):
        scores, logging, ranking, clicks = random_impression(rng, 8, 5)
        scores, logging = spread * scores, spread * logging
        rho = swap_probabilities(logging + shift, ranking)
        assert np.isfinite(rho).all()
        assert ((rho >= 0) & (rho <= 1)).all()
        gradient = pdgd_gradient(scores + shift, ranking, clicks, logging_scores=logging + shift)
        expected = reference.pdgd_gradient(scores, ranking, clicks, logging)
        # Scores of 1e6 have 1e-10 of room for differences; log-odds of 1e4 for relative errors of 1e-12.
        np.testing.assert_allclose(gradient, expected, rtol=1e-8 if shift else 1e-10, atol=1e-300)


def test_a_dominant_document_does_not_cause_cancellation():
    """Document 0 outweighs all others e^700-fold: what is left without it is a sum of the others.

    ρ of the ranks below it is that of the ranking without it.
    """
    scores = np.array([700.0, 1.0, -1.0, 0.5])
    rho = swap_probabilities(scores, [0, 1, 2])
    below = swap_probabilities(scores[1:], [0, 1])
    assert rho[1, 2] == pytest.approx(below[0, 1], rel=1e-12)
    assert 0.0 < rho[0, 1] < 1e-250


def test_short_rankings_and_documents_that_are_never_shown():
    clicks = [False, True]
    full = pdgd_gradient([0.3, -0.2], [1, 0], clicks)
    padded = pdgd_gradient([0.3, -0.2], [1, 0, -1, -1], [*clicks, False, False])
    np.testing.assert_array_equal(padded, full)
    hidden = pdgd_gradient([0.3, -np.inf, -0.2], [2, 0], clicks)
    np.testing.assert_array_equal(hidden[[0, 2]], full)
    assert hidden[1] == 0.0
    np.testing.assert_array_equal(pdgd_gradient([0.3], [0], [True]), [0.0])
    np.testing.assert_array_equal(pdgd_gradient([0.3, 0.1], [-1, -1], [False, False]), [0.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0], [0, 2], [True, False]), "no such document"),
        (([0.0, 1.0], [0, 0], [True, False]), "shown twice"),
        (([0.0, 1.0], [0, -1], [True, True]), "a click at an empty rank"),
        (([0.0, 1.0], [-1, 0], [False, True]), "below an empty rank"),
        (([0.0, 1.0], [0, 1], [True]), "clicks must have the shape of the rankings"),
        (([0.0, 1.0], [0.5, 1.0], [True, False]), "list of document numbers"),
        (([0.0, np.nan], [0, 1], [True, False]), "document 1: the score is nan"),
        (([0.0, -np.inf], [0, 1], [True, False]), "the score -inf, which is never shown"),
    ],
)
def test_invalid_impressions(arguments, message):
    with pytest.raises(DataError, match=message):
        pdgd_gradient(*arguments)


def test_logging_scores_of_other_documents():
    with pytest.raises(DataError, match="2 documents need 2 scores"):
        pdgd_gradient([0.0, 1.0], [0, 1], [True, False], logging_scores=[0.0, 1.0, 2.0])
