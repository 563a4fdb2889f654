"""Which share of the traffic each stage gives to whom: what a person deployed keeps what it must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.live import Store
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
        assert by_name(free) == {"learned-2": 0.855, "learned-2-explore": 0.095, "learned-1": 0.05}


def test_the_share_grows_with_what_is_allowed() -> None:
    certain = trial().after(1, GAINS, np.zeros(0), 100)
    canary, full = replace(certain, stage="canary"), replace(certain, stage="full")
    trust = Trust("start", 0)

    def step(one: LiveTrial, kept: float, log_e: float) -> str:
        current = deployment(**{"learned-2": 1.0 - kept, "start": kept})
        room = replace(trust, highest=log_e).room(current, "start", AUTO)
        return one.next_step(AUTO, room)

    assert step(certain, 1.0, 0.0) == "canary"
    assert step(canary, 0.9, 0.0) == "wait"  # proven, but clicks do not agree with the start
    assert step(canary, 0.9, np.log(2.1)) == "full"
    assert step(full, 0.79, np.log(2.1)) == "wait"
    assert step(full, 0.79, np.log(5.0)) == "widen"
    assert step(full, 0.3, np.log(50.0)) == "widen"  # to everything that it can get
    assert step(full, 0.05, np.log(50.0)) == "wait"  # the holdout


def test_a_part_is_counted_once_and_agreement_is_not_forgotten() -> None:
    once = Trust("start", 3).after(4, GAINS)
    assert once.after(4, GAINS) is once
    assert once.share(AUTO) == 1.0
    assert once.after(5, -10.0 * GAINS).share(AUTO) == 1.0
    assert Trust.from_dict(once.to_dict()) == once
    assert Trust("start", 3).after(4, -GAINS).share(AUTO) == AUTO.risk
    assert once.share(AUTO.model_copy(update={"most": 0.3})) == 0.3


def test_what_the_clicks_contradict_the_arms_have_to_prove() -> None:
    """The model of users is enough for a canary; for more, users have to prefer the policy live."""
    doubted = replace(trial(), doubts={"contexts": "queries have different position curves"})
    certain = doubted.after(1, GAINS, np.zeros(0), 100)
    assert str(certain.gained.kind) == "leans better"
    assert certain.gained.reasons == ("contexts",)
    assert certain.next_step(AUTO) == "canary"
    canary = replace(certain, stage="canary", served=10**6)
    assert canary.next_step(AUTO) == "wait"
    assert replace(canary, doubts={}).next_step(AUTO) == "full"
    assert canary.after(2, GAINS, GAINS, 100).next_step(AUTO) == "full"
    ask = AUTO.model_copy(update={"deploy": "ask"})
    assert certain.next_step(ask) == "propose"
    assert LiveTrial.from_dict(certain.to_dict()) == certain
