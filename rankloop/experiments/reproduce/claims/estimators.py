"""Claims on the comparison of estimators, without interventions and with 50."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.experiments.reproduce.claims.base import (
    FAR,
    NEGLIGIBLE,
    SETTLED,
    UNDECIDED,
    Claim,
    Finding,
    above,
    if_seen,
    spread_ratio,
    within,
)
from rankloop.experiments.reproduce.evidence import Evidence, RunCurves
from rankloop.experiments.reproduce.figures.base import AFFINE, AWARE, OBLIVIOUS, POLICY_AWARE
from rankloop.experiments.reproduce.presets import Arm
from rankloop.types import Float64

WHERE = "Figure 2"
# How many queries the paper logs.
PAPER_HORIZON = 100_000_000

STATIC = {name: Arm(learner=name, interventions=0) for name in (AWARE, POLICY_AWARE, AFFINE)}
# Under a static policy the oblivious estimator is the aware one.
STATIC[OBLIVIOUS] = STATIC[AWARE]
ONLINE = {name: Arm(learner=name, interventions=50) for name in (AWARE, OBLIVIOUS, POLICY_AWARE, AFFINE)}


def last_change(curves: RunCurves) -> Float64:
    """What the last factor of ten of logged queries adds, one a run."""
    first = int(np.flatnonzero(curves.times >= curves.times[-1] / 10)[0])
    return curves.last - curves.values[:, first]


def _difference(evidence: Evidence, one: Arm, other: Arm) -> Finding:
    a, b = evidence.pair(one, other)
    return above(f"{one.name} − {other.name} at {a.times[-1]:,}", a.last - b.last)


def _affine_converges_below(evidence: Evidence) -> Sequence[Finding]:
    affine = evidence.curves(STATIC[AFFINE])
    return [
        if_seen(
            within("change of affine over the last factor of ten", last_change(affine), SETTLED),
            int(affine.times[-1]),
            PAPER_HORIZON,
        ),
        above(
            "same optimiser on the true relevance − affine at the end",
            evidence.bound("same_optimiser") - affine.last,
            NEGLIGIBLE,
        ),
    ]


def _not_converged(evidence: Evidence) -> Sequence[Finding]:
    findings = []
    for name in (AWARE, POLICY_AWARE):
        curves = evidence.curves(STATIC[name])
        finding = above(f"change of {name} over the last factor of ten", last_change(curves), SETTLED)
        if curves.times[-1] < PAPER_HORIZON:
            note = f"the claim is about {PAPER_HORIZON:,} queries, these runs end at {curves.times[-1]:,}"
            finding = finding.model_copy(update={"verdict": UNDECIDED, "note": note})
        findings.append(finding)
    return findings


def _aware_above_static(evidence: Evidence) -> Sequence[Finding]:
    return [_difference(evidence, STATIC[AWARE], STATIC[name]) for name in (POLICY_AWARE, AFFINE)]


def _all_gain(evidence: Evidence) -> Sequence[Finding]:
    return [_difference(evidence, ONLINE[name], STATIC[name]) for name in ONLINE]


def _aware_above_all(evidence: Evidence) -> Sequence[Finding]:
    findings = []
    for name in (OBLIVIOUS, POLICY_AWARE, AFFINE):
        aware, other = evidence.pair(ONLINE[AWARE], ONLINE[name])
        difference = aware.over_the_axis() - other.over_the_axis()
        findings.append(above(f"intervention-aware − {name}, mean over the axis", difference))
        findings.append(above(f"intervention-aware − {name}, at the end", aware.last - other.last))
    return findings


def _less_spread(evidence: Evidence) -> Sequence[Finding]:
    findings = []
    for name in (OBLIVIOUS, POLICY_AWARE):
        other, aware = evidence.pair(ONLINE[name], ONLINE[AWARE])
        what = f"spread of {name} over that of intervention-aware"
        findings.append(spread_ratio(what, other, aware, at_least=FAR))
    return findings


CLAIMS = (
    Claim(
        name="affine-converges-below",
        where=WHERE,
        statement="Without interventions, the affine estimator converges to less than the optimum.",
        criterion=f"the last factor of ten changes it by less than {SETTLED:g}, and the same optimiser on "
        f"the true relevance is more than {NEGLIGIBLE:g} above its end",
        cause="A production ranker that shows almost every item now and then leaves little item selection "
        "for the affine estimator to be biased by; and a curve that still rises has not converged.",
        check=_affine_converges_below,
    ),
    Claim(
        name="not-converged",
        where=WHERE,
        statement="Without interventions, neither the policy-aware nor the intervention-aware estimator has "
        "converged after 10⁸ queries.",
        criterion=f"the last factor of ten adds more than {SETTLED:g}, each, at 10⁸ queries",
        cause="Fewer queries in the data than the paper's need fewer clicks: learning may be over by then.",
        check=_not_converged,
    ),
    Claim(
        name="aware-above-static",
        where=WHERE,
        statement="Without interventions, the intervention-aware estimator is above the policy-aware and the "
        "affine one.",
        criterion="at the end, each",
        cause="All three start from the same policy and are stopped by noisy held-out clicks: where the "
        "production ranker exposes most items hardly ever, what is clipped away hides their difference.",
        check=_aware_above_static,
    ),
    Claim(
        name="interventions-help-all",
        where=WHERE,
        statement="50 interventions make every estimator better.",
        criterion="at the end, each of the four estimators",
        cause="The learned policy logs as it is. Once it is peaked, items that it ranks low are hardly shown "
        "again, and estimators that divide by each policy's own exposure learn less from them than before.",
        check=_all_gain,
    ),
    Claim(
        name="aware-above-all",
        where=WHERE,
        statement="With 50 interventions, the intervention-aware estimator learns faster than all others and "
        "ends above them.",
        criterion="on average over the logarithmic axis and at the end, each",
        cause="At the end of a long run all estimators may be limited by the optimiser and its early "
        "stopping instead of by their clicks.",
        check=_aware_above_all,
    ),
    Claim(
        name="aware-less-spread",
        where=WHERE,
        statement="With 50 interventions, the spread over runs of the policy-aware and of the oblivious "
        "estimator is far above that of the intervention-aware one.",
        criterion=f"standard deviation over runs, all times together: more than {FAR:g} times as large, each",
        cause="Runs have production rankers of their own, whose quality differs and is common to all "
        "estimators; early stopping that keeps the start where held-out clicks are noisy bounds what noisy "
        "weights can do.",
        check=_less_spread,
    ),
)
