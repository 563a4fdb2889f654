"""Intervals by named constructions: the only module with quantiles of distributions.

| construction | for |
|---|---|
| `normal_quantile`, `tail_quantile` | estimates with a known standard error |
| `student_quantile` | errors that were themselves estimated from few units |
| `wilson` | shares of counts, also near 0 and 1 |
| `percentile` | resampled estimates, with `draw_units` and `few_units_widening` |
| `rankloop.statistics.sequences` | means that are looked at again and again |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from rankloop.types import Float64, Int64

# The confidence level of all intervals that are reported, unless another one is chosen.
CONFIDENCE = 0.9
# Fewer units than this do not tell how much units differ: resampling them gives too narrow intervals.
FEW_UNITS = 20


class Interval(NamedTuple):
    """The two ends of an interval, or of many.

    Attributes:
        low: the lower end; float64, such as one per rank.
        high: the upper end.
    """

    low: Float64
    high: Float64


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """How many standard errors an interval extends to either side.

    >>> round(normal_quantile(0.9), 3)
    1.645
    """
    return float(ndtri(0.5 + 0.5 * confidence))


def tail_quantile(level: float) -> float:
    """How many standard errors a normal estimate exceeds the truth by with this probability.

    >>> round(tail_quantile(0.025), 3)
    1.96
    """
    return float(-ndtri(level))


def tail_probability(errors: float) -> float:
    """The probability that a normal estimate exceeds the truth by so many standard errors.

    >>> round(tail_probability(1.96), 3)
    0.025
    """
    return float(ndtr(-errors))


def student_quantile(freedom: float, level: float) -> float:
    """The same as `tail_quantile` for an error that was estimated with so many degrees of freedom.

    >>> round(student_quantile(10, 0.025), 3)
    2.228
    """
    return float(stdtrit(freedom, 1.0 - level))


def wilson(clicks: int, displays: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's interval of a share, which holds for small counts and for shares near 0 and 1.

        (p + z²/2n ± z √(p (1 − p)/n + z²/4n²)) / (1 + z²/n),   p = clicks / n

    Args:
        clicks: how many.
        displays: n, of how many; at least 1.
        confidence: the confidence level.

    Example:
        >>> low, high = wilson(0, 10)
        >>> low, round(high, 3)
        (0.0, 0.213)

    Reference: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    z = normal_quantile(confidence)
    share = clicks / displays
    middle = share + z * z / (2 * displays)
    half = z * float(np.sqrt(share * (1 - share) / displays + z * z / (4 * displays**2)))
    below = 1 + z * z / displays
    return max(0.0, (middle - half) / below), min(1.0, (middle + half) / below)


def percentile(values: Float64, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of resampled values: resamples × anything.

    The p-quantile of n values is at place p (n + 1): another value would fall below it with probability p. At
    NumPy's default place, p (n − 1) + 1, 90 % intervals from 100 resamples would cover 88 %.

    >>> percentile(np.arange(1.0, 100.0)[:, None], 0.9)
    Interval(low=array([5.]), high=array([95.]))
    """
    tail = 0.5 * (1.0 - confidence)
    low, high = np.nanquantile(values, [tail, 1.0 - tail], axis=0, method="weibull")
    return Interval(low, high)


def draw_units(count: int, rng: np.random.Generator) -> Float64:
    """How often each unit is drawn if as many are drawn with replacement as there are: float64, units.

    Called once per resample: a generator with the same seed gives the same resamples again.
    """
    return rng.multinomial(count, np.full(count, 1.0 / count)).astype(np.float64)


def few_units_widening(times: Int64 | Float64, confidence: float = CONFIDENCE) -> float:
    """How much wider than their percentiles intervals are because the units are few.

        √(n / (n − 1)) · t_{n−1} / z,    n = (Σ_u N_u)² / Σ_u N_u²

    n is the number of units that would tell as much if all came equally often: resampling n units understates
    their variance by (n − 1) / n, and it is known only as well as n units tell it.

    Args:
        times: units; how often each came, or how much it counts.
        confidence: the confidence level.
    """
    effective = float(times.sum()) ** 2 / float((times.astype(np.float64) ** 2).sum())
    freedom = max(effective - 1.0, 1.0)
    quantile = student_quantile(freedom, 0.5 - 0.5 * confidence)
    return float(np.sqrt((freedom + 1.0) / freedom) * quantile / normal_quantile(confidence))
