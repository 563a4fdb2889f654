"""What a claim is, and the rules that turn its words into a verdict."""

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

# What words come to. Fixed in docs/reproduce.md before any run was made; NDCG where nothing is said.
# "Negligible", and the least that is "clear" or "much".
NEGLIGIBLE = 0.01
# A curve that changes less than this over the last factor of ten has converged; one that falls by more falls.
SETTLED = 0.005
# "Far below" in spread over runs, and, the other way round, "hardly more".
FAR = 2.0
# Theorems and arithmetic: what rounding may do.
EXACT = 1e-9


class Finding(BaseModel):
    """One number that a claim rests on.

    Attributes:
        what: which number.
        value: its mean over the runs.
        low: the lower end of its 90 % interval; None where there is no interval.
        high: the upper end.
        wanted: what the claim needs of it, in words.
        verdict: whether it is so.
        note: what else there is to be said.
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
    """A sentence of the paper that runs can answer to.

    Attributes:
        name: short, for tables.
        statement: what is claimed.
        criterion: what it takes to hold, in numbers.
        cause: what is believed to be the cause where it does not hold.
        check: the numbers.
        where: in the paper.
    """

    name: str
    statement: str
    criterion: str
    cause: str
    check: Callable[[Evidence], Sequence[Finding]]
    where: str


class Judged(BaseModel):
    """A claim, and what the runs say of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    where: str
    statement: str
    criterion: str
    cause: str
    verdict: Verdict
    findings: tuple[Finding, ...]


def judge(claim: Claim, evidence: Evidence) -> Judged:
    """The verdict on a claim: it holds if all it needs is so, and does not if anything is not.

    Where runs are missing, it is undecided.
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
    """Whether a quantity, one value a run, is above a bound on average.

    Example:
        >>> above("gain", np.array([0.1, 0.2, 0.3])).verdict
        'holds'
        >>> above("gain", np.array([-0.1, 0.2])).verdict, above("gain", np.array([0.5])).verdict
        ('undecided', 'undecided')
    """
    mean, low, high = _interval(values)
    return Finding(
        what=what,
        value=mean,
        low=low,
        high=high,
        wanted=f"> {bound:g}",
        verdict=_decided(low is not None and low > bound, high is not None and high <= bound),
        note=_single(values),
    )


def below(what: str, values: Float64, bound: float = 0.0) -> Finding:
    """Whether a quantity, one value a run, is below a bound on average."""
    mean, low, high = _interval(values)
    return Finding(
        what=what,
        value=mean,
        low=low,
        high=high,
        wanted=f"< {bound:g}",
        verdict=_decided(high is not None and high < bound, low is not None and low >= bound),
        note=_single(values),
    )


def within(what: str, values: Float64, bound: float) -> Finding:
    """Whether a quantity, one value a run, is nearer to 0 than a bound on average."""
    mean, low, high = _interval(values)
    known = low is not None and high is not None
    return Finding(
        what=what,
        value=mean,
        low=low,
        high=high,
        wanted=f"between −{bound:g} and {bound:g}",
        verdict=_decided(
            known and -bound < low and high < bound,  # type: ignore[operator]
            known and (low >= bound or high <= -bound),  # type: ignore[operator]
        ),
        note=_single(values),
    )


def exact(what: str, error: float, *, at_most: float = EXACT) -> Finding:
    """Whether a computed number is what it should be, up to rounding."""
    wanted, verdict = f"≤ {at_most:g}", HOLDS if error <= at_most else FAILS
    return Finding(what=what, value=error, wanted=wanted, verdict=verdict)


def if_seen(finding: Finding, reached: int, needed: int) -> Finding:
    """A finding about what comes late: where runs end earlier, not to have seen it decides nothing."""
    if finding.verdict != FAILS or reached >= needed:
        return finding
    note = f"the paper's runs go on to {needed:,}, these end at {reached:,}"
    return finding.model_copy(update={"verdict": UNDECIDED, "note": note})


def spread_ratio(what: str, one: RunCurves, other: RunCurves, *, at_least: float | None = None) -> Finding:
    """How much wider one arm spreads over runs than another: a ratio of standard deviations.

    The interval is that of a ratio of variances of normal runs (F), with the degrees of freedom of one time:
    times of one run are taken to be the same thing measured again.

    Args:
        what: which ratio.
        one: the arm above the line.
        other: the arm below it.
        at_least: the ratio must be above this; None if it must be below `FAR`.
    """
    n = len(one.values)
    degenerate = n < 2 or other.spread == 0.0
    ratio = float("nan") if degenerate else one.spread / other.spread
    wanted = f"< {FAR:g}" if at_least is None else f"> {at_least:g}"
    if degenerate:
        return Finding(what=what, value=None, wanted=wanted, verdict=UNDECIDED, note=_single(one.last))
    width = float(np.sqrt(stats.f.ppf(0.5 + 0.5 * CONFIDENCE, n - 1, n - 1)))
    low, high = ratio / width, ratio * width
    if at_least is None:
        verdict = _decided(high < FAR, low >= FAR)
    else:
        verdict = _decided(low > at_least, high <= at_least)
    return Finding(what=what, value=ratio, low=low, high=high, wanted=wanted, verdict=verdict)


def _interval(values: Float64) -> tuple[float, float | None, float | None]:
    mean = Mean.of([float(value) for value in values])
    if len(values) < 2:
        return mean.value, None, None
    return mean.value, mean.value - mean.half_width, mean.value + mean.half_width


def _decided(holds: bool, fails: bool) -> Verdict:
    return HOLDS if holds else FAILS if fails else UNDECIDED


def _single(values: Float64) -> str:
    return "one run has no interval" if len(values) < 2 else ""
