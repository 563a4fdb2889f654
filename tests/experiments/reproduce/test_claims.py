"""The logic of claims on made-up results: every outcome of every claim can be reached."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rankloop.experiments.reproduce.claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    UNDECIDED,
    Claim,
    Finding,
    Judged,
    judge,
)
from rankloop.experiments.reproduce.claims.base import (
    MOST_RUNS,
    NEGLIGIBLE,
    above,
    below,
    exact,
    not_refuted_early,
    runs_to_decide,
    spread_ratio,
    undecided,
    within,
)
from rankloop.experiments.reproduce.claims.estimators import last_change
from rankloop.experiments.reproduce.figures import AUTHORS_COLTR, FIGURES, arms
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.results import AllRuns, RunCurves

RUNS = 5
SEEDS = tuple(range(RUNS))
TIMES = np.array([10**k for k in range(2, 9)])  # 10² … 10⁸
BY_NAME = {claim.name: claim for claim in CLAIMS}
# Of runs: small, adding up to nothing, the same for all arms unless said otherwise.
NOISE = 0.0001 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
START, ORACLE, SUPERVISED = 0.70, 0.80, 0.85
AUTHORS_COLTR_ONLINE = Arm(learner=AUTHORS_COLTR, interventions="all").name

# Evidence in which everything is as the paper says: means at 10², …, 10⁸.
AS_IN_THE_PAPER = {
    "intervention-aware-0": [0.70, 0.70, 0.71, 0.72, 0.73, 0.74, 0.75],
    "policy-aware-0": [0.70, 0.70, 0.70, 0.71, 0.72, 0.73, 0.74],
    "affine-0": [0.70, 0.71, 0.72, 0.72, 0.72, 0.72, 0.72],
    "intervention-aware-5": [0.70, 0.71, 0.72, 0.74, 0.76, 0.77, 0.80],
    "intervention-aware-10": [0.70, 0.71, 0.73, 0.75, 0.77, 0.79, 0.80],
    "intervention-aware-20": [0.70, 0.72, 0.74, 0.76, 0.78, 0.80, 0.80],
    "intervention-aware-50": [0.70, 0.73, 0.77, 0.799, 0.80, 0.80, 0.80],
    "intervention-aware-100": [0.70, 0.74, 0.78, 0.799, 0.80, 0.80, 0.80],
    "intervention-oblivious-50": [0.70, 0.71, 0.72, 0.73, 0.75, 0.76, 0.77],
    "policy-aware-50": [0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76],
    "affine-50": [0.70, 0.71, 0.72, 0.73, 0.735, 0.74, 0.74],
    "pdgd-online": [0.71, 0.76, 0.79, 0.80, 0.80, 0.80, 0.80],
    "pdgd-100": [0.71, 0.75, 0.77, 0.78, 0.79, 0.76, 0.74],
    "pdgd-0": [0.71, 0.74, 0.76, 0.77, 0.78, 0.75, 0.73],
    "biased-pdgd-online": [0.71, 0.75, 0.77, 0.77, 0.77, 0.77, 0.77],
    "coltr-online": [0.70, 0.71, 0.72, 0.72, 0.72, 0.72, 0.72],
    AUTHORS_COLTR_ONLINE: [0.70, 0.69, 0.67, 0.65, 0.65, 0.65, 0.65],
}
# How many times NOISE the runs of an arm spread.
SPREAD = {"intervention-oblivious-50": 30.0, "policy-aware-50": 30.0}


def curves(mean: list[float] | np.ndarray, spread: float = 1.0, last: int = 10**8) -> RunCurves:
    kept = last >= TIMES
    return RunCurves(TIMES[kept], (np.array(mean) + spread * NOISE[:, None])[:, kept], SEEDS)


def evidence(*, last: int = 10**8, runs: int = RUNS, **changed: list[float] | RunCurves) -> AllRuns:
    """The evidence above, with some arms changed (their names may have ``_`` for ``-``)."""
    content = {**AS_IN_THE_PAPER, **{name.replace("_", "-"): value for name, value in changed.items()}}
    made: dict[Arm, RunCurves] = {}
    for arm in arms(list(FIGURES.values())):
        mean = content[arm.name]
        one = mean if isinstance(mean, RunCurves) else curves(mean, SPREAD.get(arm.name, 1.0), last)
        made[arm] = one.select(SEEDS[:runs], one.times)
    values = {
        "start": START,
        "supervised": SUPERVISED,
        "oracle": ORACLE,
        "best_supervised": 0.86,
        "noise_free": 0.88,
    }
    baselines = {
        seed: {"random": 0.5, **{name: value + NOISE[seed] for name, value in values.items()}}
        for seed in SEEDS[:runs]
    }
    return AllRuns(made, made, baselines)


def outcome(name: str, shown: AllRuns) -> str:
    return judge(BY_NAME[name], shown).outcome


def test_all_claims_are_answered_and_hold_if_everything_is_as_the_paper_says() -> None:
    judged = [judge(claim, evidence()) for claim in CLAIMS]
    wrong = {
        one.name: [f for f in one.findings if f.outcome != HOLDS] for one in judged if one.outcome != HOLDS
    }
    assert not wrong
    assert len(BY_NAME) == len(CLAIMS) == 23


def noisy(name: str) -> RunCurves:
    """An arm whose runs differ so much that nothing can be said of its mean, nor of its spread."""
    return RunCurves(TIMES, np.array(AS_IN_THE_PAPER[name]) + 1_500 * NOISE[:, None], SEEDS)


def flat(value: float) -> list[float]:
    return [value] * len(TIMES)


# What has to be otherwise for a claim not to hold.
DIFFERENT: dict[str, Callable[[], AllRuns]] = {
    "affine-converges-below": lambda: evidence(affine_0=[0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76]),
    "not-converged": lambda: evidence(policy_aware_0=flat(0.72)),
    "aware-above-static": lambda: evidence(affine_0=flat(0.76)),
    "interventions-help-all": lambda: evidence(affine_50=flat(0.71)),
    "aware-above-all": lambda: evidence(affine_50=[0.70, 0.71, 0.72, 0.73, 0.74, 0.75, 0.81]),
    "aware-less-spread": lambda: evidence(policy_aware_50=curves(flat(0.74), 0.5)),
    "interventions-help-aware": lambda: evidence(intervention_aware_5=flat(0.70)),
    "optimum-with-50": lambda: evidence(intervention_aware_50=flat(0.78)),
    "5-need-20-times": lambda: evidence(
        intervention_aware_5=AS_IN_THE_PAPER["intervention-aware-50"],
    ),
    "interventions-keep-spread": lambda: evidence(intervention_aware_5=noisy("intervention-aware-5")),
    "pdgd-ahead-early": lambda: evidence(pdgd_online=flat(0.70)),
    "gap-negligible-later": lambda: evidence(pdgd_online=flat(0.82)),
    "coltr-never-improves": lambda: evidence(
        **{AUTHORS_COLTR_ONLINE: [0.70, 0.73, 0.70, 0.69, 0.69, 0.69, 0.69]}
    ),
    "biased-pdgd-below": lambda: evidence(biased_pdgd_online=flat(0.81)),
    "pdgd-counterfactual-falls": lambda: evidence(pdgd_0=AS_IN_THE_PAPER["pdgd-online"]),
    "pdgd-online-does-not-fall": lambda: evidence(pdgd_online=AS_IN_THE_PAPER["pdgd-100"]),
    "pdgd-counterfactual-above-aware": lambda: evidence(pdgd_0=flat(0.69)),
}
# An arm that the claim rests on, and that says nothing if its runs differ enough.
RESTS_ON = {
    "affine-converges-below": "affine-0",
    "not-converged": "policy-aware-0",
    "aware-above-static": "affine-0",
    "interventions-help-all": "affine-50",
    "aware-above-all": "affine-50",
    "interventions-help-aware": "intervention-aware-5",
    "optimum-with-50": "intervention-aware-50",
    "5-need-20-times": "intervention-aware-50",
    "pdgd-ahead-early": "pdgd-online",
    "gap-negligible-later": "pdgd-online",
    "coltr-never-improves": AUTHORS_COLTR_ONLINE,
    "biased-pdgd-below": "biased-pdgd-online",
    "pdgd-counterfactual-above-aware": "pdgd-0",
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_claim_fails_where_the_world_is_otherwise(name: str) -> None:
    assert outcome(name, DIFFERENT[name]()) == FAILS


@pytest.mark.parametrize(("name", "arm"), RESTS_ON.items())
def test_a_claim_is_undecided_where_runs_differ_too_much(name: str, arm: str) -> None:
    # Runs that go their own ways also between times.
    turned = noisy(arm)
    shuffled = np.array([np.roll(NOISE, k) for k in range(len(TIMES))]).T
    crossing = RunCurves(TIMES, np.array(AS_IN_THE_PAPER[arm]) + 1_500 * shuffled, SEEDS)
    shown = crossing if name in ("affine-converges-below", "not-converged") else turned
    assert outcome(name, evidence(**{arm.replace("-", "_"): shown})) == UNDECIDED


def test_empirical_claims_are_undecided_after_one_run_and_without_their_runs() -> None:
    one, none = evidence(runs=1), AllRuns({}, {}, {})
    needs_runs = [
        claim for claim in CLAIMS if claim.name in DIFFERENT or claim.name == "production-in-between"
    ]
    assert len(needs_runs) == len(CLAIMS) - 5
    for claim in needs_runs:
        judged = judge(claim, one)
        assert judged.outcome == UNDECIDED, claim.name
        assert judge(claim, none).outcome == UNDECIDED
        assert "was not run" in judge(claim, none).findings[0].what or claim.name == "production-in-between"
    for claim in CLAIMS[:5]:
        assert judge(claim, none).outcome == HOLDS


def test_the_start_must_lie_between() -> None:
    shown = evidence()
    low = {seed: {**own, "supervised": own["start"]} for seed, own in shown.baselines.items()}
    assert outcome("production-in-between", AllRuns(shown.learned, shown.logging, low)) == FAILS


def test_coltr_is_judged_as_the_authors_ran_it_with_ours_beside_it() -> None:
    judged = judge(BY_NAME["coltr-never-improves"], evidence())
    assert judged.outcome == HOLDS
    assert [finding.note for finding in judged.findings] == ["with its own normaliser 0.0200"] * 2


def test_short_runs_do_not_refute_what_comes_late() -> None:
    short = evidence(last=10**5)
    for name in ("not-converged", "pdgd-counterfactual-falls", "pdgd-online-does-not-fall"):
        assert outcome(name, short) == UNDECIDED
    assert outcome("gap-negligible-later", evidence(last=10**4)) == UNDECIDED
    note = judge(BY_NAME["gap-negligible-later"], evidence(last=10**4)).findings[0].note
    assert note == "nothing was evaluated at such times"


def data_ratio(judged: Judged) -> float:
    (value,) = [finding.value for finding in judged.findings if "log₁₀" in finding.what]
    assert value is not None
    return value


def test_how_much_more_data_five_need() -> None:
    # 95 % of the gain of 0.1 is 0.795. With 50 it is reached between 10⁴ and 10⁵, at a share of 25/29; with 5
    # between 10⁷ and 10⁸, at 25/30: up to the noise, 10^(7 + 25/30) / 10^(4 + 25/29).
    judged = judge(BY_NAME["5-need-20-times"], evidence())
    assert data_ratio(judged) == pytest.approx(7 + 25 / 30 - (4 + 25 / 29), abs=0.01)
    # Never reached: at least the whole horizon. That is enough to hold, and not enough to fail.
    never = judge(BY_NAME["5-need-20-times"], evidence(intervention_aware_5=flat(0.72)))
    assert data_ratio(never) == pytest.approx(8 - (4 + 25 / 29), abs=0.01)
    assert never.outcome == HOLDS
    late = [0.70, 0.70, 0.70, 0.70, 0.70, 0.70, 0.80]
    both = evidence(intervention_aware_5=flat(0.72), intervention_aware_50=late)
    judged = judge(BY_NAME["5-need-20-times"], both)
    assert judged.outcome == UNDECIDED
    assert "5 of 5 runs with 5 never reached it" in judged.findings[1].note
    # The level is that of the other runs. One with 50 that stays below it gives an upper bound, which cannot
    # confirm the claim, and can refute it.
    low = np.array(AS_IN_THE_PAPER["intervention-aware-50"]) + np.array([-0.02, 0, 0, 0, 0])[:, None]
    below_it = RunCurves(TIMES, low, SEEDS)
    judged = judge(BY_NAME["5-need-20-times"], evidence(intervention_aware_50=below_it))
    assert judged.findings[1].note == "1 of 5 runs with 50 never reached it: upper bounds"
    assert judged.outcome == UNDECIDED
    fast = evidence(intervention_aware_50=below_it, intervention_aware_5=flat(0.80))
    assert judge(BY_NAME["5-need-20-times"], fast).outcome == FAILS
    nothing = judge(BY_NAME["5-need-20-times"], evidence(intervention_aware_50=flat(START)))
    assert (nothing.outcome, nothing.findings[1].outcome) == (FAILS, UNDECIDED)


def spread_curves(rng: np.random.Generator, runs: int, times: int = 1) -> RunCurves:
    return RunCurves(TIMES[:times], rng.normal(0.7, 0.01, (runs, times)), tuple(range(runs)))


def test_spread_of_many_similar_runs_is_not_larger() -> None:
    rng = np.random.default_rng(0)
    finding = spread_ratio("ratio", spread_curves(rng, 200), spread_curves(rng, 200))
    assert finding.outcome == HOLDS
    assert finding.value is not None
    assert finding.high is not None
    # For many normal runs the jackknife is the F interval, here √1.263; its own error is a few per cent.
    assert finding.high / finding.value == pytest.approx(np.sqrt(1.263), abs=0.03)


def test_runs_that_share_their_seeds_have_the_ratio_of_their_spreads_to_the_digit() -> None:
    """Whatever both arms owe to the seed cancels: three times the deviations are three times the spread."""
    other = spread_curves(np.random.default_rng(0), runs=5, times=3)
    one = RunCurves(other.times, 0.7 + 3.0 * (other.values - 0.7), other.seeds)
    finding = spread_ratio("ratio", one, other, at_least=2.0)
    assert (finding.value, finding.low, finding.high) == (pytest.approx(3.0),) * 3
    assert finding.outcome == HOLDS
    flat_runs = RunCurves(other.times, np.full((5, 3), 0.7), other.seeds)
    assert spread_ratio("ratio", one, flat_runs).note == "there is no spread to compare with"
    two = one.select((0, 1), one.times)
    assert spread_ratio("ratio", two, two).note == "an interval needs at least 3 runs"


def test_the_interval_of_a_ratio_covers_it_where_runs_are_paired_and_some_collapse() -> None:
    """Ten runs, of which three in ten collapse in one arm. 300 cases: 90 % ± 1.7 %, so 84 % is 3.5 σ off."""
    rng = np.random.default_rng(0)
    covered, cases, ratio = 0, 300, 2.0
    for _ in range(cases):
        shared = 0.5 * rng.normal(size=(10, 1))
        fall = (rng.random((10, 1)) < 0.3) / np.sqrt(0.21)
        one = ratio * (shared + np.sqrt(0.375) * (rng.normal(size=(10, 4)) + fall))
        other = shared + np.sqrt(0.75) * rng.normal(size=(10, 4))
        seeds = tuple(range(10))
        found = spread_ratio("x", RunCurves(TIMES[:4], one, seeds), RunCurves(TIMES[:4], other, seeds))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= ratio <= found.high
    assert covered / cases > 0.84


def test_the_runs_that_would_decide_decide_in_four_of_five_cases() -> None:
    """A mean one deviation above its threshold: 400 cases, so 80 % ± 2 % and 73 % is 3.5 σ off."""
    rng = np.random.default_rng(0)
    runs = runs_to_decide(1.0, 1.0)
    outcomes = [above("x", rng.normal(1.0, 1.0, runs)).outcome for _ in range(400)]
    assert 0.73 < np.mean([one == HOLDS for one in outcomes]) < 0.87


def test_an_undecided_claim_says_how_many_runs_would_decide_it() -> None:
    values = np.array([-0.01, 0.0, 0.04])
    found = above("x", values)
    assert (found.outcome, found.leans_to_hold) == (UNDECIDED, True)
    assert found.runs_to_decide == runs_to_decide(0.01, float(np.std(values, ddof=1)))
    assert below("x", values).leans_to_hold is False
    assert above("x", np.array([-0.01, 0.01])).runs_to_decide == MOST_RUNS
    assert above("x", values + 1.0).runs_to_decide is None  # decided
    arm = RESTS_ON["biased-pdgd-below"]
    judged = judge(BY_NAME["biased-pdgd-below"], evidence(**{arm: noisy(arm)}))
    assert judged.outcome == UNDECIDED
    assert judged.runs_to_decide == judged.findings[0].runs_to_decide
    # Runs that end too early are not helped by more of them.
    assert judge(BY_NAME["not-converged"], evidence(last=10**5)).runs_to_decide is None


def test_one_finding_can_refute_a_claim_and_all_must_confirm_it() -> None:
    values = np.array([-0.01, 0.0, 0.04])
    near, far = above("near", values), above("far", values + 0.005)
    against = below("against", values + 0.002)
    assert far.runs_to_decide is not None
    assert near.runs_to_decide is not None
    assert far.runs_to_decide < near.runs_to_decide

    def needed(*findings: Finding) -> int | None:
        claim = Claim("x", "", "", "", lambda _: findings, "")
        return judge(claim, evidence()).runs_to_decide

    assert needed(near, far) == near.runs_to_decide
    assert needed(near, far, against) == against.runs_to_decide
    assert needed(near, undecided(far, "too short")) is None


def test_rules_by_hand() -> None:
    values = np.array([0.02, 0.03, 0.04])
    # t at 95 % with two degrees of freedom is 2.92; the standard error 0.01/√3.
    half = 2.92 * 0.01 / np.sqrt(3)
    found = above("x", values, NEGLIGIBLE)
    assert (found.low, found.high) == (
        pytest.approx(0.03 - half, abs=1e-5),
        pytest.approx(0.03 + half, abs=1e-5),
    )
    assert [above("x", values, bound).outcome for bound in (0.01, 0.03, 0.05)] == [HOLDS, UNDECIDED, FAILS]
    assert [below("x", values, bound).outcome for bound in (0.01, 0.03, 0.05)] == [FAILS, UNDECIDED, HOLDS]
    assert [within("x", values, bound).outcome for bound in (0.01, 0.03, 0.05)] == [FAILS, UNDECIDED, HOLDS]
    assert [within("x", -values, bound).outcome for bound in (0.01, 0.03, 0.05)] == [FAILS, UNDECIDED, HOLDS]
    assert [exact("x", error).outcome for error in (1e-10, 1e-8)] == [HOLDS, FAILS]
    fails, holds = above("x", values, 1.0), above("x", values, 0.0)
    assert [not_refuted_early(fails, 10, 100).outcome, not_refuted_early(fails, 100, 100).outcome] == [
        UNDECIDED,
        FAILS,
    ]
    assert not_refuted_early(holds, 10, 100) == holds


def test_a_peak_that_is_chance_does_not_count_as_a_fall() -> None:
    """Flat curves in noise: chosen on other runs, the peak is 0 above the end; on the same, it is not.

    200 cases of 10 runs at 25 times, deviation 1: the mean over cases has an error of √(2 / 2,000) = 0.032.
    """
    rng = np.random.default_rng(0)
    times = np.arange(1, 26)
    cases = [RunCurves(times, rng.normal(size=(10, 25)), tuple(range(10))) for _ in range(200)]
    honest = np.mean([one.at(one.peaks) - one.last for one in cases])
    chosen = np.mean([one.values.mean(axis=0).max() - one.last.mean() for one in cases])
    assert abs(honest) < 3.5 * 0.032
    assert chosen > 10 * 0.032


def test_curves_by_hand() -> None:
    one = RunCurves(np.array([10, 100, 1000]), np.array([[0.0, 1.0, 0.5], [0.2, 0.8, 0.9]]), (0, 1))
    assert last_change(one).tolist() == pytest.approx([-0.5, 0.1])
    # Each run's peak is where the other is highest.
    assert one.peaks.tolist() == [2, 1]
    assert (one.at(one.peaks).tolist(), one.peak_times) == ([0.5, 0.8], "100 to 1,000")
    assert one.select((0,), one.times).peaks.tolist() == [1]
    # Half the sum of neighbours, over two decades.
    assert one.mean_over_axis().tolist() == pytest.approx([(0.5 + 0.75) / 2, (0.5 + 0.85) / 2])
    variances = [0.02, 0.02, 0.08]  # (a − b)² / 2
    assert one.spread == pytest.approx(np.sqrt(sum(variances) / 3))
