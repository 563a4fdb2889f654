"""Bias from features: recovery where every query comes once, and refusals where it would be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.feature_recovery import Setting, simulate
from rankloop.bias import BiasEstimate, BiasOptions, RankCounts, anchored, estimate_bias
from rankloop.bias.anchor import Lines
from rankloop.bias.confounding import check_confounding
from rankloop.bias.feature_regression import estimate_from_features
from rankloop.clicks import bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogCounts
from rankloop.reports.bias import bias_document
from rankloop.reports.markdown import markdown_page
from rankloop.types import Float32

ONCE = Setting("paper@3", queries=1_500)


@pytest.fixture(scope="module")
def log() -> tuple[LogCounts, Float32]:
    return simulate(ONCE, np.random.default_rng(0))


@pytest.fixture(scope="module")
def estimate(log: tuple[LogCounts, Float32]) -> BiasEstimate:
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


def test_resamples_are_those_of_the_queries(estimate: BiasEstimate, log: tuple[LogCounts, Float32]) -> None:
    """What evaluation needs to resample the bias and the clicks together."""
    assert estimate.resample_seed is not None
    assert estimate.log == log[0].fingerprint


def test_features_that_tell_the_rank_are_refused() -> None:
    counts, _ = simulate(Setting("position@3", queries=1_500), np.random.default_rng(0))
    everything = RankCounts.of(counts)
    shown = everything.select(np.flatnonzero(np.diff(everything.starts) == 1))
    rank = np.zeros((counts.n_items, 1), np.float32)
    rank[shown.items, 0] = shown.rank
    with pytest.raises(DataError, match="almost entirely"):
        estimate_from_features(shown, rank, BiasOptions(), np.random.default_rng(0))


def test_features_that_tell_nothing_are_refused(log: tuple[LogCounts, Float32]) -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((log[0].n_items, 3)).astype(np.float32)
    with pytest.raises(DataError, match="features"):
        estimate_from_features(RankCounts.of(log[0]), noise, BiasOptions(), rng)


def test_logs_without_features_say_so(log: tuple[LogCounts, Float32]) -> None:
    with pytest.raises(DataError, match=r"Not estimated from features: the log has no features.*--features"):
        estimate_bias(log[0], rng=np.random.default_rng(0))


def test_too_few_queries_and_other_models_are_refused() -> None:
    rng = np.random.default_rng(0)
    counts, features = simulate(Setting("paper@3", queries=100), rng)
    with pytest.raises(DataError, match=r"^\d+ queries have documents with features, and 500 are needed"):
        estimate_from_features(RankCounts.of(counts), features, BiasOptions(), rng)
    with pytest.raises(RankloopError, match="harvesting compares the same document"):
        estimate_from_features(RankCounts.of(counts), features, BiasOptions(model="harvesting"), rng)


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
    items = np.arange(kind.size)
    shown = RankCounts(
        items,
        items // documents,
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
