"""Which share of the traffic each stage gives to whom: what a person deployed keeps what it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.live import Store
from rankloop.live.learner.live_lists import Observations
from rankloop.live.learner.metric import Guard
from rankloop.live.learner.monitor import Watch
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.stages import full_shares, trusted_policy, with_canary
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import LiveDeployment, Share, check_shares
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.policies import deploy
from rankloop.types import Bias
from tests.live.conftest import linear, put

AUTO = LearnerSettings(deploy="auto", canary_impressions=100)
BIAS = Bias(np.array([0.8]), np.array([0.1]), np.ones(1))
# Increments whose mean is clearly above 0.
GAINS = np.random.default_rng(0).normal(0.5, 1.0, 2000)


def trial(baseline: str = "start", **changes: object) -> LiveTrial:
    begun = LiveTrial.begin(1, "learned-2", baseline, bias=BIAS, mean=0.5, part=0, settings=AUTO)
    return replace(begun, **changes)  # type: ignore[arg-type]


def deployment(**shares: float) -> LiveDeployment:
    return LiveDeployment(
        1, tuple(Share(name, share) for name, share in shares.items()), "deploy", 0.0, "", ""
    )


def by_name(shares: list[Share]) -> dict[str, float]:
    return {share.policy: round(share.share, 9) for share in check_shares(shares)}


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (1.0, {"learned-1": 0.45, "start": 0.45, "learned-2": 0.1}),
        (0.5, {"learned-1": 0.4, "start": 0.5, "learned-2": 0.1}),
        (0.05, {"start": 0.95, "learned-2": 0.05}),
    ],
)
def test_a_canary_takes_from_others_what_they_may_give(allowed: float, expected: dict[str, float]) -> None:
    current = deployment(**{"learned-1": 0.5, "start": 0.5})
    assert by_name(with_canary(current, trial(), 0.1, trusted="start", allowed=allowed)) == expected


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_what_learned_policies_may_not_get_stays_with_a_person_s_policy(store: Store) -> None:
    for name in ("start", "learned-1", "learned-2"):
        put(store, policy_of(linear(1.0, 0.0, 0.0), name))
    with store.engine.begin() as connection:
        deploy(connection, [Share("learned-1", 1.0)], who="Ada", why="a person")
        deploy(connection, [Share("learned-2", 1.0)], who="learner", why="not a person")
        assert trusted_policy(connection) == "learned-1"
        limited = full_shares(connection, trial(), AUTO, trusted="start", allowed=0.4)
        assert by_name(limited) == {"learned-2": 0.36, "learned-2-explore": 0.04, "start": 0.6}
        free = full_shares(connection, trial("learned-1"), AUTO, trusted="start", allowed=1.0)
        assert by_name(free) == {"learned-2": 0.882, "learned-2-explore": 0.098, "learned-1": 0.02}


def test_the_share_grows_with_what_is_allowed() -> None:
    certain = trial().after(1, GAINS, 100)
    canary, full = replace(certain, stage="canary"), replace(certain, stage="full")
    trust = Trust("start", 0)

    def step(one: LiveTrial, kept: float, log_e: float) -> str:
        current = deployment(**{"learned-2": 1.0 - kept, "start": kept})
        room = replace(trust, highest=log_e).room(current, "start", AUTO)
        return one.next_step(AUTO, room, watched(0.5))

    assert step(certain, 1.0, 0.0) == "canary"
    assert step(canary, 0.9, 0.0) == "wait"  # proven, but clicks do not agree with the start
    assert step(canary, 0.9, np.log(2.1)) == "full"
    assert step(full, 0.79, np.log(2.1)) == "wait"
    assert step(full, 0.79, np.log(5.0)) == "widen"
    assert step(full, 0.3, np.log(50.0)) == "widen"  # to everything that it can get
    assert step(full, 0.02, np.log(50.0)) == "wait"  # the holdout


def test_a_part_is_counted_once_and_agreement_is_not_forgotten() -> None:
    once = Trust("start", 3).after(4, GAINS)
    assert once.after(4, GAINS) is once
    assert once.share(AUTO) == 1.0
    assert once.after(5, -10.0 * GAINS).share(AUTO) == 1.0
    assert Trust.from_dict(once.to_dict()) == once
    assert Trust("start", 3).after(4, -GAINS).share(AUTO) == AUTO.risk
    assert once.share(AUTO.model_copy(update={"most": 0.3})) == 0.3


def watched(mean: float, guard: str = "", tolerated: float = 0.0) -> Watch:
    """Evidence by lists whose mean is this."""
    settings = AUTO.model_copy(update={"guard": guard or None})
    values, bound = np.clip(np.random.default_rng(1).normal(mean, 1.0, 2_000), -3.0, 3.0), np.full(2_000, 3.0)
    pages = Observations(values, bound, bound)
    guarded = [Observations(np.clip(values + tolerated, -3.0, 3.0), bound, bound)] if guard else []
    return Watch.begin("learned-2", "start", settings).add(pages, guarded, 0.0)


def test_the_model_of_users_opens_a_canary_and_lists_give_more() -> None:
    certain = trial().after(1, GAINS, 100)
    doubted = replace(certain, doubts={"contexts": "queries have different position curves"})
    assert str(doubted.gained.kind) == "leans better"
    assert doubted.gained.reasons == ("contexts",)
    for each in (certain, doubted):
        assert each.next_step(AUTO) == "canary"
        canary = replace(each, stage="canary", served=10**6)
        assert canary.next_step(AUTO) == "wait"
        assert canary.next_step(AUTO, watch=watched(0.0)) == "wait"
        assert canary.next_step(AUTO, watch=watched(0.5)) == "full"
        assert canary.next_step(AUTO, watch=watched(-0.5)) == "stop"
        assert replace(canary, served=10).next_step(AUTO, watch=watched(0.5)) == "wait"
    ask = AUTO.model_copy(update={"deploy": "ask"})
    assert certain.next_step(ask) == "propose"
    assert LiveTrial.from_dict(certain.to_dict()) == certain


def test_the_model_of_users_may_close_a_canary_that_lists_do_not_defend() -> None:
    canary = replace(trial().after(1, -GAINS, 100), stage="canary", served=10**6)
    assert canary.next_step(AUTO, watch=watched(0.0)) == "stop"
    assert canary.next_step(AUTO, watch=watched(0.5)) == "full"


def test_a_canary_that_lists_do_not_tell_ends() -> None:
    canary = replace(trial().after(1, GAINS, 100), stage="canary", served=10**6)
    few = AUTO.model_copy(update={"comparison_pages": 2_000})
    assert canary.next_step(few, watch=watched(0.0)) == "end"
    assert canary.next_step(few, watch=watched(0.5)) == "full"


def test_a_later_trial_needs_more() -> None:
    """All trials together are wrong as rarely as one: E that is enough for the first is not for the tenth."""
    watch = watched(0.1)
    assert np.log(33.0) < watch.better.highest < np.log(1_000.0)
    canaries = [
        replace(
            LiveTrial.begin(number, "learned-2", "start", bias=BIAS, mean=0.5, part=0, settings=AUTO),
            stage="canary",
            served=10**6,
        )
        for number in (1, 10)
    ]
    assert [each.next_step(AUTO, watch=watch) for each in canaries] == ["full", "wait"]


def test_guards_have_to_hold_and_a_broken_one_is_a_reason_to_stop() -> None:
    canary = replace(trial().after(1, GAINS, 100), stage="canary", served=10**6)
    assert canary.next_step(AUTO, watch=watched(0.5, "amount>=-1%", 0.1)) == "full"
    assert canary.next_step(AUTO, watch=watched(0.5, "amount>=-1%", -0.5)) == "wait"
    assert canary.next_step(AUTO, watch=watched(0.5, "amount>=-1%", -1.5)) == "stop"


@pytest.mark.parametrize("text", ["clicks", "clicks>=1%", "orders>=-1%", "clicks>=-100%", "clicks>=-0%"])
def test_a_guard_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the largest loss of a metric"):
        LearnerSettings(guard=text)
    assert str(Guard.parse("clicks >= -1 %")) == "clicks>=-1%"
