"""Fits: exact without noise, regardless of which documents are shown where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rankloop.bias.anchor import Anchor, lines_at
from rankloop.bias.likelihood import Parameters
from rankloop.bias.newton import STRATA, BiasFit, Strata, fit
from rankloop.statistics import CellTable
from rankloop.types import Float64, Lines
from tests.bias.counts_of import expected, simulated

ALPHA, BETA = np.array([0.4, 0.5, 0.45]), np.array([0.5, 0.2, 0.1])


def anchored(at: Parameters) -> Lines:
    return lines_at(Lines(at.alpha, at.low), Anchor(1, len(at.low)))


def test_lines_are_exact_without_noise_regardless_of_placement() -> None:
    rng = np.random.default_rng(0)
    relevance = rng.uniform(0.0, 1.0, 400)
    displays = 1 + rng.poisson(3000 * np.outer(relevance, [4, 2, 1]))
    found = anchored(fit(expected(displays, relevance, ALPHA, BETA)).parameters)
    truth = lines_at(Lines(ALPHA, BETA), Anchor(1, 3))
    np.testing.assert_allclose(found.alpha, truth.alpha, atol=2e-3)
    np.testing.assert_allclose(found.beta, truth.beta, atol=2e-3)


def test_the_position_based_model_keeps_beta_at_0() -> None:
    rng = np.random.default_rng(1)
    relevance, theta = rng.uniform(0.0, 0.9, 400), np.array([1.0, 0.5, 0.3])
    displays = 1 + rng.poisson(2000 * np.outer(relevance, [4, 2, 1]))
    at = fit(expected(displays, relevance, theta, np.zeros(3)), position=True).parameters
    assert not at.low.any()
    np.testing.assert_allclose(at.high / at.high[0], theta, rtol=3e-3)


def _errors(follows: float, *, shared: bool, monkeypatch: pytest.MonkeyPatch) -> Float64:
    counts = simulated("paper@3", queries=1500, impressions=45_000, seed=7, follows=follows)
    with monkeypatch.context() as patch:
        if shared:
            patch.setattr("rankloop.bias.newton.DOCUMENTS_PER_STRATUM", 10**9)
            patch.setattr("rankloop.bias.newton.DOCUMENTS_PER_SMALL_STRATUM", 10**9)
        fitted = fit(CellTable.of(counts))
    assert (fitted.strata.number == 1) == shared
    from rankloop.clicks import bias_of, users

    bias = bias_of(users("paper@3"))
    truth = lines_at(Lines(bias.alpha, bias.beta), Anchor(1, 3))
    return anchored(fitted.parameters).alpha - truth.alpha


def test_a_good_policy_needs_strata(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few displays per document, a single prior takes differences between documents for those of ranks.

    The seed is fixed. Without strata, the error is about seven standard errors of the estimate.
    """
    alone = _errors(6.0, shared=True, monkeypatch=monkeypatch)
    strata = _errors(6.0, shared=False, monkeypatch=monkeypatch)
    assert np.abs(strata).max() < 0.5 * np.abs(alone).max()


@pytest.fixture(scope="module")
def three_ranks() -> BiasFit:
    return fit(CellTable.of(simulated("paper@3", queries=300, impressions=60_000, seed=2)))


def _missed(fitted: BiasFit, estimate: Callable[[Float64], Lines]) -> float:
    """The mean squared distance of an estimate from full refits of six resamples, relative to their own."""
    rng = np.random.default_rng(0)
    start = np.stack(anchored(fitted.parameters))
    distances = []
    for _ in range(6):
        weights = rng.multinomial(300, np.full(300, 1 / 300))[fitted.likelihood.shown.queries].astype(float)
        full = np.stack(anchored(fitted.refit(weights)))
        distances.append([np.stack(estimate(weights)) - full, full - start])
    missed, moved = np.square(np.array(distances)).mean(axis=(0, 2, 3))
    return float(missed / moved)


def test_a_nearby_refit_agrees_with_a_full_refit(three_ranks: BiasFit) -> None:
    # A fifth of the standard deviation between resamples.
    assert _missed(three_ranks, lambda weights: anchored(three_ranks.refit_nearby(weights))) < 1 / 5**2


def test_resamples_by_influence_agree_with_full_refits(three_ranks: BiasFit) -> None:
    influence = three_ranks.influence()

    def estimate(weights: Float64) -> Lines:
        free = three_ranks.parameters.free_after((weights - 1.0) @ influence)
        return lines_at(Lines(*free), Anchor(1, 3))

    # To first order only: a third of the standard deviation between resamples.
    assert _missed(three_ranks, estimate) < 1 / 3**2


def test_scores_of_documents_add_up_to_the_gradient(three_ranks: BiasFit) -> None:
    """With any document weights, once the part of the priors is taken off the gradient by the ends."""
    likelihood, at, rng = three_ranks.likelihood, three_ranks.parameters, np.random.default_rng(0)
    weights = rng.uniform(0.0, 2.0, likelihood.shown.n_documents)
    carried = rng.normal(size=(*at.prior.shape, 6))
    ends, components = likelihood.expect(at, weights).gradient(at)
    pseudo = likelihood.pseudo_documents - likelihood.pseudo_documents.sum() * at.prior
    expected = ends - np.einsum("sbe,sb->e", carried, components - pseudo)
    np.testing.assert_allclose(weights @ likelihood.scores(at, carried), expected, rtol=1e-8, atol=1e-6)


def test_strata_group_documents_shown_at_similar_ranks() -> None:
    shown = CellTable.of(simulated("paper@5", queries=2000, impressions=50_000, seed=4))
    strata = Strata.of(shown)
    number = strata.stratum(shown)
    assert strata.number == number.max() + 1 <= STRATA[0] * STRATA[1]
    sizes = np.bincount(number)
    assert sizes.min() > 0
    height = shown.by_document(shown.displays * (shown.positions - shown.position)) / shown.query_impressions
    means = np.bincount(number, weights=height) / sizes
    within = np.bincount(number, weights=(height - means[number]) ** 2).sum()
    assert within < 0.1 * np.square(height - height.mean()).sum()


def test_few_documents_share_one_stratum() -> None:
    shown = CellTable.of(simulated("paper@3", queries=20, impressions=2000, seed=4))
    assert Strata.of(shown).number == 1
