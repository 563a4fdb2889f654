"""The history of a training: which epoch is kept, and when to stop."""

from __future__ import annotations

import math

import pytest

from rankloop.progress import Update
from rankloop.training.history import Epoch, History


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
