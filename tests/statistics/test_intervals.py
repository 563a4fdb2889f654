"""Quantiles against tables, and how few units widen an interval."""

import numpy as np
import pytest

from rankloop.statistics.intervals import (
    few_units_widening,
    normal_quantile,
    percentile,
    student_quantile,
    tail_probability,
    tail_quantile,
    wilson,
)


def test_quantiles_are_those_of_tables() -> None:
    assert normal_quantile(0.9) == pytest.approx(1.6449, abs=1e-4)
    assert tail_quantile(0.05) == pytest.approx(1.6449, abs=1e-4)
    assert tail_probability(tail_quantile(0.013)) == pytest.approx(0.013)
    assert student_quantile(1, 0.05) == pytest.approx(6.3138, abs=1e-4)


def test_two_units_widen_an_interval_and_many_do_not() -> None:
    """Two units that came 3 and 1 times tell no more than one degree of freedom."""
    assert few_units_widening(np.array([3, 1])) == pytest.approx(np.sqrt(2) * 6.3138 / 1.6449, rel=1e-4)
    assert few_units_widening(np.full(5_000, 3)) == pytest.approx(1.0, abs=1e-3)


def test_percentiles_leave_out_resamples_without_a_value() -> None:
    values = np.append(np.arange(1.0, 100.0), np.nan)[:, None]
    low, high = percentile(values)
    assert (low[0], high[0]) == pytest.approx((5.0, 95.0))


def test_wilson_covers_shares_near_the_edge() -> None:
    """The exact coverage over all counts of 40 displays stays near 90 %, also where clicks are rare."""
    from scipy.stats import binom

    for share in (0.01, 0.05, 0.3):
        intervals = [wilson(clicks, 40) for clicks in range(41)]
        covered = sum(
            binom.pmf(clicks, 40, share)
            for clicks, (low, high) in enumerate(intervals)
            if low <= share <= high
        )
        assert covered > 0.83
