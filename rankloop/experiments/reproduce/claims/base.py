"""Claims, and the rules that turn their words into a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict
from scipy import stats

from rankloop.experiments.reproduce.evidence import Evidence, NotRunError, RunCurves
from rankloop.experiments.summary import CONFIDENCE, Mean
from rankloop.types import Float64

Verdict = Literal["holds", "does not hold", "undecided"]
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
        verdict: whether it is there.
        note: a remark, or empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    value: float | None
    low: float | None = None
    high: float | None = None
    wanted: str
    verdict: Verdict
    note: str = ""


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
    check: Callable[[Evidence], Sequence[Finding]]
    where: str


class Judged(BaseModel):
    """A claim and its verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    where: str
    statement: str
    criterion: str
    cause: str
    verdict: Verdict
    findings: tuple[Finding, ...]


def judge(claim: Claim, evidence: Evidence) -> Judged:
    """The verdict on a claim: it holds if all its findings do, and does not hold if one does not.

    If runs are missing, it is undecided.
    """
    try:
        findings = tuple(claim.check(evidence))
    except NotRunError as error:
        findings = (Finding(what=str(error), value=None, wanted="", verdict=UNDECIDED),)
    verdicts = {finding.verdict for finding in findings}
    overall = FAILS if FAILS in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS
    return Judged(
        name=claim.name,
        where=claim.where,
        statement=claim.statement,
        criterion=claim.criterion,
        cause=claim.cause,
        verdict=overall,
        findings=findings,
    )


def above(what: str, values: Float64, bound: float = 0.0) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is above a bound.

    Example:
        >>> above("gain", np.array([0.1, 0.2, 0.3])).verdict
        'holds'
        >>> above("gain", np.array([-0.1, 0.2])).verdict, above("gain", np.array([0.5])).verdict
        ('undecided', 'undecided')
    """
    return _compare(what, values, f"> {bound:g}", lambda low, high: (low > bound, high <= bound))


def below(what: str, values: Float64, bound: float = 0.0) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is below a bound."""
    return _compare(what, values, f"< {bound:g}", lambda low, high: (high < bound, low >= bound))


def within(what: str, values: Float64, bound: float) -> Finding:
    """Whether the mean of a quantity, given as one value per run, is closer to 0 than a bound."""
    return _compare(
        what,
        values,
        f"between −{bound:g} and {bound:g}",
        lambda low, high: (-bound < low and high < bound, low >= bound or high <= -bound),
    )


def exact(what: str, error: float, *, at_most: float = EXACT) -> Finding:
    """Whether the error of a computed number is at most rounding."""
    wanted, verdict = f"≤ {at_most:g}", HOLDS if error <= at_most else FAILS
    return Finding(what=what, value=error, wanted=wanted, verdict=verdict)


def undecided(finding: Finding, note: str) -> Finding:
    """The finding, with no verdict and with the reason why."""
    return finding.model_copy(update={"verdict": UNDECIDED, "note": note})


def not_refuted_early(finding: Finding, end: int, needed: int) -> Finding:
    """A finding about what happens late: runs that end earlier cannot refute it."""
    if finding.verdict != FAILS or end >= needed:
        return finding
    return undecided(finding, f"the paper's runs continue to {needed:,}, these end at {end:,}")


def spread_ratio(what: str, one: RunCurves, other: RunCurves, *, at_least: float | None = None) -> Finding:
    """The ratio of the standard deviations of two arms over runs.

    The interval is that of a ratio of variances of normally distributed runs (F), with the degrees of freedom
    of one time: the times of one run are treated as repeated measurements.

    Args:
        what: which ratio.
        one: the arm in the numerator.
        other: the arm in the denominator.
        at_least: the ratio must be above this; None if it must be below `FAR`.
    """
    n = len(one.values)
    degenerate = n < 2 or other.spread == 0.0
    ratio = float("nan") if degenerate else one.spread / other.spread
    wanted = f"< {FAR:g}" if at_least is None else f"> {at_least:g}"
    if degenerate:
        note = "one run has no interval" if n < 2 else ""
        return Finding(what=what, value=None, wanted=wanted, verdict=UNDECIDED, note=note)
    width = float(np.sqrt(stats.f.ppf(0.5 + 0.5 * CONFIDENCE, n - 1, n - 1)))
    low, high = ratio / width, ratio * width
    if at_least is None:
        verdict = _decided(high < FAR, low >= FAR)
    else:
        verdict = _decided(low > at_least, high <= at_least)
    return Finding(what=what, value=ratio, low=low, high=high, wanted=wanted, verdict=verdict)


def _compare(
    what: str, values: Float64, wanted: str, decide: Callable[[float, float], tuple[bool, bool]]
) -> Finding:
    """A finding on a mean; `decide` returns whether its interval confirms, and whether it refutes it."""
    mean = Mean.of([float(value) for value in values])
    if len(values) < 2:
        return Finding(
            what=what, value=mean.value, wanted=wanted, verdict=UNDECIDED, note="one run has no interval"
        )
    low, high = mean.value - mean.half_width, mean.value + mean.half_width
    verdict = _decided(*decide(low, high))
    return Finding(what=what, value=mean.value, low=low, high=high, wanted=wanted, verdict=verdict)


def _decided(holds: bool, fails: bool) -> Verdict:
    return HOLDS if holds else FAILS if fails else UNDECIDED
