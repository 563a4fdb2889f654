"""The loop: the order of its events, resuming, and what it does to a policy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import rankloop
from rankloop import online
from rankloop.errors import ModelFileError, RankloopError
from rankloop.estimators import InterventionAware, estimator
from rankloop.evidence import evidence
from rankloop.experiments.baselines import production_ranker
from rankloop.loop import (
    Deployed,
    Evaluated,
    Event,
    Gathered,
    Loop,
    LoopState,
    Trained,
    exponential_times,
)
from rankloop.loop.deployment import Deployment
from rankloop.loop.exploration import AsLearned, Explore, Soft, Spread
from rankloop.loop.loop import policy_id
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.models import Adam
from rankloop.statistics import Statistics
from rankloop.training import CLICK_LIKELIHOOD, DOUBLY_ROBUST, PAPER, Learning, Settings
from rankloop.types import Bias, Float64

QUICK = Learning(Settings(Adam(rate=0.01), epochs=4))
DATA = rankloop.synthetic(queries=120, features=8)
START = rankloop.models.Linear.initialise(8, np.random.default_rng(0))


def loop(**changes: object) -> Loop:
    given = {"learning": QUICK, "interventions": (200, 1000), "horizon": 5000, **changes}
    return Loop(DATA, SimulatedUsers.of(DATA), START, **given)  # type: ignore[arg-type]


def summary(events: list[Event]) -> list[tuple[object, ...]]:
    """What can be compared of events: everything but the arrays, and those by the models they gave."""
    return [
        (
            type(e).__name__,
            e.impressions,
            e.state.learned.fingerprint,
            e.state.scale,
            e.state.statistics.clicks.tobytes(),
            getattr(e, "learned", None),
            # Of an online method NaN, which is not equal to itself.
            str(getattr(e, "estimate", None)),
        )
        for e in events
    ]


def test_events_follow_algorithm_1() -> None:
    events = list(loop().run())
    kinds = [type(event) for event in events]
    phase = [Gathered, Trained, Evaluated]
    assert kinds == [*phase, Deployed, *phase, Deployed, *phase]
    assert [e.impressions for e in events if isinstance(e, Gathered)] == [200, 1000, 5000]
    assert [e.new_impressions for e in events if isinstance(e, Gathered)] == [200, 800, 4000]
    assert events[-1].state.statistics.impressions == 5000
    assert len(events[-1].state.statistics.policies) == 3


def test_without_interventions_one_policy_gathers_everything() -> None:
    events = list(loop(interventions=()).run())
    assert [type(event) for event in events] == [Gathered, Trained, Evaluated]
    assert len(events[-1].state.statistics.policies) == 1


@pytest.mark.parametrize("stop", range(11))
def test_resumed_after_any_event_it_comes_to_the_same_end(stop: int) -> None:
    whole = list(loop().run())
    checkpoint = whole[stop].state.to_bytes()
    resumed = [*whole[: stop + 1], *loop().run(LoopState.from_bytes(checkpoint))]
    assert summary(resumed) == summary(whole)


def test_weights_are_computed_once_per_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: Counter[int] = Counter()
    weights = InterventionAware.weights

    def count(self: InterventionAware, statistics: Statistics, bias: Bias) -> Float64:
        counted[statistics.log_impressions] += 1
        return weights(self, statistics, bias)

    monkeypatch.setattr(InterventionAware, "weights", count)
    events = list(loop().run())
    # One call for the training queries and one for the held-out queries.
    assert counted == {200: 2, 1000: 2, 5000: 2}
    counted.clear()
    trained = next(event for event in reversed(events) if isinstance(event, Trained))
    assert [type(event) for event in loop().run(trained.state)] == [Evaluated]
    assert counted == {5000: 2}


def test_a_damaged_checkpoint_or_another_file_is_refused() -> None:
    data = bytearray(next(loop().run()).state.to_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ModelFileError, match="damaged"):
        LoopState.from_bytes(bytes(data))
    with pytest.raises(ModelFileError, match="expected a file of kind 'loop-state'"):
        LoopState.from_bytes(START.to_bytes())


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert summary(list(loop().run())) == summary(list(loop().run()))
    assert summary(list(loop(seed=1).run())) != summary(list(loop().run()))


def test_aware_equals_oblivious_while_the_policy_is_static() -> None:
    runs = [
        list(loop(interventions=(), estimator=estimator(name)).run())[-1]
        for name in ("intervention-aware", "intervention-oblivious")
    ]
    assert runs[0].state.learned.fingerprint == runs[1].state.learned.fingerprint


def test_the_logging_policy_is_softer_than_the_learned_one() -> None:
    soft = [e.scale for e in loop(exploration=Soft(by=0.4)).run() if isinstance(e, Deployed)]
    as_learned = [e.scale for e in loop(exploration=AsLearned()).run() if isinstance(e, Deployed)]
    assert soft == [0.4, 0.4]
    assert as_learned == [1.0, 1.0]


def test_the_floor_keeps_the_starting_policy_in_play() -> None:
    end = list(loop(floor=0.2).run())[-1].state.statistics
    first, *later = (gathered.impressions for gathered in end.policies.values())
    # 200 at first, then a binomial share of 4,800: six standard deviations are 166.
    assert abs(first - (200 + 0.2 * 4800)) < 166
    assert first + sum(later) == 5000


def test_learning_from_many_clicks_improves_the_policy() -> None:
    events = [e for e in loop(horizon=200_000).run() if isinstance(e, Evaluated)]
    start = rankloop.policy_metrics(START.scores(DATA.test.features), DATA.test)["ndcg@5"]
    assert events[-1].learned > start + 0.03
    assert events[-1].estimate_error > 0
    assert all(0 <= share <= 1 for share in events[-1].support.values())


def test_a_gain_that_held_out_clicks_do_not_show_clearly_leaves_the_starting_policy() -> None:
    cautious = replace(QUICK, settings=replace(QUICK.settings, caution=2.0))
    few, many = (
        list(loop(interventions=(), horizon=horizon, learning=cautious).run())[-1]
        for horizon in (300, 500_000)
    )
    assert few.state.learned.fingerprint == START.fingerprint
    assert many.state.learned.fingerprint != START.fingerprint


def test_the_paper_preset_runs() -> None:
    events = list(loop(learning=PAPER).run())
    assert [e.scale for e in events if isinstance(e, Deployed)] == [1.0, 1.0]
    assert isinstance(events[-1], Evaluated)


def test_presets_give_the_defaults() -> None:
    assert (loop().effective_estimator, loop().effective_exploration) == (QUICK.estimator, Spread())
    paper = loop(learning=PAPER)
    assert (str(paper.effective_estimator), str(paper.effective_exploration)) == (
        "intervention-aware",
        "as-learned",
    )
    told = loop(learning=PAPER, estimator=estimator("affine"), exploration=Soft(by=0.5))
    assert (str(told.effective_estimator), str(told.effective_exploration)) == ("affine", "soft(by=0.5)")


def test_evaluations_measure_and_deploy_nothing() -> None:
    events = list(loop(interventions=(1000,), evaluations=(200, 1000, 3000)).run())
    phase = [Gathered, Trained, Evaluated]
    assert [type(event) for event in events] == [*phase, *phase, Deployed, *phase, *phase]
    assert [e.impressions for e in events if isinstance(e, Evaluated)] == [200, 1000, 3000, 5000]
    # One policy logs until 1000, another from then on.
    assert [p.impressions for p in events[-1].state.statistics.policies.values()] == [1000, 4000]


@pytest.mark.parametrize("interventions", ["all", (), (200, 1000)])
@pytest.mark.parametrize("name", ["pdgd", "biased-pdgd", "coltr(candidates=3)"])
def test_online_methods_learn_through_the_same_loop(name: str, interventions: object) -> None:
    made = loop(method=online.method(name), interventions=interventions, evaluations=(500,))
    events = list(made.run())
    end = events[-1].state
    assert end.impressions == events[-1].impressions == 5000
    assert end.learned.fingerprint != START.fingerprint
    deployed = [e.impressions for e in events if isinstance(e, Deployed)]
    assert deployed == ([] if interventions == "all" else list(interventions))  # type: ignore[call-overload]
    logging = {"all": end.learned.fingerprint, (): START.fingerprint}
    assert interventions not in logging or end.logging.fingerprint == logging[interventions]  # type: ignore[index]
    for event in events:
        resumed = list(made.run(LoopState.from_bytes(event.state.to_bytes())))
        assert not resumed or summary(resumed)[-1] == summary(events)[-1]


def test_online_through_the_loop_is_the_online_method_itself() -> None:
    made = loop(method=online.method("pdgd"), interventions="all", evaluations=(100, 700))
    end = list(made.run())[-1].state
    traffic = online.Traffic.of(DATA, "paper@5")
    begun = made._beginning().online
    assert begun is not None
    alone, _counts = online.interact(online.method("pdgd"), begun, traffic, 5000)
    assert alone.learned.fingerprint == end.learned.fingerprint


def test_what_online_methods_cannot_do_is_refused() -> None:
    with pytest.raises(RankloopError, match="interventions at all times are for online methods"):
        loop(interventions="all")
    with pytest.raises(RankloopError, match="a floor is for estimators"):
        loop(method=online.method("pdgd"), floor=0.1)


def test_too_few_impressions_leave_the_starting_policy() -> None:
    events = list(loop(interventions=(1,), horizon=2).run())
    assert all(e.epochs == () for e in events if isinstance(e, Trained))
    assert events[-1].state.learned is START


def test_exponential_times_are_evenly_spread_in_the_exponent() -> None:
    assert exponential_times(100, 1_000_000, 4) == (100, 1000, 10_000, 100_000)
    assert exponential_times(100, 1_000_000, 0) == ()


@pytest.mark.parametrize("name", ["interventions", "evaluations"])
@pytest.mark.parametrize("times", [(0,), (5, 5), (10, 4), (5000,), (6000,)])
def test_bad_times_are_refused(name: str, times: tuple[int, ...]) -> None:
    with pytest.raises(RankloopError, match=f"{name} must be ascending"):
        loop(**{name: times})


def test_a_bad_floor_is_refused() -> None:
    with pytest.raises(RankloopError, match="floor must be"):
        loop(floor=1.0)


def test_a_share_of_the_impressions_explores_and_both_policies_have_their_own_statistics() -> None:
    explored = Explore(to=0.5, share=0.25)
    events = list(loop(exploration=explored, learning=replace(QUICK, name="quick")).run())
    deployed = [event for event in events if isinstance(event, Deployed)]
    assert [event.explored for event in deployed] == [0.25, 0.25]
    moved = [event for event in deployed if event.scale < 1.0]
    assert moved, "the learned policies must be more peaked than what explores"
    last = events[-1].state
    soft, sharp = (last.statistics.policies[policy_id(last.logging, scale)] for scale in (last.scale, 1.0))
    gathered = soft.impressions + sharp.impressions
    assert gathered == 4000
    # Five standard deviations: a false alarm in 1,700,000 seeds.
    assert abs(soft.impressions - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)
    assert soft.exposure.alpha.std() < sharp.exposure.alpha.std()


def test_what_users_are_shown_is_the_mixture() -> None:
    events = list(loop(exploration=Explore(to=0.5, share=0.25)).run())
    last = events[-1]
    assert isinstance(last, Evaluated)
    scores = last.state.logging.scores(DATA.test.features)
    soft, sharp = (
        rankloop.policy_metrics(scale * scores, DATA.test, ["ndcg@5"])["ndcg@5"]
        for scale in (last.state.scale, 1.0)
    )
    assert soft < sharp
    assert last.logging == pytest.approx(0.25 * soft + 0.75 * sharp, abs=1e-12)


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_doubly_robust_loop_resumes_with_its_guess(stop: int) -> None:
    settings = replace(DOUBLY_ROBUST.settings, epochs=4)
    quick = replace(DOUBLY_ROBUST, settings=settings, least_held_out=1)
    whole = list(loop(learning=quick).run())
    assert isinstance(whole[stop], Trained | Evaluated)
    guess = whole[stop].state.guess
    assert guess is not None
    assert guess.spec == "network"
    checkpoint = whole[stop].state.to_bytes()
    resumed = [*whole[: stop + 1], *loop(learning=quick).run(LoopState.from_bytes(checkpoint))]
    assert summary(resumed) == summary(whole)


@pytest.mark.parametrize("revert", [True, False])
def test_what_was_convincing_once_is_kept_unless_the_loop_reverts(revert: bool) -> None:
    """The second training convinces nobody: its caution is out of reach."""
    bold = replace(QUICK, settings=replace(QUICK.settings, caution=0.0), revert=revert)
    shy = replace(bold, settings=replace(bold.settings, caution=1e9))
    deployed = next(event for event in loop(learning=bold).run() if isinstance(event, Deployed))
    assert deployed.state.learned.fingerprint != START.fingerprint
    later = next(event for event in loop(learning=shy).run(deployed.state) if isinstance(event, Trained))
    expected = START if revert else deployed.state.learned
    assert later.state.learned.fingerprint == expected.fingerprint


def test_a_rule_of_evidence_says_how_far_to_go_and_the_loop_resumes_from_there() -> None:
    bold = Deployment(evidence=evidence("off"), trust=None, folds=1)
    given = {"learning": replace(QUICK, name="quick"), "deployment": bold}
    whole = list(loop(**given).run())
    steps = [event.step for event in whole if isinstance(event, Trained)]
    assert any(step is not None and step.share > 0.0 for step in steps)
    stop = next(i for i, event in enumerate(whole) if isinstance(event, Deployed))
    checkpoint = LoopState.from_bytes(whole[stop].state.to_bytes())
    assert summary([*whole[: stop + 1], *loop(**given).run(checkpoint)]) == summary(whole)


CROSS_FITTED = replace(CLICK_LIKELIHOOD, least_impressions=100)
PRODUCTION = production_ranker(DATA, n_queries=10)


def learned_from(horizon: int, **changes: object) -> list[Event]:
    made = replace(loop(horizon=horizon, learning=CROSS_FITTED, **changes), start=PRODUCTION)
    return list(made.run())


@pytest.mark.parametrize("stop", range(11))
def test_a_cross_fitted_loop_resumes_with_what_is_unseen(stop: int) -> None:
    whole = learned_from(5000)
    assert whole[-1].state.unseen is not None
    checkpoint = LoopState.from_bytes(whole[stop].state.to_bytes())
    made = replace(loop(learning=CROSS_FITTED), start=PRODUCTION)
    assert summary([*whole[: stop + 1], *made.run(checkpoint)]) == summary(whole)


def test_the_default_learns_from_the_likelihood_of_clicks() -> None:
    assert Loop(DATA, SimulatedUsers.of(DATA), PRODUCTION, 1000).learning is CLICK_LIKELIHOOD
    events = learned_from(20_000)
    last = events[-1]
    assert isinstance(last, Evaluated)
    start = rankloop.policy_metrics(PRODUCTION.scores(DATA.test.features), DATA.test)["ndcg@5"]
    assert last.learned > start + 0.01
    assert last.estimate_error > 0
    assert last.state.guess is not None
    assert last.state.learned.hidden == (160, 160)  # type: ignore[attr-defined]


def test_what_clicks_do_not_speak_for_is_not_deployed() -> None:
    shy = replace(CROSS_FITTED, settings=replace(CROSS_FITTED.settings, caution=1e9))
    events = list(replace(loop(learning=shy), start=PRODUCTION).run())
    assert {event.state.learned.fingerprint for event in events} == {PRODUCTION.fingerprint}
    assert any(event.epochs for event in events if isinstance(event, Trained))


def test_an_estimator_or_a_rule_of_evidence_learns_from_weights() -> None:
    weighted = loop(learning=CLICK_LIKELIHOOD, estimator=estimator("affine")).effective_learning
    ruled = loop(learning=CLICK_LIKELIHOOD, deployment=Deployment()).effective_learning
    assert (weighted.cross_fitted, str(weighted.estimator)) == (False, "affine")
    assert ruled == DOUBLY_ROBUST
