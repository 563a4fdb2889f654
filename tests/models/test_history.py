"""The history of a training: which epoch is kept, and when to stop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from rankloop.evidence.decision import convinces
from rankloop.models.history import Epoch, History
from rankloop.progress import Update


def history(*values: float, patience: int = 100, least_gain: float | None = None) -> History:
    made = History(None, patience, least_gain)
    for value in values:
        made.add(value)
    return made


def test_only_a_higher_value_is_better() -> None:
    epochs = history(0.5, 0.4, 0.6, 0.6).epochs
    assert epochs == [Epoch(0, 0.5, True), Epoch(1, 0.4, False), Epoch(2, 0.6, True), Epoch(3, 0.6, False)]


def test_without_values_the_last_is_the_best() -> None:
    assert [epoch.best for epoch in history(math.nan, math.nan, math.nan).epochs] == [True, True, True]


def test_an_epoch_that_does_not_convince_is_not_kept_but_counts_as_a_rise() -> None:
    made = History(None, patience=2)
    kept = [made.add(0.5), made.add(0.6, convincing=False), made.add(0.55)]
    assert kept == [True, False, True]
    assert not made.exhausted
    made.add(0.58)
    assert made.exhausted


@pytest.mark.parametrize(
    ("values", "patience", "stops"),
    [((0.5, 0.4), 2, False), ((0.5, 0.4, 0.3), 2, True), ((0.5, 0.4, 0.6), 2, False), ((0.5, 0.5), 1, True)],
)
def test_patience(values: tuple[float, ...], patience: int, stops: bool) -> None:
    assert history(*values, patience=patience).exhausted == stops


def test_a_gain_below_the_least_stops_at_once() -> None:
    assert history(0.5, 0.5009, least_gain=0.001).exhausted
    assert not history(0.5, 0.502, least_gain=0.001).exhausted
    assert not history(math.nan, math.nan, least_gain=0.001).exhausted


def test_every_epoch_is_reported() -> None:
    seen: list[Update] = []
    made = History(seen.append, patience=3, unit="tree")
    made.add(0.25)
    made.add(math.nan)
    assert [update.detail for update in seen] == made.epochs
    assert [update.note for update in seen] == ["tree   0  held out 0.2500", "tree   1"]


@pytest.mark.parametrize("n", [3, 8, 40])
def test_noise_convinces_as_rarely_with_few_queries_as_with_many(n: int) -> None:
    """At two standard errors 2.3 % of the draws convince; of three queries, a normal quantile lets 9 % pass.

    6,000 draws: five standard deviations of their share are .0096; a false alarm has a chance below 1e-6.
    """
    rng = np.random.default_rng(n)
    found = np.mean([convinces(rng.normal(size=n), 2.0) for _ in range(6_000)])
    assert found == pytest.approx(ndtr(-2.0), abs=0.0096)


def test_queries_that_never_came_do_not_count() -> None:
    gain = np.array([0.1, 0.3, 0.2, 0.25])
    for caution in (1.0, 3.0, 5.0):
        assert convinces(gain, caution) == convinces(np.append(gain, np.zeros(500)), caution)
    assert not convinces(np.append(0.5, np.zeros(10)), 0.1)


def test_without_caution_any_gain_convinces_and_without_held_out_queries_everything() -> None:
    assert convinces(np.array([0.5, -0.4]), 0.0)
    assert not convinces(np.array([0.4, -0.5]), 0.0)
    assert convinces(np.array([np.nan]), 3.0)
