"""Intervention harvesting: exact without noise, and independent of which items are shown where."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import RankCounts, harvest
from tests.bias.counts_of import counts_of, expected

THETA = np.array([1.0, 0.6, 0.7, 0.3])


def test_two_ranks_by_hand() -> None:
    displays = [[100, 300], [400, 100], [50, 0]]
    clicks = [[60, 90], [100, 20], [50, 0]]
    # Effective displays: 100 · 300 / 400 and 400 · 100 / 500. The third item was shown at one rank only.
    first = 75 * 60 / 100 + 80 * 100 / 400
    second = 75 * 90 / 300 + 80 * 20 / 100
    found = harvest(RankCounts.of(counts_of(displays, clicks)))
    np.testing.assert_allclose(found, [1.0, second / first], rtol=1e-4)


def test_it_is_exact_without_noise_regardless_of_placement() -> None:
    rng = np.random.default_rng(0)
    relevance = rng.uniform(0.05, 0.95, 40)
    # Relevant items are shown mostly at the top.
    displays = 1 + rng.poisson(200 * np.outer(relevance, [4, 2, 1, 0.5]))
    shown = expected(displays, relevance, THETA, np.zeros(4))
    np.testing.assert_allclose(harvest(shown), THETA, rtol=1e-3)


def test_an_item_with_weight_2_counts_as_two_items() -> None:
    rng = np.random.default_rng(1)
    displays = rng.integers(50, 200, size=(5, 3))
    clicks = rng.binomial(displays, 0.3)
    twice = harvest(RankCounts.of(counts_of(displays[[0, 1, 2, 2, 4]], clicks[[0, 1, 2, 2, 4]])))
    weighted = harvest(RankCounts.of(counts_of(displays, clicks)), np.array([1.0, 1.0, 2.0, 0.0, 1.0]))
    np.testing.assert_allclose(weighted, twice, rtol=1e-5)


def test_ranks_are_compared_through_other_ranks() -> None:
    relevance = np.array([0.5, 0.8])
    displays = np.array([[500, 500, 0], [0, 500, 500]])
    shown = RankCounts.of(counts_of(displays, (displays * np.outer(relevance, [0.9, 0.6, 0.2])).round()))
    np.testing.assert_allclose(harvest(shown), [1.0, 2 / 3, 2 / 9], rtol=2e-3)


def test_it_is_biased_under_trust_bias() -> None:
    """A counterexample: with β > 0, θ is the ratio of click rates, not of slopes."""
    rng = np.random.default_rng(2)
    relevance = rng.uniform(0.0, 1.0, 50)
    alpha, beta = np.array([0.35, 0.53]), np.array([0.65, 0.26])
    found = harvest(expected(np.full((50, 2), 1000), relevance, alpha, beta))
    mean = relevance.mean()
    assert found[1] == pytest.approx((0.53 * mean + 0.26) / (0.35 * mean + 0.65), rel=1e-3)
    assert found[1] < 1 < alpha[1] / alpha[0]
