"""The learner: what it learns, when it deploys, when it stops, and that every part is counted once."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import save_bias
from rankloop.live import RankRequest, Service, ServiceSettings, Store, open_store
from rankloop.live.learner.increments import agreement_increments, arm_increments, shadow_increments
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.notes import load_trial, save_note
from rankloop.live.learner.pages import PageView, PartViews
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.overview import read_verdicts
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.store.database import read
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.policies import current_deployment, history
from rankloop.types import Bias
from tests.live.conftest import FEATURES, linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

RANKS = 2
# Of four documents of one query.
RELEVANCE = np.array([0.9, 0.1, 0.4, 0.2])
BIAS = Bias(np.array([0.8, 0.5]), np.array([0.1, 0.05]), np.ones(2))
# Trees, from which relevance is guessed by default, learn nothing from a hundred documents.
SETTINGS = LearnerSettings(
    deploy="auto",
    model="linear",
    learning="robust",
    window=0.0,
    least=200,
    canary=0.2,
    canary_impressions=50,
)


class World:
    """Queries whose first feature is their relevance, and users who click it."""

    def __init__(self, store: Store, *, inverted: bool = False, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.features = (self.rng.random((25, 4, 3)) < 0.5).astype(float)
        self.store, self.inverted = store, inverted
        self.service = Service(
            store, ServiceSettings(top=RANKS), rng=np.random.default_rng(seed + 1), names=FEATURES
        )

    def run(self, interactions: int) -> None:
        self.service.refresh()
        events, last = [], None
        for _ in range(interactions):
            query = int(self.rng.integers(len(self.features)))
            features = self.features[query]
            asked = RankRequest(f"q{query}", tuple("wxyz"), tuple(features.tolist()))
            served = self.service.serve(self.service.draft(asked), self.service.choose())
            last = self.service.keep(served)
            for rank, document in enumerate(served.shown.values()):
                relevance = features["wxyz".index(document)][0]
                chance = (
                    BIAS.alpha[rank] * (1.0 - relevance if self.inverted else relevance) + BIAS.beta[rank]
                )
                if self.rng.random() < chance:
                    events.append(UserEvent(served.id, document))
        assert last is not None
        last.result()
        with self.store.engine.begin() as connection:
            record_events(connection, events, time.time())

    def value(self, policy: LivePolicy) -> float:
        """The mean relevance of what the policy is most likely to show first."""
        total = 0.0
        for features in self.features:
            problem = RankingProblem("", tuple("wxyz"), FEATURES, features.astype(np.float32))
            total += features[int(np.argmax(policy.scores(problem)))][0]
        return total / len(self.features)


@pytest.fixture
def settings(tmp_path: Path) -> LearnerSettings:
    """Settings with the true bias of the users."""
    save_bias(BIAS, tmp_path / "bias.json")
    return SETTINGS.model_copy(update={"bias": str(tmp_path / "bias.json")})


def test_a_better_policy_is_learned_proven_and_deployed(store: Store, settings: LearnerSettings) -> None:
    start = policy_of(linear(0.5, 1.0, 0.0), "start")
    put(store, start)
    world, learner = World(store), LiveLearner(store, settings)
    for _ in range(20):
        world.run(150)
        learner.step()
        trial = learner.trial
        if trial is not None and trial.stage == "full":
            break
    assert trial is not None
    with read(store) as connection:
        kinds = [one.kind for one in history(connection)][::-1]
        current = current_deployment(connection)
    assert kinds == ["deploy", "canary", "full"]
    assert current is not None
    assert [(share.policy, share.role) for share in current.shares] == [
        (trial.candidate, "live"),
        (f"{trial.candidate}-explore", "explore"),
        ("start", "holdout"),
    ]
    assert current.numbers["gain"]["lower"] > 0.0
    world.service.refresh()
    assert world.service.mixture is not None
    assert world.value(world.service.mixture.policies[0]) > world.value(start)
    world.service.close()


def test_a_person_is_asked_by_default(store: Store, settings: LearnerSettings) -> None:
    put(store, policy_of(linear(-0.5, 0.25, 0.0), "start"))
    world, learner = World(store), LiveLearner(store, settings.model_copy(update={"deploy": "ask"}))
    said: list[str] = []
    for _ in range(10):
        world.run(150)
        said += learner.step()
        if any("is better than start" in line for line in said):
            break
    assert any("is better than start" in line for line in said)
    with read(store) as connection:
        assert len(history(connection)) == 1
        assert [one["kind"] for one in read_verdicts(connection)][::-1].count("propose") == 1
    world.service.close()


def test_inverted_clicks_cost_no_more_than_the_share_at_risk(store: Store, settings: LearnerSettings) -> None:
    """Users who click what is irrelevant teach the opposite, and clicks alone cannot tell.

    They do not agree with the start, which therefore keeps 90 % of the traffic: at most 10 % of its value is
    lost. If they had nothing to do with relevance at all, twice that would be allowed with a probability of
    at most 1/2; here it is far smaller.
    """
    start = policy_of(linear(0.5, 0.0, 0.0), "start")
    put(store, start)
    world, learner = World(store, inverted=True), LiveLearner(store, settings)
    for _ in range(10):
        world.run(200)
        learner.step()
        world.service.refresh()
        mixture = world.service.mixture
        assert mixture is not None
        shares = {share.policy: share.share for share in mixture.deployment.shares}
        assert shares["start"] >= 1.0 - settings.risk - 1e-9
        value = sum(shares[policy.name] * world.value(policy) for policy in mixture.policies)
        assert value >= (1.0 - settings.risk) * world.value(start) - 1e-9
    assert len(shares) > 1, "nothing was deployed, so that nothing was tested"
    world.service.close()


def trial_of(store: Store, stage: str = "shadow") -> LiveTrial:
    trial = LiveTrial.begin(1, "new", "old", bias=BIAS, mean=0.5, part=0, settings=SETTINGS)
    trial = replace(trial, stage=stage)  # type: ignore[arg-type]
    with store.engine.begin() as connection:
        save_note(connection, "trial", trial.to_dict())
    return trial


def test_a_planted_bad_policy_is_stopped(store: Store) -> None:
    """It is a canary already, as if evidence had been wrong: the arms tell."""
    put(store, policy_of(linear(3.0, 0.0, 0.0), "old"))
    put(
        store,
        policy_of(linear(3.0, 0.0, 0.0), "old"),
        policy_of(linear(-3.0, 0.0, 0.0), "new"),
        shares=(0.8, 0.2),
        kind="canary",
    )
    trial_of(store, "canary")
    world, learner = World(store), LiveLearner(store, SETTINGS)
    for _ in range(10):
        world.run(200)
        learner.step()
        if learner.trial is None:
            break
    with read(store) as connection:
        current = current_deployment(connection)
    assert current is not None
    assert [share.policy for share in current.shares] == ["old"]
    assert current.numbers["arms"]["upper"] < 0.0 or current.numbers["gain"]["upper"] < 0.0
    world.service.close()


def test_a_policy_that_fails_is_rolled_back(store: Store) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "old"))
    put(store, policy_of(linear(2.0, 0.0, 0.0), "new"))
    world = World(store)
    service = world.service
    asked = RankRequest("q", ("w",), ([1.0, 1.0, 1.0],))
    for number in range(30):
        choice = service.choose()
        choice = service.fall_back(choice, "error") if number % 2 else choice
        service.keep(service.serve(service.draft(asked), choice)).result()
    assert LiveLearner(store, SETTINGS).step()[-1:] != []
    with read(store) as connection:
        current = current_deployment(connection)
    assert current is not None
    assert current.kind == "deploy"  # fifteen failures are few
    for _ in range(30):
        service.keep(
            service.serve(service.draft(asked), service.fall_back(service.choose(), "timeout"))
        ).result()
    assert any("failed or was too slow" in line for line in LiveLearner(store, SETTINGS).step())
    with read(store) as connection:
        current = current_deployment(connection)
    assert current is not None
    assert (current.kind, current.shares[0].policy) == ("rollback", "old")
    service.close()


def test_evidence_is_the_same_however_often_the_learner_starts(store: Store) -> None:
    """A step that is repeated, or done by another process, counts each part once: equal to the bit."""
    put(
        store,
        policy_of(linear(1.0, 0.0, 0.0), "old"),
        policy_of(linear(0.5, 0.5, 0.0), "new"),
        shares=(0.7, 0.3),
    )
    trial_of(store)
    world = World(store)
    ask = SETTINGS.model_copy(update={"deploy": "ask", "least": 10_000})
    for _ in range(4):
        world.run(100)
        LiveLearner(store, ask).step()
        with closing(open_store(store.location, log=store.log)) as another:
            LiveLearner(another, ask).step()
    with read(store) as connection:
        often = load_trial(connection)
    trial_of(store)
    LiveLearner(store, ask).step()
    with read(store) as connection:
        once = load_trial(connection)
    assert often is not None
    assert often == once
    assert often.gain.count == 400
    world.service.close()


def views(count: int, *, new: LivePolicy, old: LivePolicy, share: float, seed: int) -> PartViews:
    """Pages of a mixture of two policies, with clicks of users whose bias is known."""
    rng = np.random.default_rng(seed)
    problem = RankingProblem("q", tuple("wxyz"), FEATURES, np.eye(4, 3, dtype=np.float32))
    found = []
    for _ in range(count):
        policy = new if rng.random() < share else old
        keys = policy.scores(problem) + rng.gumbel(size=4)
        drawn = np.argsort(-keys)[:RANKS]
        clicked = rng.random(RANKS) < BIAS.alpha * RELEVANCE[drawn] + BIAS.beta
        pattern = tuple(bool(one) for one in clicked)
        found.append(
            PageView(problem.id, policy.name, 1, (0, 1), tuple(drawn.tolist()), pattern, sum(pattern))
        )
    shares = (Share("new", share), Share("old", 1.0 - share))
    return PartViews(tuple(found), {problem.id: problem}, {1: shares})


def expected_alpha(policy: LivePolicy) -> np.ndarray:
    """The expected α of each document, by enumeration of both ranks."""
    problem = RankingProblem("q", tuple("wxyz"), FEATURES, np.eye(4, 3, dtype=np.float32))
    rates, expected = np.exp(policy.scores(problem)), np.zeros(4)
    for first in range(4):
        for second in set(range(4)) - {first}:
            chance = rates[first] / rates.sum() * rates[second] / (rates.sum() - rates[first])
            expected[first] += chance * BIAS.alpha[0]
            expected[second] += chance * BIAS.alpha[1]
    return expected


def expected_clicks(policy: LivePolicy) -> float:
    """The expected clicks of a page, but for those that come from β: every page has as many."""
    return float(expected_alpha(policy) @ RELEVANCE)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_increments_have_the_mean_that_enumeration_says(location: str, share: float) -> None:  # noqa: ARG001
    """Each mean is within five standard errors: a false alarm once in a million runs."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    part = views(4000, new=new, old=old, share=share or 1e-12, seed=3)
    truth = expected_clicks(new) - expected_clicks(old)
    known = {"new": new, "old": old}
    for mean in (0.0, 0.4):
        gains = shadow_increments(part, new, old, bias=BIAS, mean=mean, policies=known.__getitem__)
        assert abs(gains.mean() - truth) < 5.0 * gains.std() / np.sqrt(len(gains))
    # λ̄ is the mean of λ with the weights λ, and the relevance of 4 documents is known.
    rates = expected_alpha(old)
    contrast = rates * (rates - (rates**2).sum() / rates.sum())
    agreement = agreement_increments(part, old, bias=BIAS, mean=0.3, policies=known.__getitem__)
    expected = float(contrast @ RELEVANCE)
    assert abs(agreement.mean() - expected) < 5.0 * agreement.std() / np.sqrt(len(agreement))
    if share:
        arms = arm_increments(part, "new", "old")
        assert abs(arms.mean() - truth) < 5.0 * arms.std() / np.sqrt(len(arms))
