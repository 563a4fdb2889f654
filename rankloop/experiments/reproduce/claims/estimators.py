"""Claims about where runs start, and about estimators without interventions and with 50."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop.experiments.reproduce.claims.base import (
    FAR,
    NEGLIGIBLE,
    SETTLED,
    Claim,
    Finding,
    above,
    not_refuted_early,
    spread_ratio,
    undecided,
    within,
)
from rankloop.experiments.reproduce.figures import AFFINE, AWARE, OBLIVIOUS, POLICY_AWARE
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.experiments.setup import ORACLE, SUPERVISED
from rankloop.experiments.summary import RunCurves
from rankloop.types import Float64

WHERE = "Figure 2"
# How many queries the paper logs.
PAPER_HORIZON = 100_000_000

STATIC = {name: Arm(learner=name, interventions=0) for name in (AWARE, POLICY_AWARE, AFFINE)}
# Under a static policy, the oblivious estimator equals the aware one.
STATIC[OBLIVIOUS] = STATIC[AWARE]
DEPLOYED = {name: Arm(learner=name, interventions=50) for name in (AWARE, OBLIVIOUS, POLICY_AWARE, AFFINE)}


def last_change(curves: RunCurves) -> Float64:
    """The gain from the last factor of ten of impressions, one value per run."""
    first = int(np.flatnonzero(curves.times >= curves.times[-1] / 10)[0])
    return curves.last - curves.values[:, first]


def _difference(evidence: AllRuns, one: Arm, other: Arm) -> Finding:
    a, b = evidence.pair(one, other)
    return above(f"{one.name} − {other.name} at {a.times[-1]:,}", a.last - b.last)


def _check_affine_limit(evidence: AllRuns) -> Sequence[Finding]:
    affine = evidence.curves(STATIC[AFFINE])
    return [
        not_refuted_early(
            within("change of affine over the last factor of ten", last_change(affine), SETTLED),
            int(affine.times[-1]),
            PAPER_HORIZON,
        ),
        above(
            "oracle − affine at the end",
            evidence.baseline(ORACLE, affine.seeds) - affine.last,
            NEGLIGIBLE,
        ),
    ]


def _check_not_converged(evidence: AllRuns) -> Sequence[Finding]:
    findings = []
    for name in (AWARE, POLICY_AWARE):
        curves = evidence.curves(STATIC[name])
        finding = above(f"change of {name} over the last factor of ten", last_change(curves), SETTLED)
        if curves.times[-1] < PAPER_HORIZON:
            note = f"the claim is about {PAPER_HORIZON:,} queries, these runs end at {curves.times[-1]:,}"
            finding = undecided(finding, note)
        findings.append(finding)
    return findings


def _check_aware_static(evidence: AllRuns) -> Sequence[Finding]:
    return [_difference(evidence, STATIC[AWARE], STATIC[name]) for name in (POLICY_AWARE, AFFINE)]


def _check_all_gain(evidence: AllRuns) -> Sequence[Finding]:
    return [_difference(evidence, DEPLOYED[name], STATIC[name]) for name in DEPLOYED]


def _check_aware_best(evidence: AllRuns) -> Sequence[Finding]:
    findings = []
    for name in (OBLIVIOUS, POLICY_AWARE, AFFINE):
        aware, other = evidence.pair(DEPLOYED[AWARE], DEPLOYED[name])
        difference = aware.mean_over_axis() - other.mean_over_axis()
        findings.append(above(f"intervention-aware − {name}, mean over the axis", difference))
        findings.append(above(f"intervention-aware − {name}, at the end", aware.last - other.last))
    return findings


def _check_less_spread(evidence: AllRuns) -> Sequence[Finding]:
    findings = []
    for name in (OBLIVIOUS, POLICY_AWARE):
        other, aware = evidence.pair(DEPLOYED[name], DEPLOYED[AWARE])
        what = f"spread of {name} / spread of intervention-aware"
        findings.append(spread_ratio(what, other, aware, at_least=FAR))
    return findings


def _between(evidence: AllRuns) -> Sequence[Finding]:
    production = evidence.baseline("start")
    random, supervised, oracle = (evidence.baseline(name) for name in ("random", SUPERVISED, ORACLE))
    return [
        above("production ranker − random", production - random, NEGLIGIBLE),
        above("supervised − production ranker", supervised - production, NEGLIGIBLE),
        above("oracle − production ranker", oracle - production, NEGLIGIBLE),
    ]


CLAIMS = (
    Claim(
        name="production-in-between",
        where="Section 6",
        statement="The production ranker is much better than a random one, and leaves room for improvement.",
        criterion=f"more than {NEGLIGIBLE:g} above random rankings, and as much below the supervised "
        "baseline and below the oracle",
        cause="How much a few labelled queries teach depends on the data.",
        check=_between,
    ),
    Claim(
        name="affine-converges-below",
        where=WHERE,
        statement="Without interventions, the affine estimator converges below the optimum.",
        criterion=f"the last factor of ten changes it by less than {SETTLED:g}, and the oracle is more than "
        f"{NEGLIGIBLE:g} above its end",
        cause="A production ranker that sometimes shows almost every document causes little item-selection "
        "bias in the affine estimator; and a curve that still rises has not converged.",
        check=_check_affine_limit,
    ),
    Claim(
        name="not-converged",
        where=WHERE,
        statement="Without interventions, neither the policy-aware nor the intervention-aware estimator has "
        "converged after 10⁸ queries.",
        criterion=f"for each, the last factor of ten adds more than {SETTLED:g} at 10⁸ queries",
        cause="Data with fewer queries than the paper's needs fewer clicks: learning may have converged.",
        check=_check_not_converged,
    ),
    Claim(
        name="aware-above-static",
        where=WHERE,
        statement="Without interventions, the intervention-aware estimator is above the policy-aware and the "
        "affine one.",
        criterion="above each of them at the end",
        cause="All three start from the same policy and are stopped early by noisy held-out clicks. Where "
        "the production ranker hardly ever exposes most documents, clipping hides their differences.",
        check=_check_aware_static,
    ),
    Claim(
        name="interventions-help-all",
        where=WHERE,
        statement="50 interventions improve every estimator.",
        criterion="each of the four estimators is better at the end",
        cause="The learned policy logs without extra exploration. Once it is peaked, it hardly shows the "
        "documents that it ranks low, and estimators that divide by each policy's own exposure learn less "
        "about them.",
        check=_check_all_gain,
    ),
    Claim(
        name="aware-above-all",
        where=WHERE,
        statement="With 50 interventions, the intervention-aware estimator learns faster than all others and "
        "ends above them.",
        criterion="above each of them, on average over the logarithmic axis and at the end",
        cause="At the end of a long run, the optimiser and its early stopping may limit all estimators more "
        "than their clicks do.",
        check=_check_aware_best,
    ),
    Claim(
        name="aware-less-spread",
        where=WHERE,
        statement="With 50 interventions, the policy-aware and the oblivious estimator spread far more over "
        "runs than the intervention-aware one.",
        criterion=f"for each, a standard deviation over runs, pooled over all times, that is more than "
        f"{FAR:g} times as large",
        cause="Where each run has its own production ranker, differences in their quality are common to all "
        "estimators. Early stopping, which keeps the start when held-out clicks are noisy, limits the effect "
        "of noisy weights.",
        check=_check_less_spread,
    ),
)
