"""Claims, and the rules that turn their words into an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.experiments.reproduce.claims.power import runs_to_decide
from rankloop.experiments.reproduce.evidence import AllRuns, NotRunError
from rankloop.experiments.summary import Mean
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
            `rankloop.experiments.reproduce.claims.power`.
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
