"""Evidence by whole lists: its mean by enumeration of all lists and clicks, with users of any kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankloop.policies import log_probability
from rankloop.value.arms import arm_differences
from rankloop.value.lists import list_differences

OFFSETS = np.array([0, 4])
SCORES = {"new": [1.0, -1.0, 0.5, 0.0], "old": [0.0, 0.5, 0.0, -2.0], "other": [0.0, 0.0, 0.0, 0.0]}
SHARES = {"new": 0.3, "old": 0.1, "other": 0.6}


def clicks_of(shown: tuple[int, ...]) -> float:
    """The expected clicks on a list: these users click less below a good document, and know duplicates."""
    liked = np.array([0.9, 0.1, 0.5, 0.4])[list(shown)]
    first, second = liked
    return float(first + (1.0 - 0.7 * first) * second * (0.2 if {*shown} == {0, 2} else 1.0))


def probabilities(shown: tuple[int, ...]) -> dict[str, float]:
    return {
        name: float(np.exp(log_probability(np.array(scores), OFFSETS, [list(shown)])[0]))
        for name, scores in SCORES.items()
    }


def test_the_mean_is_the_difference_of_the_values_and_the_noise_is_no_more_than_that_of_arms() -> None:
    mean = truth = squares = arm_squares = 0.0
    for shown in itertools.permutations(range(4), 2):
        chance, amount = probabilities(shown), np.array([clicks_of(shown)])
        live = sum(SHARES[name] * chance[name] for name in SHARES)
        (value,) = list_differences(amount, *np.log([[chance["new"]], [chance["old"]], [live]]))
        assert -1.0 / SHARES["old"] <= value / amount[0] <= 1.0 / SHARES["new"]
        mean += live * value
        squares += live * value**2
        truth += (chance["new"] - chance["old"]) * amount[0]
        for name, share in SHARES.items():
            arms = arm_differences(
                amount,
                np.array([name == "new"], float),
                np.array([name == "old"], float),
                np.array([SHARES["new"]]),
                np.array([SHARES["old"]]),
            )
            arm_squares += share * chance[name] * float(arms[0]) ** 2
    assert mean == pytest.approx(truth, abs=1e-10)
    assert squares < arm_squares
