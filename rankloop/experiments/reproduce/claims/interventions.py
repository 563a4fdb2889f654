"""Claims about the number of interventions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.experiments.reproduce.claims.base import (
    FAILS,
    FAR,
    HOLDS,
    NEGLIGIBLE,
    Claim,
    Finding,
    above,
    below,
    spread_ratio,
    undecided,
)
from rankloop.experiments.reproduce.figures import AWARE, NUMBERS
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.experiments.setup import ORACLE
from rankloop.experiments.summary import RunCurves, others_mean
from rankloop.types import Float64

WHERE = "Figure 3"
# "More than 20 times the amount of data".
MORE_DATA = 20
# The share of the final gain of 50 interventions over the start that counts as having reached it.
REACHED = 0.95

BY_NUMBER = {number: Arm(learner=AWARE, interventions=number) for number in NUMBERS}


def first_reached(curves: RunCurves, levels: Float64) -> Float64:
    """When each run first reaches its level, interpolated on a logarithmic axis; NaN if it never does.

    Example:
        >>> curves = RunCurves(np.array([10, 1000]), np.array([[0.0, 1.0], [0.0, 0.2]]), seeds=(0, 1))
        >>> first_reached(curves, np.array([0.5, 0.5])).round(6)
        array([100.,  nan])
    """
    reached = np.full(len(levels), np.nan)
    log_times = np.log(curves.times)
    for i, (values, level) in enumerate(zip(curves.values, levels, strict=True)):
        at_level = np.flatnonzero(values >= level)
        if len(at_level) == 0:
            continue
        k = at_level[0]
        share = 1.0 if k == 0 else (level - values[k - 1]) / (values[k] - values[k - 1])
        reached[i] = np.exp(log_times[max(k - 1, 0)] * (1.0 - share) + log_times[k] * share)
    return reached


def _check_data_ratio(evidence: AllRuns) -> Sequence[Finding]:
    few, many = evidence.pair(BY_NUMBER[5], BY_NUMBER[50])
    start = evidence.baseline("start", many.seeds)
    gain = above("gain of 50 interventions over the production ranker", many.last - start)
    # What a run has to reach is not its own end, which chance may have raised.
    levels = start + REACHED * others_mean(many.last - start)
    needed_few, needed_many = first_reached(few, levels), first_reached(many, levels)
    never, never_many = np.isnan(needed_few), np.isnan(needed_many)
    # A run that never reaches the level needs at least all the data it had.
    ratio = np.log10(
        np.where(never, few.times[-1], needed_few) / np.where(never_many, many.times[-1], needed_many)
    )
    found = above("log₁₀ of the ratio of the data that 5 and 50 need", ratio, np.log10(MORE_DATA))
    if gain.outcome != HOLDS:
        return [gain, undecided(found, "there is no certain gain to reach")]
    # Where 5 never reach it the ratio is a lower bound, where 50 never do an upper one.
    bounds = (
        (5, never, "lower", FAILS),
        (50, never_many, "upper", HOLDS),
    )
    notes = [
        f"{missed.sum()} of {len(missed)} runs with {number} never reached it: {side} bounds"
        for number, missed, side, _ in bounds
        if missed.any()
    ]
    noted = found.model_copy(update={"note": "; ".join(notes)})
    if any(missed.any() and found.outcome == outcome for _, missed, _, outcome in bounds):
        return [gain, undecided(noted, noted.note)]
    return [gain, noted]


def _check_gain(evidence: AllRuns) -> Sequence[Finding]:
    findings = []
    for number in NUMBERS[1:]:
        some, none = evidence.pair(BY_NUMBER[number], BY_NUMBER[0])
        difference = some.mean_over_axis() - none.mean_over_axis()
        findings.append(above(f"{number} interventions − none, mean over the axis", difference))
    return findings


def _check_optimum(evidence: AllRuns) -> Sequence[Finding]:
    curves = evidence.curves(BY_NUMBER[50])
    behind = evidence.baseline(ORACLE, curves.seeds) - curves.last
    return [below("oracle − 50 interventions at the end", behind, NEGLIGIBLE)]


def _check_spread(evidence: AllRuns) -> Sequence[Finding]:
    findings = []
    for number in NUMBERS[1:]:
        some, none = evidence.pair(BY_NUMBER[number], BY_NUMBER[0])
        findings.append(spread_ratio(f"spread with {number} interventions / spread with none", some, none))
    return findings


CLAIMS = (
    Claim(
        name="interventions-help-aware",
        where=WHERE,
        statement="With interventions, the intervention-aware estimator needs less data.",
        criterion="5, 10, 20, 50 and 100 interventions are each above none, on average over the logarithmic "
        "axis",
        cause="The first interventions deploy policies that were learned from only a few hundred clicks.",
        check=_check_gain,
    ),
    Claim(
        name="optimum-with-50",
        where=WHERE,
        statement="With 50 interventions, the intervention-aware estimator reaches the optimum.",
        criterion=f"at the end less than {NEGLIGIBLE:g} below the oracle",
        cause="Clicks that the learned policy logs itself say little about the documents that it ranks low.",
        check=_check_optimum,
    ),
    Claim(
        name="5-need-20-times",
        where=WHERE,
        statement="5 interventions need more than 20 times the data of 50 to reach the same NDCG.",
        criterion=f"the same NDCG is {REACHED:.0%} of the final gain of the other runs with 50 interventions "
        f"over the production ranker; the mean over runs of log₁₀ of the ratio is above log₁₀ {MORE_DATA}",
        cause="The horizon limits the ratio that can be observed; and where interventions add little, there "
        "is little gain to reach 20 times faster.",
        check=_check_data_ratio,
    ),
    Claim(
        name="interventions-keep-spread",
        where=WHERE,
        statement="Interventions hardly increase the spread of the intervention-aware estimator over runs.",
        criterion=f"a standard deviation over runs, pooled over all times, of less than {FAR:g} times that "
        "without interventions",
        cause="The policies of a run decide what it logs next, so runs that differ early may stay different.",
        check=_check_spread,
    ),
)
