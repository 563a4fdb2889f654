"""Estimates from features, and the moments that they solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.feature_recovery import Setting, simulate
from rankloop.bias import BiasEstimate, BiasOptions, anchored, estimate_bias
from rankloop.bias.anchor import Anchor, lines_at
from rankloop.bias.feature_regression import check_confounding, estimate_from_features, solve_lines
from rankloop.clicks import bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.reports.bias import bias_document
from rankloop.reports.markdown import markdown_page
from rankloop.statistics import CellTable, Counts
from rankloop.types import Float32, Float64, Lines
from tests.bias.counts_of import expected

ONCE = Setting("paper@3", queries=1_500)


@pytest.fixture(scope="module")
def log() -> tuple[Counts, Float32]:
    return simulate(ONCE, np.random.default_rng(0))


@pytest.fixture(scope="module")
def estimate(log: tuple[Counts, Float32]) -> BiasEstimate:
    counts, features = log
    return estimate_bias(counts, rng=np.random.default_rng(0), features=lambda: features)


def test_features_are_used_if_nothing_moved(estimate: BiasEstimate) -> None:
    assert estimate.method == "features"
    assert estimate.is_estimated
    assert estimate.notes[0].startswith("Not estimated from pairs or documents: too little movement")
    assert "no sign was found" in estimate.notes[1]
    assert estimate.bias.evidence is not None
    assert estimate.bias.evidence.resamples is not None
    assert estimate.bias.evidence.resamples.shape == (200, 3, 3)


def test_the_truth_is_within_four_standard_errors(estimate: BiasEstimate) -> None:
    """Four free values: by chance alone, one seed in 4,000 would fail."""
    truth = anchored(bias_of(users(ONCE.users)), high=estimate.anchor.high, low=estimate.anchor.low)
    assert estimate.resampled is not None
    for found, real, drawn in zip(
        (estimate.bias.alpha, estimate.bias.beta), (truth.alpha, truth.beta), estimate.resampled, strict=True
    ):
        errors = drawn.std(axis=0)
        assert (errors < 0.2).all()
        assert (np.abs(found - real) <= 4.0 * errors + 1e-9).all()


def test_resamples_are_those_of_the_queries(estimate: BiasEstimate, log: tuple[Counts, Float32]) -> None:
    """What evaluation needs to resample the bias and the clicks together."""
    assert estimate.resample_seed is not None
    assert estimate.log == log[0].fingerprint


def test_features_that_tell_the_rank_are_refused() -> None:
    counts, _ = simulate(Setting("position@3", queries=1_500), np.random.default_rng(0))
    everything = CellTable.of(counts)
    shown = everything.select(np.flatnonzero(np.diff(everything.starts) == 1))
    rank = np.zeros((counts.n_documents, 1), np.float32)
    rank[shown.documents, 0] = shown.position
    with pytest.raises(DataError, match="almost entirely"):
        estimate_from_features(shown, rank, BiasOptions(), np.random.default_rng(0))


def test_features_that_tell_nothing_are_refused(log: tuple[Counts, Float32]) -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((log[0].n_documents, 3)).astype(np.float32)
    with pytest.raises(DataError, match="features"):
        estimate_from_features(CellTable.of(log[0]), noise, BiasOptions(), rng)


def test_logs_without_features_say_so(log: tuple[Counts, Float32]) -> None:
    with pytest.raises(DataError, match=r"Not estimated from features: the log has no features.*--features"):
        estimate_bias(log[0], rng=np.random.default_rng(0))


def test_too_few_queries_and_other_models_are_refused() -> None:
    rng = np.random.default_rng(0)
    counts, features = simulate(Setting("paper@3", queries=100), rng)
    with pytest.raises(DataError, match=r"^\d+ queries have documents with features, and 500 are needed"):
        estimate_from_features(CellTable.of(counts), features, BiasOptions(), rng)
    with pytest.raises(RankloopError, match="harvesting compares the same document"):
        estimate_from_features(CellTable.of(counts), features, BiasOptions(model="harvesting"), rng)


@pytest.mark.parametrize(("hidden", "confounded"), [(0.0, False), (0.8, True)])
def test_a_ranker_that_knows_more_than_the_features_is_found(hidden: float, confounded: bool) -> None:
    """With the true mean relevance of five kinds of documents, and their true placements.

    Without hidden knowledge, the statistic is standard normal: one seed in 700 would fail.
    """
    rng = np.random.default_rng(3)
    queries, documents = 6_000, 5
    kind = rng.integers(0, 5, (queries, documents))
    unseen = rng.standard_normal(kind.shape)
    relevance = 1.0 / (1.0 + np.exp(-(kind - 2.0 + unseen)))
    order = np.argsort(-(kind + hidden * unseen + rng.gumbel(size=kind.shape)), axis=1)
    rank = np.argsort(order, axis=1)
    lines = Lines(np.array([0.4, 0.5, 0.5, 0.4, 0.4]), np.array([0.5, 0.3, 0.2, 0.1, 0.1]))
    clicks = rng.random(kind.shape) < lines.alpha[rank] * relevance + lines.beta[rank]
    pairs = np.arange(kind.size)
    shown = CellTable(
        pairs,
        pairs // documents,
        np.ones(kind.size),
        np.arange(kind.size + 1),
        rank.ravel(),
        np.ones(kind.size),
        clicks.ravel().astype(np.float64),
        documents,
        queries,
    )
    mean = np.array([relevance[kind == number].mean() for number in range(5)])[kind.ravel()]
    places = np.zeros((5, 5))
    np.add.at(places, (kind.ravel(), rank.ravel()), 1.0)
    placement = (places / places.sum(axis=1, keepdims=True))[kind.ravel()]
    found = check_confounding(shown, mean, placement, lines)
    assert found.confounded == confounded, found


def test_the_report_names_the_method_and_what_it_assumes(estimate: BiasEstimate) -> None:
    shown = markdown_page(bias_document(estimate))
    assert "Estimated with relevance that is predicted from features" in shown
    assert "equally relevant on average at every rank" in shown


LINES = Lines(np.array([0.4, 0.5, 0.45]), np.array([0.5, 0.2, 0.1]))
# Four kinds of documents; the better they are, the higher they are shown.
RELEVANCE = np.array([0.1, 0.3, 0.6, 0.9])
DISPLAYS = np.array([[10, 20, 70], [20, 30, 50], [50, 30, 20], [70, 20, 10]])
PLACEMENT = DISPLAYS / DISPLAYS.sum(axis=1, keepdims=True)


@pytest.fixture
def shown() -> CellTable:
    """Expected clicks instead of random ones."""
    return expected(DISPLAYS, RELEVANCE, *LINES)


def step_from_the_truth(shown: CellTable, relevance: Float64, placement: Float64) -> float:
    found = solve_lines(shown, relevance, placement, LINES).lines
    return float(max(np.abs(found.alpha - LINES.alpha).max(), np.abs(found.beta - LINES.beta).max()))


def test_errors_of_the_relevance_cancel(shown: CellTable) -> None:
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


def test_errors_of_the_placement_cancel_if_the_relevance_is_right(shown: CellTable) -> None:
    wrong = np.full((4, 3), 1.0 / 3.0)
    assert step_from_the_truth(shown, RELEVANCE, wrong) < 1e-10
    assert step_from_the_truth(shown, np.array([0.3, 0.25, 0.7, 0.6]), wrong) > 1e-3


def test_repeated_steps_reach_the_truth(shown: CellTable) -> None:
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


def test_influences_are_derivatives_by_the_weight_of_a_document(shown: CellTable) -> None:
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
