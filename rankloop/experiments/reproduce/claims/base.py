"""Claims, and the rules that turn their words into an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.experiments.reproduce.results import AllRuns, NotRunError
from rankloop.experiments.summary import CONFIDENCE, Mean, RunCurves
from rankloop.statistics.intervals import student_quantile
from rankloop.types import Float64

Outcome = Literal["holds", "does not hold", "undecided"]
HOLDS: Literal["holds"] = "holds"
FAILS: Literal["does not hold"] = "does not hold"
UNDECIDED: Literal["undecided"] = "undecided"

# The thresholds for the words of claims, in NDCG unless noted; docs/reproduce.md says when they were fixed.
# "Negligible", and the least that is "clear" or "much".
NEGLIGIBLE = 0.01
# A curve that changes less than this over the last factor of ten has converged; one that falls by more falls.
SETTLED = 0.005
# "Far below", and conversely "hardly more", in spread over runs: a ratio of standard deviations.
FAR = 2.0
# The largest rounding error of theorems and arithmetic.
EXACT = 1e-9


class Finding(BaseModel):
    """One number that a claim rests on.

    Attributes:
        what: which number.
        value: its mean over the runs; None if it is not known.
        low: the lower end of its 90 % interval; None if there is no interval.
        high: the upper end.
        wanted: where the claim needs it to be, in words.
        outcome: whether it is there.
        note: a remark, or empty.
        leans_to_hold: whether it would satisfy the claim if it were known exactly; None if that is not known.
        runs_to_decide: how many runs would decide it, if it is undecided and a matter of runs; see
            `rankloop.experiments.reproduce.claims.base`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    value: float | None
    low: float | None = None
    high: float | None = None
    wanted: str
    outcome: Outcome
    note: str = ""
    leans_to_hold: bool | None = None
    runs_to_decide: int | None = None


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that runs can confirm or refute.

    Attributes:
        name: a short name, for tables.
        statement: what is claimed.
        criterion: when it holds, in numbers.
        cause: the likely cause if it does not hold.
        check: computes the numbers.
        where: the place in the paper.
    """

    name: str
    statement: str
    criterion: str
    cause: str
    check: Callable[[AllRuns], Sequence[Finding]]
    where: str


class Judged(BaseModel):
    """A claim and its outcome; if it is undecided, the number of runs that would decide it, if any would."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    where: str
    statement: str
    criterion: str
    cause: str
    outcome: Outcome
    runs_to_decide: int | None
    findings: tuple[Finding, ...]


def judge(claim: Claim, evidence: AllRuns) -> Judged:
    """The outcome of a claim: it holds if all its findings do, and does not hold if one does not.

    If runs are missing, it is undecided.
    """
    try:
        findings = tuple(claim.check(evidence))
    except NotRunError as error:
        findings = (Finding(what=str(error), value=None, wanted="", outcome=UNDECIDED),)
    outcomes = {finding.outcome for finding in findings}
    overall = FAILS if FAILS in outcomes else UNDECIDED if UNDECIDED in outcomes else HOLDS
    return Judged(
        name=claim.name,
        where=claim.where,
        statement=claim.statement,
        criterion=claim.criterion,
        cause=claim.cause,
        outcome=overall,
        runs_to_decide=_runs_to_decide(findings) if overall == UNDECIDED else None,
        findings=findings,
    )


def _runs_to_decide(findings: Sequence[Finding]) -> int | None:
    """The runs that would refute a claim by one finding; if none leans that way, confirm it by all."""
    open_ones = [finding for finding in findings if finding.outcome == UNDECIDED]
    against = [one.runs_to_decide for one in open_ones if one.leans_to_hold is False]
    known = [runs for runs in against if runs is not None]
    if known:
        return min(known)
    needed = [one.runs_to_decide for one in open_ones]
    numbers = [runs for runs in needed if runs is not None]
    return max(numbers) if len(numbers) == len(needed) else None


def above(what: str, values: Float64, bound: float = 0.0) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is above a bound.

    Example:
        >>> above("gain", np.array([0.1, 0.2, 0.3])).outcome
        'holds'
        >>> above("gain", np.array([-0.1, 0.2])).outcome, above("gain", np.array([0.5])).outcome
        ('undecided', 'undecided')
    """
    return _compare(what, values, f"> {bound:g}", [bound], lambda low, high: (low > bound, high <= bound))


def below(what: str, values: Float64, bound: float = 0.0) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is below a bound."""
    return _compare(what, values, f"< {bound:g}", [bound], lambda low, high: (high < bound, low >= bound))


def within(what: str, values: Float64, bound: float) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is closer to 0 than a bound."""
    return _compare(
        what,
        values,
        f"between −{bound:g} and {bound:g}",
        [-bound, bound],
        lambda low, high: (-bound < low and high < bound, low >= bound or high <= -bound),
    )


def exact(what: str, error: float, *, at_most: float = EXACT) -> Finding:
    """Whether the error of a computed number is at most rounding."""
    wanted, outcome = f"≤ {at_most:g}", HOLDS if error <= at_most else FAILS
    return Finding(what=what, value=error, wanted=wanted, outcome=outcome)


def undecided(finding: Finding, note: str) -> Finding:
    """The same finding, undecided, with the reason why."""
    return finding.model_copy(update={"outcome": UNDECIDED, "note": note, "runs_to_decide": None})


def not_refuted_early(finding: Finding, end: int, needed: int) -> Finding:
    """A finding about what happens late: runs that end earlier cannot refute it."""
    if finding.outcome != FAILS or end >= needed:
        return finding
    return undecided(finding, f"the paper's runs continue to {needed:,}, these end at {end:,}")


def _compare(
    what: str,
    values: Float64,
    wanted: str,
    bounds: Sequence[float],
    decide: Callable[[float, float], tuple[bool, bool]],
) -> Finding:
    """A finding on a mean; `decide` returns whether its interval confirms, and whether it refutes it."""
    mean = Mean.of([float(value) for value in values])
    if len(values) < 2:
        return Finding(
            what=what, value=mean.value, wanted=wanted, outcome=UNDECIDED, note="one run has no interval"
        )
    low, high = mean.value - mean.half_width, mean.value + mean.half_width
    outcome = decided(*decide(low, high))
    runs = None
    if outcome == UNDECIDED:
        distance = min(abs(mean.value - bound) for bound in bounds)
        runs = runs_to_decide(distance, float(np.std(values, ddof=1)))
    return Finding(
        what=what,
        value=mean.value,
        low=low,
        high=high,
        wanted=wanted,
        outcome=outcome,
        leans_to_hold=decide(mean.value, mean.value)[0],
        runs_to_decide=runs,
    )


def decided(holds: bool, fails: bool) -> Outcome:
    """The outcome of an interval that lies where it should, or entirely elsewhere, or neither."""
    return HOLDS if holds else FAILS if fails else UNDECIDED


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
