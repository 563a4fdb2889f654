"""Robbins' normal mixtures: tests and intervals that hold at every look at once.

A sum S of centred terms with total variance V is a Brownian motion in the time V, up to the central limit
theorem. Averaging the likelihood ratio ``exp(θS − θ²V/2)`` over a normal distribution of θ with variance 1/v
gives a martingale, so by Ville's inequality it ever exceeds 1/δ with probability at most δ, however often one
looks. v is the variance at which the mixture is most sensitive, up to a constant.

Reference: Robbins, "Statistical methods related to the law of the iterated logarithm" (1970); Howard, Ramdas,
McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences" (2021).
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr


def log_e_value(total: float, variance: float, tuning: float) -> float:
    """Return the logarithm of the e-value against a mean of at most 0.

        E = 2 √(v / (V + v)) · exp(m² / 2) · Φ(m),    m = S / √(V + v)

    The mixture is over positive drifts only. If the mean is 0 or less, E is ever above 1/δ with probability
    at most δ.

    Args:
        total: S, the sum of the terms.
        variance: V, the variance of the sum.
        tuning: v, above 0.

    Example:
        >>> log_e_value(0.0, 0.0, 1.0)
        0.0
        >>> log_e_value(40.0, 100.0, 100.0) > math.log(20) > log_e_value(-40.0, 100.0, 100.0)
        True
    """
    scaled = total / math.sqrt(variance + tuning)
    shrinkage = math.log(tuning / (variance + tuning))
    return math.log(2.0) + 0.5 * shrinkage + 0.5 * scaled**2 + float(log_ndtr(scaled))


def half_width(variance: float, tuning: float, level: float) -> float:
    """Return the largest deviation of the sum from its mean, at all looks with probability 1 − level.

        √((V + v) · log((V + v) / (v · level²)))

    Args:
        variance: V, the variance of the sum.
        tuning: v, above 0.
        level: the probability that the sum ever deviates further, in either direction.

    Example:
        >>> round(half_width(100.0, 10.0, 0.05), 2)
        30.38
        >>> round(1.96 * math.sqrt(100.0), 2)  # what a single look at a known variance needs
        19.6
    """
    both = variance + tuning
    return math.sqrt(both * math.log(both / (tuning * level**2)))


def best_tuning(variance: float, level: float) -> float:
    """Return the tuning that makes the half width about smallest at a variance.

        v = V / (2 log(1/level) + log(2 log(1/level) + 1))

    Reference: Howard et al. (2021), section 3.5, with a first-order solution of the equation.
    """
    needed = -2.0 * math.log(level)
    return variance / (needed + math.log1p(needed))
