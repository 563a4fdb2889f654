"""Lines from predicted relevance: errors of the prediction cancel, exactly if clicks are expectations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.bias.anchor import Anchor, Lines, lines_at
from rankloop.bias.orthogonal_lines import solve_lines
from rankloop.bias.rank_counts import RankCounts
from rankloop.types import Float64
from tests.bias.counts_of import expected

LINES = Lines(np.array([0.4, 0.5, 0.45]), np.array([0.5, 0.2, 0.1]))
# Four kinds of documents; the better they are, the higher they are shown.
RELEVANCE = np.array([0.1, 0.3, 0.6, 0.9])
DISPLAYS = np.array([[10, 20, 70], [20, 30, 50], [50, 30, 20], [70, 20, 10]])
PLACEMENT = DISPLAYS / DISPLAYS.sum(axis=1, keepdims=True)


@pytest.fixture
def shown() -> RankCounts:
    """Expected clicks instead of random ones."""
    return expected(DISPLAYS, RELEVANCE, *LINES)


def step_from_the_truth(shown: RankCounts, relevance: Float64, placement: Float64) -> float:
    found = solve_lines(shown, relevance, placement, LINES).lines
    return float(max(np.abs(found.alpha - LINES.alpha).max(), np.abs(found.beta - LINES.beta).max()))


def test_errors_of_the_relevance_cancel(shown: RankCounts) -> None:
    """With true placements, the true lines solve the moments whatever the prediction is.

    A regression on the same prediction is off, because ranks show different documents.
    """
    wrong = np.array([0.3, 0.25, 0.7, 0.6])
    assert step_from_the_truth(shown, wrong, PLACEMENT) < 1e-10
    rates = (shown.clicks / shown.displays).reshape(4, 3)
    weights = np.sqrt(DISPLAYS)
    regressed = Lines(*np.array([np.polyfit(wrong, rates[:, k], 1, w=weights[:, k]) for k in range(3)]).T)
    anchor = Anchor(1, 3)
    off = lines_at(regressed, anchor).alpha - lines_at(LINES, anchor).alpha
    assert np.abs(off).max() > 0.01


def test_errors_of_the_placement_cancel_if_the_relevance_is_right(shown: RankCounts) -> None:
    wrong = np.full((4, 3), 1.0 / 3.0)
    assert step_from_the_truth(shown, RELEVANCE, wrong) < 1e-10
    assert step_from_the_truth(shown, np.array([0.3, 0.25, 0.7, 0.6]), wrong) > 1e-3


def test_repeated_steps_reach_the_truth(shown: RankCounts) -> None:
    """With relevance predicted anew from the latest lines, as the estimate does."""
    anchor, lines = Anchor(1, 3), Lines(np.array([0.3, 0.6, 0.5]), np.array([0.6, 0.1, 0.0]))
    displays, clicks = shown.displays.reshape(4, 3), shown.clicks.reshape(4, 3)
    for _ in range(30):
        relevance = ((clicks - displays * lines.beta) @ lines.alpha) / (displays @ lines.alpha**2)
        lines = lines_at(solve_lines(shown, relevance, PLACEMENT, lines).lines, anchor)
    truth = lines_at(LINES, anchor)
    np.testing.assert_allclose(lines.alpha, truth.alpha, atol=1e-6)
    np.testing.assert_allclose(lines.beta, truth.beta, atol=1e-6)


def test_the_position_based_model_keeps_beta_at_0() -> None:
    theta = Lines(np.array([1.0, 0.6, 0.3]), np.zeros(3))
    shown = expected(DISPLAYS, RELEVANCE, *theta)
    lines = Lines(np.array([1.0, 0.5, 0.4]), np.zeros(3))
    displays, clicks = shown.displays.reshape(4, 3), shown.clicks.reshape(4, 3)
    for _ in range(30):
        relevance = (clicks @ lines.alpha) / (displays @ lines.alpha**2)
        lines = solve_lines(shown, relevance, PLACEMENT, lines, position=True).lines
        assert not lines.beta.any()
    np.testing.assert_allclose(lines.alpha / lines.alpha[0], theta.alpha, atol=1e-6)


def test_influences_are_derivatives_by_the_weight_of_an_item(shown: RankCounts) -> None:
    found = solve_lines(shown, RELEVANCE, PLACEMENT, LINES)
    clicks = shown.clicks.copy()
    # Three more clicks on the second document at rank 1, so that its influence is not 0.
    clicks[3] += 3.0
    noisy = solve_lines(replace(shown, clicks=clicks), RELEVANCE, PLACEMENT, LINES)
    assert np.abs(found.influence).max() < 1e-10
    moved = np.concatenate([noisy.lines.alpha - LINES.alpha, noisy.lines.beta - LINES.beta])
    assert np.abs(moved).max() > 1e-3
    # The moments sum to 0 in the directions that are solved for, so influences do, too.
    np.testing.assert_allclose(noisy.influence.sum(axis=0), 0.0, atol=1e-10)
