"""The spread of runs of two arms, compared by the ratio of their standard deviations."""

from __future__ import annotations

import numpy as np

from rankloop.experiments.reproduce.claims.base import FAR, UNDECIDED, Finding, decided
from rankloop.experiments.reproduce.claims.power import runs_to_decide
from rankloop.experiments.reproduce.evidence import RunCurves
from rankloop.experiments.summary import CONFIDENCE
from rankloop.statistics.intervals import student_quantile
from rankloop.types import Float64

# Leaving one of two runs out leaves no spread.
FEWEST_RUNS = 3


def spread_ratio(what: str, one: RunCurves, other: RunCurves, *, at_least: float | None = None) -> Finding:
    """The ratio of the standard deviations of two arms over runs, each pooled over the times.

    Runs of one seed share the production ranker, times of one run are correlated, and some runs may collapse
    while others do not: so the interval is a jackknife. With L the logarithm of the ratio and L₋ᵢ the same
    without seed i, of n,

        L ± t_{n−1} · √( (n−1)/n · Σ_i (L₋ᵢ − mean L₋)² )

    In simulations of 5 to 20 runs, with and without each of these, it covers the true ratio in 86 to 93 % of
    cases at a nominal 90 %. An F interval, which knows nothing of pairs and of times, covers 89 to 100 %, and
    is up to twice as wide.

    Args:
        what: which ratio.
        one: the arm in the numerator.
        other: the arm in the denominator; its runs have the same seeds.
        at_least: the ratio must be above this; None if it must be below `FAR`.

    Reference:
        R. G. Miller, "Jackknifing variances", Annals of Mathematical Statistics 39 (1968).
    """
    n = len(one.values)
    wanted = f"< {FAR:g}" if at_least is None else f"> {at_least:g}"
    if n < FEWEST_RUNS:
        note = f"an interval needs at least {FEWEST_RUNS} runs"
        return Finding(what=what, value=None, wanted=wanted, outcome=UNDECIDED, note=note)
    log_ratio, error = _jackknife(one.values, other.values)
    if not np.isfinite(log_ratio) or not np.isfinite(error):
        note = "there is no spread to compare with"
        return Finding(what=what, value=None, wanted=wanted, outcome=UNDECIDED, note=note)
    half = student_quantile(n - 1, 0.5 - 0.5 * CONFIDENCE) * error
    ratio, low, high = (float(np.exp(log_ratio + shift)) for shift in (0.0, -half, half))
    bound = FAR if at_least is None else at_least
    below, above = high < bound, low > bound
    outcome = decided(below, low >= bound) if at_least is None else decided(above, high <= bound)
    runs = None
    if outcome == UNDECIDED:
        runs = runs_to_decide(abs(log_ratio - np.log(bound)), error * np.sqrt(n))
    return Finding(
        what=what,
        value=ratio,
        low=low,
        high=high,
        wanted=wanted,
        outcome=outcome,
        leans_to_hold=(ratio < bound) if at_least is None else (ratio > bound),
        runs_to_decide=runs,
    )


def _jackknife(one: Float64, other: Float64) -> tuple[float, float]:
    """The logarithm of the ratio of standard deviations, and its standard error."""

    def log_ratio(kept: Float64) -> float:
        variances = [values[kept].var(axis=0, ddof=1).mean() for values in (one, other)]
        return float(0.5 * (np.log(variances[0]) - np.log(variances[1])))

    n = len(one)
    everything = np.ones(n, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.array([log_ratio(np.arange(n) != i) for i in range(n)])
        error = np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2))
        return log_ratio(everything), float(error)
