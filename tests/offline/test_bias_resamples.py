"""The uncertainty of an estimated bias is part of the intervals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, save_bias
from rankloop.bias.anchor import Lines
from rankloop.offline.assumed_bias import NO_RESAMPLES, assume_bias
from rankloop.offline.bias_resamples import BiasResamples, BiasSpread, QueryValues
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.policy_rankings import Measure, RankingResolver
from rankloop.types import Bias, BiasEvidence
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("resamples") / "log", queries=40, interactions=20_000)


@pytest.fixture(scope="module")
def estimate(world: Simulated) -> BiasEstimate:
    return world.log.estimate_bias(BiasOptions(resamples=20, held_out=False))


def query_values(world: Simulated, bias: Bias = BIAS) -> QueryValues:
    found, counts = world.log.statistics(bias), world.log.count(bias.ranks)
    resolver = RankingResolver(world.log, counts, Measure.of("dcg", bias))
    rankings = resolver.resolve(("later", "production"), "sorted")
    times = found.statistics.query_counts
    variate = ControlVariate.of(found.statistics, bias, times > 0, support=0.0)
    return QueryValues(
        world.log.rank_shares(found),
        counts.displays_by_rank,
        found.statistics.clicks,
        times,
        rankings,
        variate,
    )


def spread(world: Simulated, factors: list[float]) -> BiasSpread:
    """Of resamples whose α are those of the bias times a factor; of another log."""
    alpha = np.outer(factors, BIAS.alpha)
    lines = Lines(alpha, np.broadcast_to(BIAS.beta, alpha.shape))
    return query_values(world).spread(BIAS, BiasResamples(lines), world.log.fingerprint)


def test_rank_shares_give_the_exposures(world: Simulated) -> None:
    found = world.log.statistics(BIAS)
    variate = ControlVariate.of(found.statistics, BIAS, found.statistics.query_counts > 0)
    np.testing.assert_allclose(world.log.rank_shares(found) @ BIAS.alpha, variate.alpha, rtol=1e-5)
    displays = replace(world.log, exposure="displays")
    found = displays.statistics(BIAS)
    variate = ControlVariate.of(found.statistics, BIAS, found.statistics.query_counts > 0)
    np.testing.assert_allclose(displays.rank_shares(found) @ BIAS.alpha, variate.alpha, rtol=1e-9)


def test_a_bias_that_does_not_vary_changes_nothing(world: Simulated) -> None:
    found = spread(world, [1.0] * 20)
    np.testing.assert_allclose(found.stretch, 1.0)
    np.testing.assert_allclose(found.deviation, 0.0, atol=1e-12)


def test_values_are_in_units_of_relevance(world: Simulated) -> None:
    """With α twice as large all relevances are half as large, and so are all values."""
    compared = world.log.evaluate("later", "production", bias=BIAS)
    values = [part.estimate.value for part in (compared.new, compared.against, compared.difference)]
    found = spread(world, [1.0, 2.0])
    np.testing.assert_allclose(found.deviation, np.abs(values) * np.std([1.0, 0.5], ddof=1), rtol=1e-5)
    assert (found.stretch > 1.0).all()


def test_the_same_queries_are_drawn_again(world: Simulated, estimate: BiasEstimate) -> None:
    resamples = BiasResamples.of_estimate(estimate)
    assert resamples is not None
    shown = np.ones(40, np.bool_)
    draws = resamples.draws(shown, world.log.fingerprint)
    assert draws is not None
    assert draws.shape == (20, 40)
    assert (draws.sum(axis=1) == 40).all()
    assert resamples.draws(shown, "another log") is None
    assert replace(resamples, seed=None).draws(shown, world.log.fingerprint) is None


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


def test_an_estimated_bias_widens_the_interval_and_allows_a_firm_verdict(
    world: Simulated, estimate: BiasEstimate
) -> None:
    """The note "its uncertainty is not part of any interval here" is gone, because it is part of it."""
    assumed = world.log.evaluate("later", "production", bias=replace(estimate.bias, evidence=None))
    found = world.log.evaluate("later", "production", bias=estimate)
    assert found.difference.estimate.value == pytest.approx(assumed.difference.estimate.value)
    assert found.difference.estimate.error > assumed.difference.estimate.error
    assert (found.evidence.bias_estimated, assumed.evidence.bias_estimated) == (True, False)
    assert found.evidence.explores
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
    assert found.resamples.draws(np.ones(3, np.bool_), world.log.fingerprint) is None
    assert not assume_bias(world.log, BIAS).estimated
    assert not assume_bias(world.log, replace(BIAS, evidence=BiasEvidence("assumed"))).estimated
    unknown = assume_bias(world.log, replace(BIAS, evidence=BiasEvidence("pairs")))
    assert unknown.estimated
    assert unknown.resamples is None
