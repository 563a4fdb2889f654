"""The detector: a supermartingale by enumeration, batches that do not matter, and rates of false alarms."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.statistics.bets import BETS, Detector


def test_its_evidence_minus_the_count_is_a_martingale_at_a_mean_of_0() -> None:
    """Over all outcomes of five skewed observations: −1 with probability 3/4, 3 with 1/4."""
    total = 0.0
    for outcome in itertools.product([0, 1], repeat=5):
        values = np.where(np.array(outcome) == 1, 3.0, -1.0)
        chance = np.prod(np.where(np.array(outcome) == 1, 0.25, 0.75))
        total += chance * np.exp(Detector(1e6).add(values, np.ones(5)).log_evidence)
    assert total == pytest.approx(5.0, rel=1e-10)


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    values, losses = rng.choice([-1.0, 1.0], 1_000), rng.uniform(1.0, 9.0, 1_000)
    whole = Detector(1e6).add(values, losses)
    parts = Detector(1e6)
    for part in np.array_split(np.arange(1_000), 7):
        parts = parts.add(values[part], losses[part])
    assert np.allclose(parts.log_bets, whole.log_bets, rtol=1e-10)
    assert parts.highest == pytest.approx(whole.highest)
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.since == whole.since
    assert np.allclose(parts.rise, whole.rise)
    assert Detector.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    fresh = Detector(1e6)
    assert Detector.from_dict(json.loads(json.dumps(fresh.to_dict()))) == fresh
    assert fresh.add(np.zeros(0), np.zeros(0)) is fresh


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Pages of rare large weights, as a small holdout has them: mean 0, and 2,000 pages per alarm.

    By 200 pages an alarm has at most the probability 200 / 2,000: P(Σ M ≥ c) ≤ E[Σ M] / c. Of 300 streams at
    most 52 do, but for one run in a million.
    """
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(300):
        values = np.where(rng.random(200) < 0.05, 19.0, -1.0)
        alarms += Detector(2_000.0).add(values, np.ones(200)).alarms
    assert alarms <= 52


def test_harm_after_a_long_good_time_is_noticed() -> None:
    rng = np.random.default_rng(2)
    good = rng.choice([-1.0, 1.0], 50_000, p=[0.6, 0.4])
    bad = rng.choice([-1.0, 1.0], 2_000, p=[0.4, 0.6])
    detector = Detector(1e6).add(good, np.ones(len(good)))
    assert not detector.alarms
    assert detector.mean == pytest.approx(-0.2, abs=0.1)
    alarmed = detector.add(bad, np.ones(len(bad)))
    assert alarmed.alarms
    count, mean = alarmed.onset
    assert count == pytest.approx(2_000, abs=200)
    assert mean == pytest.approx(0.2, abs=0.1)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match=r"observation 1 is -2\.0, and it may be no lower than -1\.0"):
        Detector(1e6).add(np.array([0.0, -2.0]), np.ones(2))
    with pytest.raises(DataError, match="nan"):
        Detector(1e6).add(np.array([np.nan]), np.ones(1))
    with pytest.raises(RankloopError, match="more than 1"):
        Detector(1.0)
    with pytest.raises(DataError, match=f"{len(BETS)} bets, got 1"):
        Detector(10.0, log_bets=(0.0,))
