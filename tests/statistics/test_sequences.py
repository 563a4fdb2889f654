"""Confidence sequences: coverage at all looks at once, published values, and states that survive JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.statistics.sequences import (
    AsymptoticSequence,
    BoundedSequence,
    ConfidenceSequence,
    best_tuning,
    half_width,
    log_e_value,
    sequence_from_dict,
)

STREAMS, LENGTH, LEVEL = 1_000, 2_000, 0.05
# The number of failures among 1,000 streams that each fail with probability 0.05 exceeds 73 with probability
# 6e-4 (binomial): the false-alarm probability of each test of coverage below.
MOST_FAILURES = 73


def ever_outside(sequence: ConfidenceSequence, values: np.ndarray, mean: float, every: int) -> bool:
    for first in range(0, len(values), every):
        sequence = sequence.add(values[first : first + every])
        if not sequence.lower <= mean <= sequence.upper:
            return True
    return False


def failures(sequence: ConfidenceSequence, streams: np.ndarray, mean: float, every: int) -> int:
    return sum(ever_outside(sequence, values, mean, every) for values in streams)


@pytest.mark.parametrize("mean", [0.5, 0.03])
def test_bounded_sequence_covers_at_every_look(mean: float) -> None:
    streams = np.random.default_rng(0).random((STREAMS, LENGTH)) < mean
    assert failures(BoundedSequence(level=LEVEL), streams.astype(np.float64), mean, every=50) <= MOST_FAILURES


def test_asymptotic_sequence_covers_importance_weighted_streams_at_every_look() -> None:
    """An A/A test: half of the traffic per arm, clicks with probability 0.2, weighted by 1/share."""
    rng = np.random.default_rng(1)
    arm, click = rng.random((STREAMS, LENGTH)) < 0.5, rng.random((STREAMS, LENGTH)) < 0.2
    streams = click * np.where(arm, 2.0, -2.0)
    sequence = AsymptoticSequence(level=LEVEL, tight_at=LENGTH)
    assert failures(sequence, streams, 0.0, every=50) <= MOST_FAILURES


def test_fixed_intervals_do_not_cover_at_every_look() -> None:
    """The counter-example: with intervals for one look, far more than 5 % of streams find a difference."""
    streams = np.random.default_rng(2).normal(size=(200, LENGTH))
    looks = np.arange(50, LENGTH + 1, 50)
    means = np.cumsum(streams, axis=1)[:, looks - 1] / looks
    found = (np.abs(means) > 1.96 / np.sqrt(looks)).any(axis=1)
    assert found.mean() > 0.2


def test_bounded_sequence_is_the_published_formula() -> None:
    """Written out for three observations, with c = 1/2 and the level 0.05 on two sides."""
    x, level = [1.0, 0.0, 1.0], 0.05
    log = np.log(2.0 / level)
    bets, penalty, mean, squares = [], 0.0, 0.5, 0.0
    for t, value in enumerate(x, start=1):
        spread = (0.25 + squares) / t
        bet = min(np.sqrt(2.0 * log / (spread * t * np.log(1.0 + t))), 0.5)
        penalty += (value - mean) ** 2 * (-np.log(1.0 - bet) - bet)
        bets.append(bet)
        mean = (0.5 + sum(x[:t])) / (t + 1)
        squares += (value - mean) ** 2
    centre, margin = np.dot(bets, x) / np.sum(bets), (log + penalty) / np.sum(bets)
    sequence = BoundedSequence(level=level, low=-10.0, high=10.0).add([10.0, -10.0, 10.0])
    assert sequence.gains / sequence.bets == pytest.approx(centre, rel=1e-12)
    assert sequence.penalty == pytest.approx(penalty, rel=1e-12)
    assert sequence.upper == 10.0  # −10 + 20 · (centre + margin), but never outside the range
    assert margin > 1.0 - centre


def test_asymptotic_sequence_is_the_published_formula() -> None:
    """Theorem 2.2 of Waudby-Smith et al.: σ √(2 (nρ² + 1) / (n²ρ²) · log(√(nρ² + 1) / level))."""
    values = np.random.default_rng(3).exponential(size=400)
    n, level, tight_at = len(values), 0.1, 250
    needed = -2.0 * np.log(level)
    rho2 = (needed + np.log(needed + 1.0)) / tight_at
    inside = 2.0 * (n * rho2 + 1.0) / (n**2 * rho2) * np.log(np.sqrt(n * rho2 + 1.0) / level)
    sequence = AsymptoticSequence(level=level, tight_at=tight_at).add(values)
    assert sequence.upper - values.mean() == pytest.approx(values.std(ddof=1) * np.sqrt(inside), rel=1e-10)
    assert values.mean() - sequence.lower == pytest.approx(sequence.upper - values.mean(), rel=1e-10)


def test_mixture_is_a_martingale() -> None:
    """The expectation of the e-value over a normal sum is 1 without a drift, by numerical integration."""
    variance, tuning = 3.0, 2.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    values = [np.exp(log_e_value(np.sqrt(variance) * node, variance, tuning)) for node in nodes]
    assert weights @ values / weights.sum() == pytest.approx(1.0, abs=1e-6)


def test_best_tuning_is_narrowest_where_it_should_be() -> None:
    best = half_width(500.0, best_tuning(500.0, 0.05), 0.05)
    others = [half_width(500.0, factor * best_tuning(500.0, 0.05), 0.05) for factor in (0.5, 2.0)]
    assert best < min(others)


@pytest.mark.parametrize(
    "sequence", [BoundedSequence(level=0.1, low=-3.0, high=4.0), AsymptoticSequence(tight_at=50, first=10)]
)
def test_batches_and_json_do_not_matter(sequence: ConfidenceSequence) -> None:
    values = np.random.default_rng(4).uniform(-2.0, 3.0, size=120)
    whole = sequence.add(values)
    parts = sequence
    for batch in np.split(values, [1, 1, 30, 31, 90]):
        parts = sequence_from_dict(json.loads(json.dumps(parts.add(batch).to_dict())))
    assert type(parts) is type(whole)
    for name in ("count", "mean", "lower", "upper"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12)


def test_before_anything_is_known_the_interval_is_everything() -> None:
    assert (BoundedSequence(low=1.0, high=2.0).lower, BoundedSequence(low=1.0, high=2.0).upper) == (1.0, 2.0)
    early = AsymptoticSequence(first=10).add(np.zeros(9))
    assert (early.lower, early.upper) == (-np.inf, np.inf)
    assert np.isnan(AsymptoticSequence().mean)


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: BoundedSequence(level=0.0), RankloopError, "between 0 and 1"),
        (lambda: BoundedSequence(low=1.0, high=1.0), RankloopError, "range"),
        (lambda: AsymptoticSequence(first=1), RankloopError, "at least"),
        (lambda: BoundedSequence().add([0.5, 1.5]), DataError, "observation 1 is 1.5"),
        (lambda: AsymptoticSequence().add([1.0, np.nan]), DataError, "observation 1 is nan"),
        (lambda: sequence_from_dict({"kind": "other"}), DataError, "bounded or asymptotic"),
        (lambda: AsymptoticSequence.from_dict(BoundedSequence().to_dict()), DataError, "asymptotic"),
    ],
)
def test_bad_input_is_refused(act: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        act()  # type: ignore[operator]
