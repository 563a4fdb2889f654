"""Bets: a martingale by enumeration, batches that do not matter, and rates of wrong decisions."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.statistics.bets import BETS, Bets, Detector


def test_the_evidence_is_a_martingale_at_a_mean_of_0() -> None:
    """Over all outcomes of five skewed observations: −1 with probability 3/4, 3 with 1/4."""
    total = 0.0
    for outcome in itertools.product([0, 1], repeat=5):
        values = np.where(np.array(outcome) == 1, 3.0, -1.0)
        chance = np.prod(np.where(np.array(outcome) == 1, 0.25, 0.75))
        # Bets are capped differently at each observation: what is lost at most is known before it.
        total += chance * np.exp(Bets().add(values, np.array([1.0, 2.0, 1.0, 50.0, 1.0])).log_evidence)
    assert total == pytest.approx(1.0, rel=1e-10)


def test_batches_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    values, losses = rng.choice([-1.0, 1.0], 1_000), rng.uniform(1.0, 9.0, 1_000)
    whole, parts = Bets().add(values, losses), Bets()
    for part in np.array_split(np.arange(1_000), 7):
        parts = parts.add(values[part], losses[part])
    assert np.allclose(parts.log_bets, whole.log_bets, rtol=1e-10, atol=1e-12)
    assert parts.highest == pytest.approx(whole.highest)
    assert parts.count == 1_000
    assert parts.mean == pytest.approx(whole.mean)
    assert parts.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(1_000))
    assert Bets.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole
    assert whole.add(np.zeros(0), np.zeros(0)) is whole


def test_decisions_are_wrong_as_rarely_as_promised() -> None:
    """Rare large observations of mean 0, looked at after each of 2,000: at most 5 % of the streams decide.

    Of 300 streams at most 35 do, but for one run in a million.
    """
    rng = np.random.default_rng(1)
    wrong = sum(
        Bets().add(np.where(rng.random(2_000) < 0.01, 99.0, -1.0), np.ones(2_000)).decides(0.05)
        for _ in range(300)
    )
    assert wrong <= 35


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match=r"observation 1 is -2\.0, and it may be no lower than -1\.0"):
        Bets().add(np.array([0.0, -2.0]), np.ones(2))
    with pytest.raises(DataError, match=r"observation 3 is nan"):
        Bets(count=3).add(np.array([np.nan]), np.ones(1))
    with pytest.raises(DataError, match=f"{len(BETS)} bets, got 1"):
        Bets(log_bets=(0.0,))


def test_rounding_below_the_bound_is_no_observation_below_it() -> None:
    """Two policies that draw alike on a page differ by 0, as far as sums are exact."""
    values = np.array([-9e-16, 0.0, 4e-16])
    assert Bets().add(values, np.zeros(3)).log_evidence == pytest.approx(0.0, abs=1e-12)
    assert not Detector(1e6).add(values, np.zeros(3)).alarms
    with pytest.raises(DataError):
        Bets().add(np.array([-1e-6]), np.zeros(1))
