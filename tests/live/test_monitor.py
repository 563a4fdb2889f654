"""The monitor notices harm whoever deployed it and whatever runs; people decide about what they deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.live import RankRequest, Service, Store
from rankloop.live.learner.control import (
    Control,
    deploy_as_person,
    end_trial_as_person,
    pause,
    resume,
    roll_back_as_person,
)
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.monitor import EqualShares, Monitor, judged_pairs
from rankloop.live.learner.notes import MONITOR, TRIAL, load_monitor, load_trial, load_warnings, save_note
from rankloop.live.learner.pages import PartViews
from rankloop.live.learner.stages import without_policy
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.overview import read_diary
from rankloop.live.ranking.deployment import LiveDeployment, Share
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import read
from rankloop.live.store.events import Reaction, UserEvent, record_events
from rankloop.live.store.impressions import StoredProblems, store_impression
from rankloop.live.store.policies import current_deployment, deploy, history, register_policy, roll_back
from tests.live.conftest import linear, put
from tests.live.test_learner import BIAS, SETTINGS, World, expected_clicks, views

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

# Fewer pages to an alarm, so that tests are short; nothing is learned.
WATCHING = SETTINGS.model_copy(update={"pages_per_alarm": 1_000.0, "least": 10**6})
GOOD, BAD = policy_of(linear(3.0, 0.0, 0.0), "good"), policy_of(linear(-3.0, 0.0, 0.0), "bad")
GAINS = np.random.default_rng(0).normal(0.5, 1.0, 2_000)


def current(store: Store) -> LiveDeployment:
    with read(store) as connection:
        found = current_deployment(connection)
    assert found is not None
    return found


def live(store: Store) -> dict[str, str]:
    """What is live, with its role."""
    return {share.policy: share.role for share in current(store).shares}


def deploy_mix(store: Store, *shares: Share, person: bool = False, hold: bool = True) -> None:
    with store.engine.begin() as connection:
        for policy in (GOOD, BAD, replace(GOOD, name="good-explore"), replace(BAD, name="bad-explore")):
            register_policy(connection, policy, "test")
        if person:
            deploy_as_person(connection, shares, who="Ada", why="a test", hold=hold)
        else:
            deploy(connection, shares, who="learner", why="a test")


def run_until_changed(world: World, learner: LiveLearner, pages: int = 1_500) -> list[str]:
    """Pages and steps until something is live that was not, or the warning about it was given."""
    before, said = current(world.store).number, []
    for _ in range(pages // 150):
        world.run(150)
        said += [line for line in learner.step() if not line.startswith("sealed")]
        if said or current(world.store).number != before:
            break
    return said


def put_trial(store: Store, stage: str, candidate: str, baseline: str, *, better: bool = True) -> LiveTrial:
    trial = LiveTrial.begin(
        1,
        candidate,
        baseline,
        bias=BIAS,
        mean=0.5,
        part=0,
        settings=SETTINGS,
        deployment=current(store).number,
    )
    if better:
        trial = trial.after(1, GAINS, 500)
    trial = replace(trial, stage=stage, part=0)  # type: ignore[arg-type]
    with store.engine.begin() as connection:
        save_note(connection, TRIAL, trial.to_dict())
    return trial


@pytest.mark.parametrize("sealing_only", [False, True])
def test_harm_after_a_deployment_is_watched_while_the_next_trial_runs(
    store: Store, sealing_only: bool
) -> None:
    """Preferences turn when the policy is long live; the next candidate is in shadow."""
    put(store, BAD)
    deploy_mix(store, Share("good", 0.6), Share("good-explore", 0.1, "explore"), Share("bad", 0.3, "holdout"))
    put(store, replace(GOOD, name="next"), shares=(1.0,))
    with store.engine.begin() as connection:
        roll_back(connection, who="learner", why="back to the mixture")
    put_trial(store, "shadow", "next", "good", better=False)
    world = World(store)
    learner = LiveLearner(store, WATCHING, sealing_only=sealing_only)
    assert run_until_changed(world, learner, 450) == []
    world.inverted = True
    (said,) = run_until_changed(world, learner, 3_000)
    assert said.startswith("good may do harm: -")
    assert said.endswith("both get equal shares until their lists decide")
    shares = {share.policy: share.share for share in current(store).shares}
    assert shares == pytest.approx({"good": 0.45, "good-explore": 0.1, "bad": 0.45})
    said, *others = run_until_changed(world, learner, 3_000)
    assert said.startswith("rolled back: good does harm: -")
    assert said.endswith("pages with equal shares")
    assert len(others) == (0 if sealing_only else 1), "what the trial compared with is gone"
    assert live(store) == {"bad": "live"}
    assert current(store).numbers["against"] == "bad"
    with read(store) as connection:
        assert "rollback" in {entry["kind"] for entry in read_diary(connection)}
    world.service.close()


@pytest.mark.parametrize(
    ("role", "hold", "stays"), [("canary", True, False), ("live", True, True), ("live", False, False)]
)
def test_a_bad_policy_that_a_person_deployed_is_judged(
    store: Store, role: str, hold: bool, stays: bool
) -> None:
    put(store, GOOD)
    deploy_mix(store, Share("good", 0.7), Share("bad", 0.3, role), person=True, hold=hold)
    world, learner = World(store), LiveLearner(store, WATCHING)
    (said,) = run_until_changed(world, learner)
    assert "bad does harm: -" in said
    with read(store) as connection:
        control, warnings = Control.load(connection), load_warnings(connection, current(store))
    assert live(store) == ({"good": "live", "bad": "live"} if stays else {"good": "live"})
    assert control.holds(current(store)) == hold
    assert [each["policy"] for each in warnings] == (["bad"] if stays else [])
    if stays:
        assert said.endswith("Ada decided on it, so it stays")
        # Said once, however long it stays.
        assert run_until_changed(world, learner, 600) == []
        # Until a person lets the learner decide.
        with store.engine.begin() as connection:
            resume(connection, who="Ada", why="it may go")
        assert run_until_changed(world, learner)[0].startswith("rolled back: bad does harm")
        assert live(store) == {"good": "live"}
    world.service.close()


def test_what_was_suspected_and_does_no_harm_gets_its_shares_back(store: Store) -> None:
    """A false alarm: equal shares, then lists say that it is better."""
    put(store, BAD)
    shares = (Share("good", 0.8), Share("good-explore", 0.1, "explore"), Share("bad", 0.1, "holdout"))
    deploy_mix(store, *shares)
    before = current(store)
    world, learner = World(store), LiveLearner(store, WATCHING)
    world.run(150)
    learner.step()
    with store.engine.begin() as connection:
        monitor = load_monitor(connection)
        (watch,) = monitor.watches
        alarmed = replace(watch, harm=replace(watch.harm, highest=100.0))
        save_note(connection, MONITOR, monitor.replaced(alarmed).to_dict())
    (said,) = learner.step()
    assert said.startswith("good may do harm: ")
    equal = current(store)
    assert {share.policy: share.share for share in equal.shares} == pytest.approx(
        {"good": 0.45, "good-explore": 0.1, "bad": 0.45}
    )
    assert learner.step() == [], "an alarm is acted on once"
    (said,) = run_until_changed(world, learner, 3_000)
    assert said == "good is better compared with bad: the shares before are restored"
    assert current(store).shares == before.shares
    assert (equal.kind, current(store).kind) == ("equal", "restored")
    with read(store) as connection:
        monitor = load_monitor(connection)
        kinds = [entry["kind"] for entry in read_diary(connection)]
    assert monitor.equal is None
    assert (monitor.watches[0].better.count, monitor.watches[0].alarms) == (0, 2)
    assert kinds[:2] == ["restored", "equal"]
    world.service.close()


def test_who_deploys_something_else_ends_the_comparison(store: Store) -> None:
    put(store, BAD)
    deploy_mix(store, Share("good", 0.5), Share("bad", 0.5, "holdout"))
    equal = EqualShares(current(store).number, "good", "bad", (Share("good", 0.9), Share("bad", 0.1)), 1)
    with store.engine.begin() as connection:
        save_note(connection, MONITOR, Monitor(equal=equal).to_dict())
    deploy_mix(store, Share("good", 1.0), person=True)
    assert LiveLearner(store, WATCHING).step() == []
    with read(store) as connection:
        assert load_monitor(connection).equal is None
    assert live(store) == {"good": "live"}


def test_a_canary_that_a_person_holds_stays_if_nothing_is_decided(store: Store) -> None:
    """Lists do not tell it from what is live, or the metric changes: neither is harm."""
    put(store, GOOD, replace(GOOD, name="same"), shares=(0.8, 0.2))
    mixture = (Share("good", 0.8), Share("same", 0.2, "canary"))
    world = World(store)
    for amounts, words in ((None, "its lists do not tell it"), (lambda _: 7.0, "what counts is amount now")):
        deploy_mix(store, *mixture, person=True)
        put_trial(store, "canary", "same", "good", better=False)
        world.amounts = amounts
        world.run(100)
        learner = LiveLearner(store, WATCHING.model_copy(update={"comparison_pages": 50}))
        (text,) = [line for line in learner.step() if line.startswith("the trial")]
        assert words in text
        assert text.endswith("Ada decided on what is live, so it stays")
        assert live(store) == {"good": "live", "same": "canary"}
        assert learner.trial is None
    world.service.close()


@pytest.mark.parametrize("stage", ["shadow", "canary"])
def test_pages_that_some_policy_cannot_rank_do_not_stop_the_learner(store: Store, stage: str) -> None:
    """Anybody who may rank can leave features out, or send absurd ones: other pages count as before."""
    put(store, policy_of(linear(3.0, 0.0, 0.0), "start"))
    deploy_mix(store, Share("good", 0.5), Share("bad", 0.5, "canary" if stage == "canary" else "live"))
    put_trial(store, stage, "bad", "good", better=False)
    world = World(store)
    service = world.service
    for number in range(20):
        given = (None, None) if number % 2 else ([3e38, 1.0, 1.0], [-3e38, 1.0, 1.0])
        draft, choice = service.draft(RankRequest(f"p{number}", ("x", "y"), given)), service.choose()
        service.keep(service.serve(draft, service.fall_back(choice, "values"))).result()
    world.run(100)
    learner = LiveLearner(store, SETTINGS.model_copy(update={"least": 10**6, "level": 1e-9}))
    assert learner.step()[0].startswith("sealed part 1: 120 impressions")
    with read(store) as connection:
        (watch,) = load_monitor(connection).watches
    assert watch.better.count == 100
    assert learner.trial is not None
    assert learner.trial.gain.count == 120
    world.service.close()


def test_pages_whose_candidates_are_all_alike_say_nothing(store: Store) -> None:
    """Both policies draw them alike: the difference is 0, but for rounding, and its bound is 0."""
    deploy_mix(store, Share("good", 0.6), Share("bad", 0.4, "canary"))
    service = Service(store, rng=np.random.default_rng(0))
    rng, learner = np.random.default_rng(1), LiveLearner(store, WATCHING)
    for part in range(2):
        with store.engine.begin() as connection:
            for number in range(200):
                row = rng.normal(size=3).tolist()
                asked = RankRequest(f"q{number}", tuple("vwxyz"), (row,) * 5)
                served = service.serve(service.draft(asked), service.choose())
                store_impression(connection, served, stored=StoredProblems(), repeatable=False)
                if number % 3:
                    record_events(connection, [UserEvent(served.id, served.shown[1])], served.time)
        assert learner.step() == [f"sealed part {part + 1}: 200 impressions, 133 clicks"]
    with read(store) as connection:
        (watch,) = load_monitor(connection).watches
    assert watch.better.count == 400
    assert abs(watch.better.mean) < 1e-9
    service.close()


def test_people_are_told_once_that_their_canary_is_better(store: Store) -> None:
    put(store, BAD)
    deploy_mix(store, Share("bad", 0.7), Share("good", 0.3, "canary"), person=True)
    world, learner = World(store), LiveLearner(store, WATCHING)
    (said,) = run_until_changed(world, learner)
    assert said.startswith("good is better than bad by their lists: +")
    assert run_until_changed(world, learner, 300) == []
    assert live(store) == {"bad": "live", "good": "canary"}
    world.service.close()


def dear(features: np.ndarray) -> float:
    """What users do not click much is what they pay for."""
    return 1.0 if features[0] else 10.0


def test_a_canary_that_gains_amounts_and_breaks_a_guard_goes(store: Store) -> None:
    """It gains amounts and loses clicks; without the guard it would stay."""
    said = {}
    for guard in (None, "clicks>=-1%"):
        put(store, GOOD)
        deploy_mix(store, Share("good", 0.6), Share("bad", 0.4, "canary"))
        world = World(store, amounts=dear)
        learner = LiveLearner(store, WATCHING.model_copy(update={"guard": guard}))
        said[guard] = run_until_changed(world, learner)
        world.service.close()
    assert said[None][0].startswith("bad is better than good by their lists: +")
    assert "amount per page" in said[None][0]
    assert said["clicks>=-1%"] == ["rolled back: bad does harm: clicks>=-1% does not hold compared with good"]
    assert live(store) == {"good": "live"}


def test_a_rollback_by_a_person_while_the_learner_was_down_binds_it(store: Store) -> None:
    """The evidence allows full traffic; the person decided otherwise, and the trial is over."""
    put(store, BAD)
    deploy_mix(store, Share("bad", 0.8), Share("good", 0.2, "canary"))
    put_trial(store, "canary", "good", "bad")
    with store.engine.begin() as connection:
        restored = roll_back_as_person(connection, who="Ada", why="customers complain", hold=True)
    learner = LiveLearner(store, SETTINGS)
    assert learner.step() == ["the trial of good ended: Ada changed what is live (customers complain)"]
    assert learner.step() == []
    assert current(store).number == restored.number
    assert learner.trial is None


def test_what_a_person_holds_is_only_asked_about_until_it_is_resumed(store: Store) -> None:
    put(store, BAD)
    deploy_mix(store, Share("bad", 1.0), person=True)
    put_trial(store, "shadow", "good", "bad")
    learner = LiveLearner(store, SETTINGS)
    (said,) = learner.step()
    assert said.startswith("good is better than bad")
    assert learner.step() == []
    assert live(store) == {"bad": "live"}
    with store.engine.begin() as connection:
        resume(connection, who="Ada", why="go on")
    assert learner.step()[0].startswith("good serves 10% of the traffic")
    assert live(store) == {"bad": "live", "good": "canary"}
    with read(store) as connection:
        kinds = [entry["kind"] for entry in read_diary(connection)]
    assert kinds == ["canary", "resumed", "propose"]


def test_a_paused_learner_deploys_nothing_and_learns_nothing(store: Store) -> None:
    put(store, BAD)
    deploy_mix(store, Share("bad", 1.0))
    put_trial(store, "shadow", "good", "bad")
    with store.engine.begin() as connection:
        pause(connection, who="Ada", why="the sale")
    world = World(store)
    world.run(300)
    learner = LiveLearner(store, SETTINGS.model_copy(update={"least": 1}))
    assert [line for line in learner.step() if not line.startswith("sealed")] == []
    assert live(store) == {"bad": "live"}
    trial = learner.trial
    assert trial is not None
    assert trial.gain.count == len(GAINS) + 300, "evidence is still counted"
    with store.engine.begin() as connection:
        resume(connection, who="Ada", why="the sale is over")
    learner.step()
    assert live(store) == {"bad": "live", "good": "canary"}
    world.service.close()


def test_a_person_ends_a_trial(store: Store) -> None:
    put(store, BAD)
    deploy_mix(store, Share("bad", 0.8), Share("good", 0.2, "canary"))
    put_trial(store, "canary", "good", "bad")
    with store.engine.begin() as connection:
        said = end_trial_as_person(connection, who="Ada", why="it looks odd")
    assert said == "the trial of good ended: Ada ended it: it looks odd"
    assert live(store) == {"bad": "live"}
    with read(store) as connection:
        assert load_trial(connection) is None
        assert read_diary(connection)[0]["text"] == said
    assert LiveLearner(store, WATCHING).step() == []


def test_requests_without_features_do_not_count_against_a_policy(store: Store) -> None:
    """A request that any client may send fails for its own reasons; slow or broken policies go."""
    put(store, GOOD)
    deploy_mix(store, Share("bad", 1.0), person=True, hold=False)
    service = World(store).service
    asked = RankRequest("q", ("w",), ([1.0, 1.0, 1.0],))

    def fail(reason: str, count: int) -> None:
        for _ in range(count):
            choice = service.fall_back(service.choose(), reason)
            service.keep(service.serve(service.draft(asked), choice)).result()

    fail("features", 40)
    fail("values", 40)
    learner = LiveLearner(store, WATCHING)
    learner.step()
    assert live(store) == {"bad": "live"}
    fail("error", 25)
    assert "bad failed or was too slow in 25 of 25 requests" in learner.step()[-1]
    assert live(store) == {"good": "live"}
    service.close()


def deployed(store: Store, *shares: Share, kind: str = "deploy") -> LiveDeployment:
    with store.engine.begin() as connection:
        for share in shares:
            register_policy(connection, policy_of(linear(1.0, 0.0, 0.0), share.policy), "test")
        return deploy(connection, shares, who="learner", why="a test", kind=kind)


def test_what_is_restored_never_has_the_policy_that_goes(store: Store) -> None:
    start = deployed(store, Share("start", 1.0))
    deployed(store, Share("start", 0.9), Share("learned-1", 0.1, "canary"), kind="canary")
    mixed = (Share("learned-1", 0.8), Share("learned-1-explore", 0.1, "explore"))
    full = deployed(store, *mixed, Share("start", 0.1, "holdout"), kind="full")
    canary = deployed(
        store, *mixed, Share("start", 0.05, "holdout"), Share("learned-2", 0.05, "canary"), kind="canary"
    )
    with read(store) as connection:
        # What is live does harm: not the canary deployment of the same policy, but the one before it.
        assert without_policy(connection, full, "learned-1") == restored(start)
        assert without_policy(connection, canary, "learned-1", "start") == restored(start)
        # The canary does harm: the others take over its share.
        left = without_policy(connection, canary, "learned-2")
        assert left is not None
        assert {share.policy for share in left.shares} == {"learned-1", "learned-1-explore", "start"}
        assert sum(share.share for share in left.shares) == pytest.approx(1.0)
        # A better policy that was never live by itself serves everybody.
        heir = without_policy(connection, canary, "learned-1", "learned-2")
        assert heir is not None
        assert heir.shares == (Share("learned-2", 1.0),)
        assert without_policy(connection, start, "start") is None


def restored(deployment: LiveDeployment) -> Any:
    from rankloop.live.learner.stages import Restored

    return Restored(deployment.shares, deployment.number)


def test_a_step_back_after_a_policy_was_taken_away_is_the_step_before_it(store: Store) -> None:
    first = deployed(store, Share("start", 1.0))
    deployed(store, Share("start", 0.7), Share("bad", 0.3))
    with store.engine.begin() as connection:
        from rankloop.live.learner.control import take_away

        take_away(connection, current(store), "bad", why="harm", numbers={})
        back = roll_back(connection, who="Ada", why="back")
    assert back.shares == first.shares
    with read(store) as connection:
        assert [one.kind for one in history(connection)] == ["rollback", "rollback", "deploy", "deploy"]


def test_the_evidence_of_lists_has_the_mean_that_enumeration_says(location: str) -> None:  # noqa: ARG001
    """Five standard errors: a false alarm once in a million runs."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    part = views(4_000, new=new, old=old, share=0.3, seed=3)
    truth = expected_clicks(new) - expected_clicks(old)
    monitor = (
        Monitor()
        .follow(part.shares[1], SETTINGS)
        .after(replace(part, number=1), {"new": new, "old": old}.__getitem__, 0.0, SETTINGS)
    )
    (watch,) = monitor.watches
    assert (watch.policy, watch.against) == ("new", "old")
    # The deviation of a page is at most that of arms: √(2 / 0.3 + 2 / 0.7) for up to two clicks.
    assert abs(watch.better.mean - truth) < 5.0 * np.sqrt(4.0 / 0.3 + 4.0 / 0.7) / np.sqrt(4_000)
    assert watch.better.count == 4_000
    again = monitor.after(replace(part, number=1), {"new": new, "old": old}.__getitem__, 0.0, SETTINGS)
    assert again is monitor, "a part is counted once"
    assert Monitor.from_dict(monitor.to_dict()) == monitor


def failing(part: PartViews, policy: str, every: int) -> PartViews:
    """The same pages, on some of which a policy failed and the fallback ranked."""
    changed = [
        replace(view, policy="fallback", failed=policy)
        if view.policy == policy and not number % every
        else view
        for number, view in enumerate(part.views)
    ]
    return replace(part, views=tuple(changed), number=1)


def test_a_policy_that_fails_now_and_then_is_judged_by_all_its_pages(location: str) -> None:  # noqa: ARG001
    """Were pages of failures left out, a policy would seem worse by the share of its failures."""
    old = policy_of(linear(0.0, 0.5, 0.0), "old")
    same = replace(old, name="new")
    part = failing(views(6_000, new=same, old=old, share=0.5, seed=4), "new", every=2)
    monitor = Monitor().follow(part.shares[1], SETTINGS)
    monitor = monitor.after(part, {"new": same, "old": old}.__getitem__, 0.0, SETTINGS)
    (watch,) = monitor.watches
    assert abs(watch.better.mean) < 5.0 * np.sqrt(8.0 / 6_000)


def test_pages_that_a_policy_cannot_rank_say_nothing_about_it(location: str) -> None:  # noqa: ARG001
    old = policy_of(linear(0.0, 0.5, 0.0), "old")
    other = policy_of(linear(1.0, 1.0, names=("a", "missing")), "new")
    part = failing(views(400, new=replace(old, name="new"), old=old, share=0.5, seed=4), "new", every=1)
    monitor = Monitor().follow(part.shares[1], SETTINGS)
    monitor = monitor.after(part, {"new": other, "old": old}.__getitem__, 0.0, SETTINGS)
    (watch,) = monitor.watches
    assert watch.better.count == 0


def test_amounts_are_capped_by_what_was_known_before(location: str) -> None:  # noqa: ARG001
    """The first part tells the mean order; from then on a page counts ten times that at most."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    policies = {"new": new, "old": old}.__getitem__
    usual = np.array([2.0, 2.0, 2.0, 2.0])
    first = replace(views(300, new=new, old=old, share=0.5, seed=1, amount=usual), number=1)
    huge = replace(views(300, new=new, old=old, share=0.5, seed=2, amount=1e6 * usual), number=2)
    monitor = Monitor().follow(first.shares[1], SETTINGS).after(first, policies, 0.0, SETTINGS)
    assert monitor.metric == "amount"
    assert monitor.watches[0].better.count == 0
    mean = monitor.amount / monitor.orders
    monitor = monitor.after(huge, policies, 0.0, SETTINGS)
    assert monitor.watches[0].better.count == 300
    assert abs(monitor.watches[0].better.mean) < 10.0 * mean / 0.5


def test_one_absurd_amount_does_not_decide_what_is_usual(location: str) -> None:  # noqa: ARG001
    """A wrong or forged value among the first orders, or later: the cap stays near ten usual orders."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    policies = {"new": new, "old": old}.__getitem__
    usual = np.array([2.0, 2.0, 2.0, 2.0])
    monitor = Monitor()
    for number in (1, 2):
        part = replace(views(300, new=new, old=old, share=0.5, seed=number, amount=usual), number=number)
        absurd = replace(part.views[0], reactions=(Reaction(True, 1e12),))
        part = replace(part, views=(absurd, *part.views[1:]))
        monitor = monitor.follow(part.shares[1], SETTINGS).after(part, policies, 0.0, SETTINGS)
        assert 2.0 <= monitor.amount / monitor.orders < 4.0


def test_evidence_is_the_same_in_every_currency(location: str) -> None:  # noqa: ARG001
    """Bets are counted in mean orders: cents or thousands, E is the same."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    found = []
    for unit in (0.01, 1.0, 1_000.0):
        monitor = Monitor()
        for number in (1, 2):
            worth = unit * np.array([2.0, 5.0, 2.0, 2.0])
            part = replace(views(600, new=new, old=old, share=0.5, seed=number, amount=worth), number=number)
            monitor = monitor.follow(part.shares[1], SETTINGS)
            monitor = monitor.after(part, {"new": new, "old": old}.__getitem__, 0.0, SETTINGS)
        (watch,) = monitor.watches
        assert watch.better.count == 600
        found.append((watch.better.log_evidence, watch.worse.log_evidence, watch.harm.log_evidence))
    assert found[0] == pytest.approx(found[1])
    assert found[2] == pytest.approx(found[1])
    assert abs(found[1][0]) > 0.5, "there is something to compare"


def test_people_may_choose_what_counts(location: str) -> None:  # noqa: ARG001
    """Then one event with an amount, which anybody may send who may send events, changes nothing."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    policies = {"new": new, "old": old}.__getitem__
    part = replace(views(300, new=new, old=old, share=0.5, seed=1, amount=np.full(4, 2.0)), number=1)
    for choice, metric, counted in (
        ("auto", "amount", 0),
        ("clicks", "clicks", 300),
        ("amount", "amount", 0),
    ):
        settings = SETTINGS.model_copy(update={"metric": choice})
        monitor = Monitor().follow(part.shares[1], settings).after(part, policies, 0.0, settings)
        assert (monitor.metric, monitor.watches[0].better.count) == (metric, counted)
    clicks = SETTINGS.model_copy(update={"metric": "clicks"})
    again = monitor.after(replace(part, number=2), policies, 0.0, clicks)
    assert (again.metric, again.watches[0].better.count) == ("clicks", 300)


def test_pairs_follow_what_is_live_and_keep_what_is_known(location: str) -> None:  # noqa: ARG001
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    part = replace(views(50, new=new, old=old, share=0.5, seed=1), number=1)
    shares = (Share("new", 0.9), Share("old", 0.1, "holdout"))
    monitor = Monitor().follow(shares, SETTINGS)
    monitor = monitor.after(part, {"new": new, "old": old}.__getitem__, 0.0, SETTINGS)
    more = (Share("new", 0.8), Share("old", 0.1, "holdout"), Share("next", 0.1, "canary"))
    followed = monitor.follow(more, SETTINGS)
    assert judged_pairs(more) == (("new", "old"), ("next", "new"))
    assert followed.watches[0] == monitor.watches[0]
    rarer = SETTINGS.model_copy(update={"pages_per_alarm": 1e9})
    assert monitor.follow(shares, rarer).watches[0].harm.pages_per_alarm == 1e9
    assert followed.watches[1].better.count == 0
    assert followed.follow((Share("next", 1.0),), SETTINGS).watches == ()


def test_the_state_of_another_version_is_begun_again(store: Store) -> None:
    with store.engine.begin() as connection:
        save_note(connection, "monitor", {"part": 7, "old": True})
    with read(store) as connection:
        assert load_monitor(connection) == Monitor()
