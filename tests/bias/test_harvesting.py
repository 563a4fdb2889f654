"""Intervention harvesting: exact without noise, and independent of which documents are shown where."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import harvest
from rankloop.bias.anchor import as_bias
from rankloop.bias.examination import check_by_harvest, expected_clicks
from rankloop.statistics import CellTable
from rankloop.types import Lines
from tests.bias.counts_of import counts_of, expected

THETA = np.array([1.0, 0.6, 0.7, 0.3])


def test_two_ranks_by_hand() -> None:
    displays = [[100, 300], [400, 100], [50, 0]]
    clicks = [[60, 90], [100, 20], [50, 0]]
    # Effective displays: 100 · 300 / 400 and 400 · 100 / 500. The third document was shown at one rank only.
    first = 75 * 60 / 100 + 80 * 100 / 400
    second = 75 * 90 / 300 + 80 * 20 / 100
    found = harvest(CellTable.of(counts_of(displays, clicks)))
    np.testing.assert_allclose(found, [1.0, second / first], rtol=1e-4)


def test_it_is_exact_without_noise_regardless_of_placement() -> None:
    rng = np.random.default_rng(0)
    relevance = rng.uniform(0.05, 0.95, 40)
    # Relevant documents are shown mostly at the top.
    displays = 1 + rng.poisson(200 * np.outer(relevance, [4, 2, 1, 0.5]))
    shown = expected(displays, relevance, THETA, np.zeros(4))
    np.testing.assert_allclose(harvest(shown), THETA, rtol=1e-3)


def test_a_document_with_weight_2_counts_as_two_documents() -> None:
    rng = np.random.default_rng(1)
    displays = rng.integers(50, 200, size=(5, 3))
    clicks = rng.binomial(displays, 0.3)
    twice = harvest(CellTable.of(counts_of(displays[[0, 1, 2, 2, 4]], clicks[[0, 1, 2, 2, 4]])))
    weighted = harvest(CellTable.of(counts_of(displays, clicks)), np.array([1.0, 1.0, 2.0, 0.0, 1.0]))
    np.testing.assert_allclose(weighted, twice, rtol=1e-5)


def test_ranks_are_compared_through_other_ranks() -> None:
    relevance = np.array([0.5, 0.8])
    displays = np.array([[500, 500, 0], [0, 500, 500]])
    shown = CellTable.of(counts_of(displays, (displays * np.outer(relevance, [0.9, 0.6, 0.2])).round()))
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


def test_what_alpha_and_beta_expect_agrees_with_harvesting_if_they_are_right() -> None:
    """Without noise, also where relevant documents are shown at the top, and users trust the top."""
    rng = np.random.default_rng(3)
    relevance = rng.uniform(0.05, 0.95, 40)
    displays = 1.0 + rng.poisson(200 * np.outer(relevance, [4, 2, 1]))
    lines = np.array([0.35, 0.53, 0.5]), np.array([0.65, 0.26, 0.1])
    shown = expected(displays, relevance, *lines)
    np.testing.assert_allclose(expected_clicks(shown, as_bias(Lines(*lines))), shown.clicks)
    check = check_by_harvest(as_bias(Lines(*lines)), shown, seed=0)
    np.testing.assert_allclose(check.harvested, check.expected)
    assert check.notes == ()
    # Other lines contradict the log, whatever the scale of relevance.
    other = check_by_harvest(as_bias(Lines(lines[0], np.array([0.65, 0.1, 0.1]))), shown, seed=0)
    assert other.notes[0].startswith(
        "Do not rely on this estimate: on the same documents, rank 2 is clicked "
    )
    assert check_by_harvest(as_bias(Lines(lines[0], lines[1][::-1].copy() / 2)), shown, seed=None).notes == ()


def test_a_resample_without_clicks_has_finite_numbers() -> None:
    """One query has all clicks, so that every third resample of the queries has none."""
    displays = np.full((25, 2), 400)
    clicks = np.zeros_like(displays)
    clicks[0] = 300, 150
    shown = CellTable.of(counts_of(displays, clicks, sizes=[1] * 25))
    assert harvest(shown, (np.arange(25) > 0).astype(float)).tolist() == [1.0, 1.0]
    check = check_by_harvest(as_bias(Lines(np.array([1.0, 0.5]), np.zeros(2))), shown, seed=0)
    assert check.error is not None
    assert np.isfinite(check.error).all()
    assert check.notes == ()
