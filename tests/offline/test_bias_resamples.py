"""The uncertainty of an estimated bias is part of the intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, save_bias
from rankloop.offline.assumptions import NO_RESAMPLES, BiasResamples, assume_bias
from rankloop.offline.policy_rankings import RankingResolver
from rankloop.types import BiasEvidence, Lines
from rankloop.value.uncertainty import BiasSpread, QueryValues, bias_spread
from rankloop.value.valuation import LoggedMetric, Valuation
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("resamples") / "log", queries=40, impressions=20_000)


@pytest.fixture(scope="module")
def estimate(world: Simulated) -> BiasEstimate:
    return world.log.estimate_bias(BiasOptions(resamples=20, held_out=False))


def valued(world: Simulated) -> Valuation:
    """Both policies by all clicks of the log."""
    found, counts = world.log.statistics(BIAS), world.log.count(BIAS.positions)
    metric = LoggedMetric.of("dcg", BIAS)
    rankings = RankingResolver(world.log, counts, metric).resolve(("later", "production"), "sorted")
    return Valuation(found.statistics, BIAS, metric, rankings, support=0.0)


def spread(world: Simulated, factors: list[float]) -> BiasSpread:
    """Of resamples whose α are those of the bias times a factor; of another log."""
    shares = world.log.rank_shares(world.log.statistics(BIAS))
    lines = [Lines(factor * BIAS.alpha, BIAS.beta) for factor in factors]
    return bias_spread([valued(world)], np.ones(1), lines, [shares], None)


def test_rank_shares_give_the_exposures(world: Simulated) -> None:
    found = world.log.statistics(BIAS)
    alpha, _ = found.statistics.mean_exposure("query")
    np.testing.assert_allclose(world.log.rank_shares(found) @ BIAS.alpha, alpha, rtol=1e-5)
    displays = replace(world.log, exposure="displays")
    found = displays.statistics(BIAS)
    alpha, _ = found.statistics.mean_exposure("query")
    np.testing.assert_allclose(displays.rank_shares(found) @ BIAS.alpha, alpha, rtol=1e-9)


def test_a_bias_that_does_not_vary_changes_nothing(world: Simulated) -> None:
    found = spread(world, [1.0] * 20)
    np.testing.assert_allclose(found.stretch, 1.0)
    np.testing.assert_allclose(found.deviation, 0.0, atol=1e-12)


def test_values_are_in_units_of_relevance(world: Simulated) -> None:
    """With α twice as large all relevances are half as large, and so are all values."""
    values = QueryValues.of(valued(world)).values
    found = spread(world, [1.0, 2.0])
    np.testing.assert_allclose(found.deviation, np.abs(values) * np.std([1.0, 0.5], ddof=1), rtol=1e-5)
    assert (found.stretch > 1.0).all()


def test_the_same_queries_are_drawn_again(world: Simulated, estimate: BiasEstimate) -> None:
    resamples = BiasResamples.of_estimate(estimate)
    assert resamples is not None
    counts = world.log.count()
    draws = resamples.draws(counts)
    assert draws is not None
    assert draws.shape == (20, 40)
    assert (draws.sum(axis=1) == 40).all()
    assert replace(resamples, log="another log").draws(counts) is None
    assert replace(resamples, seed=None).draws(counts) is None


def test_a_stored_bias_keeps_its_resamples(world: Simulated, estimate: BiasEstimate, tmp_path: Path) -> None:
    """A bias that was read from a file was a bias without a history."""
    assumed = assume_bias(world.log, save_bias(estimate, tmp_path / "bias.json"))
    assert assumed.estimated
    stored, original = assumed.resamples, BiasResamples.of_estimate(estimate)
    assert stored is not None
    assert original is not None
    np.testing.assert_allclose(stored.lines.alpha, original.lines.alpha, rtol=1e-5)
    np.testing.assert_allclose(stored.lines.beta, original.lines.beta, rtol=1e-5, atol=1e-9)
    assert (stored.seed, stored.log) == (original.seed, original.log)
    assert not assume_bias(world.log, replace(estimate.bias, evidence=None)).estimated
    assert not assume_bias(world.log, "paper@3").estimated


def test_an_estimated_bias_widens_the_interval_and_allows_a_firm_decision(
    world: Simulated, estimate: BiasEstimate
) -> None:
    """The note "its uncertainty is not part of any interval here" is gone, because it is part of it."""
    assumed = world.log.evaluate("later", "production", bias=replace(estimate.bias, evidence=None))
    found = world.log.evaluate("later", "production", bias=estimate)
    assert found.difference.estimate.value == pytest.approx(assumed.difference.estimate.value)
    assert found.difference.estimate.error > assumed.difference.estimate.error
    assert (found.holds("bias"), assumed.holds("bias")) == (True, False)
    assert found.holds("exploration")
    assert not any("uncertainty" in note for note in found.notes)
    evidence = BiasEvidence(estimate.method)
    without = replace(estimate, bias=replace(estimate.bias, evidence=evidence))
    assert NO_RESAMPLES in world.log.evaluate("later", "production", bias=without).notes


def test_a_bias_with_evidence_counts_as_estimated(world: Simulated, estimate: BiasEstimate) -> None:
    """Before, only an estimate or its file did: the bias alone was taken for an assumption."""
    found = assume_bias(world.log, estimate.bias)
    assert found.estimated
    assert found.resamples is not None
    assert estimate.resampled is not None
    np.testing.assert_array_equal(found.resamples.lines.alpha, estimate.resampled.alpha)
    assert found.resamples.draws(world.log.count()) is None
    assert not assume_bias(world.log, BIAS).estimated
    assert not assume_bias(world.log, replace(BIAS, evidence=BiasEvidence("assumed"))).estimated
    unknown = assume_bias(world.log, replace(BIAS, evidence=BiasEvidence("pairs")))
    assert unknown.estimated
    assert unknown.resamples is None
