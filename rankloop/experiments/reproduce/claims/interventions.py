"""Claims on the number of interventions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.experiments.reproduce.claims.base import (
    FAILS,
    FAR,
    HOLDS,
    NEGLIGIBLE,
    UNDECIDED,
    Claim,
    Finding,
    above,
    below,
    spread_ratio,
)
from rankloop.experiments.reproduce.evidence import Evidence, RunCurves
from rankloop.experiments.reproduce.figures.base import AWARE
from rankloop.experiments.reproduce.figures.interventions import NUMBERS
from rankloop.experiments.reproduce.presets import Arm
from rankloop.types import Float64

WHERE = "Figure 3"
# "More than 20 times the amount of data".
MORE_DATA = 20
# What counts as having reached what 50 interventions reach in the end: so much of their gain over the start.
REACHED = 0.95

BY_NUMBER = {number: Arm(learner=AWARE, interventions=number) for number in NUMBERS}


def first_reached(curves: RunCurves, levels: Float64) -> Float64:
    """When each run first reaches its level, between its times on a logarithmic axis; NaN if it never does.

    Example:
        >>> curves = RunCurves(np.array([10, 1000]), np.array([[0.0, 1.0], [0.0, 0.2]]))
        >>> first_reached(curves, np.array([0.5, 0.5])).round(6)
        array([100.,  nan])
    """
    reached = np.full(len(levels), np.nan)
    log_times = np.log(curves.times)
    for i, (values, level) in enumerate(zip(curves.values, levels, strict=True)):
        there = np.flatnonzero(values >= level)
        if len(there) == 0:
            continue
        k = there[0]
        share = 1.0 if k == 0 else (level - values[k - 1]) / (values[k] - values[k - 1])
        reached[i] = np.exp(log_times[max(k - 1, 0)] * (1.0 - share) + log_times[k] * share)
    return reached


def _five_need_more(evidence: Evidence) -> Sequence[Finding]:
    few, many = evidence.pair(BY_NUMBER[5], BY_NUMBER[50])
    start = evidence.bound("production")
    gain = above("gain of 50 interventions over the production ranker", many.last - start)
    levels = start + REACHED * (many.last - start)
    needed_few, needed_many = first_reached(few, levels), first_reached(many, levels)
    never = np.isnan(needed_few)
    # A run that never gets there needs at least all the data it had.
    ratio = np.log10(np.where(never, few.times[-1], needed_few) / needed_many)
    found = above("log₁₀ of the data that 5 need over the data that 50 need", ratio, np.log10(MORE_DATA))
    if gain.verdict != HOLDS:
        return [
            gain,
            found.model_copy(update={"verdict": UNDECIDED, "note": "no gain to be reached for sure"}),
        ]
    if never.any():
        note = f"{never.sum()} of {len(never)} runs with 5 never got there: at least this much"
        verdict = UNDECIDED if found.verdict == FAILS else found.verdict
        return [gain, found.model_copy(update={"verdict": verdict, "note": note})]
    return [gain, found]


def _more_than_none(evidence: Evidence) -> Sequence[Finding]:
    findings = []
    for number in NUMBERS[1:]:
        some, none = evidence.pair(BY_NUMBER[number], BY_NUMBER[0])
        difference = some.over_the_axis() - none.over_the_axis()
        findings.append(above(f"{number} interventions − none, mean over the axis", difference))
    return findings


def _reach_the_optimum(evidence: Evidence) -> Sequence[Finding]:
    curves = evidence.curves(BY_NUMBER[50])
    behind = evidence.bound("same_optimiser") - curves.last
    return [below("same optimiser on the true relevance − 50 interventions at the end", behind, NEGLIGIBLE)]


def _no_more_spread(evidence: Evidence) -> Sequence[Finding]:
    findings = []
    for number in NUMBERS[1:]:
        some, none = evidence.pair(BY_NUMBER[number], BY_NUMBER[0])
        findings.append(spread_ratio(f"spread with {number} interventions over that with none", some, none))
    return findings


CLAIMS = (
    Claim(
        name="interventions-help-aware",
        where=WHERE,
        statement="Interventions make the intervention-aware estimator learn from less data.",
        criterion="5, 10, 20, 50 and 100 interventions each above none, on average over the logarithmic axis",
        cause="The first interventions deploy policies that were learned from a few hundred clicks.",
        check=_more_than_none,
    ),
    Claim(
        name="optimum-with-50",
        where=WHERE,
        statement="With 50 interventions, the intervention-aware estimator reaches the optimum.",
        criterion=f"at the end less than {NEGLIGIBLE:g} below the same optimiser on the true relevance",
        cause="What is logged by the learned policy itself tells little of the items that it ranks low.",
        check=_reach_the_optimum,
    ),
    Claim(
        name="5-need-20-times",
        where=WHERE,
        statement="5 interventions need more than 20 times the data of 50 to reach the same NDCG.",
        criterion=f"the same NDCG is {REACHED:.0%} of what 50 interventions gain over the production ranker "
        f"in the end; mean of log₁₀ of the ratio, run by run, above log₁₀ {MORE_DATA}",
        cause="The horizon bounds the ratio that can be seen; and where interventions add little to what is "
        "learned without, there is little to be 20 times faster in.",
        check=_five_need_more,
    ),
    Claim(
        name="interventions-keep-spread",
        where=WHERE,
        statement="Interventions hardly increase the spread of the intervention-aware estimator over runs.",
        criterion=f"standard deviation over runs, all times together: less than {FAR:g} times that without",
        cause="Each run's own policies decide what it sees next: runs that begin apart may stay apart.",
        check=_no_more_spread,
    ),
)
