"""Fits: exact without noise, regardless of which items are shown where."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import RankCounts
from rankloop.bias.anchor import Anchor, Lines, lines_at
from rankloop.bias.likelihood import Parameters
from rankloop.bias.newton import fit
from rankloop.bias.relevance_prior import STRATA, Strata
from rankloop.types import Float64
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
            patch.setattr("rankloop.bias.relevance_prior.ITEMS_PER_STRATUM", 10**9)
        fitted = fit(RankCounts.of(counts))
    assert (fitted.strata.number == 1) == shared
    from rankloop.clicks import bias_of, users

    bias = bias_of(users("paper@3"))
    truth = lines_at(Lines(bias.alpha, bias.beta), Anchor(1, 3))
    return anchored(fitted.parameters).alpha - truth.alpha


def test_a_good_policy_needs_strata(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few displays per item, a single prior mistakes differences between items for those between ranks.

    The seed is fixed. Without strata, the error is about seven standard errors of the estimate.
    """
    alone = _errors(6.0, shared=True, monkeypatch=monkeypatch)
    strata = _errors(6.0, shared=False, monkeypatch=monkeypatch)
    assert np.abs(strata).max() < 0.5 * np.abs(alone).max()


def test_a_nearby_refit_agrees_with_a_full_refit() -> None:
    shown = RankCounts.of(simulated("paper@3", queries=300, impressions=60_000, seed=2))
    fitted = fit(shown)
    rng = np.random.default_rng(0)
    start = np.stack(anchored(fitted.parameters))
    quick, long = [], []
    for _ in range(6):
        weights = rng.multinomial(300, np.full(300, 1 / 300))[shown.queries].astype(np.float64)
        quick.append(np.stack(anchored(fitted.refit_nearby(weights))) - start)
        long.append(np.stack(anchored(fitted.refit(weights))) - start)
    missed = np.square(np.array(quick) - np.array(long)).mean()
    # A fifth of the standard deviation between resamples.
    assert missed < np.square(np.array(long)).mean() / 5**2


def test_strata_group_items_shown_at_similar_ranks() -> None:
    shown = RankCounts.of(simulated("paper@5", queries=2000, impressions=50_000, seed=4))
    strata = Strata.of(shown)
    number = strata.stratum(shown)
    assert strata.number == number.max() + 1 <= STRATA[0] * STRATA[1]
    sizes = np.bincount(number)
    assert sizes.min() > 0
    height = shown.by_item(shown.displays * (shown.ranks - shown.rank)) / shown.query_impressions
    means = np.bincount(number, weights=height) / sizes
    within = np.bincount(number, weights=(height - means[number]) ** 2).sum()
    assert within < 0.1 * np.square(height - height.mean()).sum()


def test_few_items_share_one_stratum() -> None:
    shown = RankCounts.of(simulated("paper@3", queries=20, impressions=2000, seed=4))
    assert Strata.of(shown).number == 1
