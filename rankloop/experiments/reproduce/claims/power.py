"""The number of runs that would decide what is undecided, from the spread of the runs that there are."""

from __future__ import annotations

import numpy as np

from rankloop.experiments.summary import CONFIDENCE
from rankloop.statistics.intervals import student_quantile

# The chance that the interval of this many runs decides.
POWER = 0.8
# A number that would take more runs than this lies on its threshold for all practical purposes.
MOST_RUNS = 1_000


def runs_to_decide(distance: float, deviation: float) -> int:
    """The smallest number of runs whose interval lies on one side of a threshold with a chance of 80 %.

    For n runs with this mean and spread, the half width and the error of the mean must fit in between:

        (t_{n−1}(0.95) + t_{n−1}(0.8)) · deviation / √n ≤ distance

    Args:
        distance: from the mean to the nearest threshold.
        deviation: the standard deviation over runs.

    Returns:
        The number, at most `MOST_RUNS`.

    Example:
        >>> runs_to_decide(0.01, 0.01), runs_to_decide(0.01, 0.02), runs_to_decide(0.0, 0.01)
        (8, 27, 1000)
    """
    n = np.arange(2, MOST_RUNS + 1)
    alpha, beta = 0.5 - 0.5 * CONFIDENCE, 1.0 - POWER
    quantiles = np.array(
        [student_quantile(df, alpha) + student_quantile(df, beta) for df in range(1, MOST_RUNS)]
    )
    enough = quantiles * deviation / np.sqrt(n) <= distance
    return int(n[np.argmax(enough)]) if enough.any() else MOST_RUNS


def spell_runs(runs: int | None) -> str:
    """A number of runs as text.

    >>> spell_runs(12), spell_runs(MOST_RUNS), spell_runs(None)
    ('12', '1,000 or more', '–')
    """
    if runs is None:
        return "–"
    return f"{runs:,} or more" if runs >= MOST_RUNS else f"{runs:,}"
