"""The learner: what it learns, when it deploys, when it stops, and that every part is counted once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import save_bias
from rankloop.live import RankRequest, Service, ServiceSettings, Store, open_store
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.live_lists import ListPages, PageScale
from rankloop.live.learner.notes import SETTINGS as LEARNER
from rankloop.live.learner.notes import load_trial, load_trust, save_note
from rankloop.live.learner.pages import PageEvidence, PageView, PartViews
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.overview import read_diary, read_overview
from rankloop.live.page import page_document
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.store.database import read
from rankloop.live.store.events import Reaction, UserEvent, record_events
from rankloop.live.store.policies import current_deployment, deploy, history, load_stored_policy
from rankloop.reports.html import html_page
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


# What a user who clicked a document with these features pays for it.
Amounts = Callable[[np.ndarray], float]


class World:
    """Queries whose first feature is their relevance, and users who click it."""

    def __init__(
        self, store: Store, *, inverted: bool = False, seed: int = 0, amounts: Amounts | None = None
    ) -> None:
        self.amounts = amounts
        self.rng = np.random.default_rng(seed)
        self.features = (self.rng.random((25, 4, 3)) < 0.5).astype(float)
        self.store, self.inverted = store, inverted
        self.service = Service(
            store, ServiceSettings(top=RANKS), rng=np.random.default_rng(seed + 1), names=FEATURES
        )

    def run(self, impressions: int) -> None:
        self.service.refresh()
        events, last = [], None
        for _ in range(impressions):
            query = int(self.rng.integers(len(self.features)))
            features = self.features[query]
            asked = RankRequest(f"q{query}", tuple("wxyz"), tuple(features.tolist()))
            served = self.service.serve(self.service.draft(asked), self.service.choose())
            last = self.service.keep(served)
            for rank, document in enumerate(served.shown.values()):
                relevance = features["wxyz".index(document)][0]
                if self.amounts is not None:
                    relevance = 0.25 + 0.75 * relevance
                chance = (
                    BIAS.alpha[rank] * (1.0 - relevance if self.inverted else relevance) + BIAS.beta[rank]
                )
                if self.rng.random() < chance:
                    events.append(UserEvent(served.id, document))
                    if self.amounts is not None:
                        amount = self.amounts(features["wxyz".index(document)])
                        events.append(UserEvent(served.id, document, "purchase", value=amount))
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
        assert [one["kind"] for one in read_diary(connection)][::-1].count("propose") == 1
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
    """It is a canary already, as if evidence had been wrong: lists tell."""
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
    assert (current.kind, current.who) == ("rollback", "learner")
    world.service.close()


def cheap(features: np.ndarray) -> float:
    """What users like is cheap: shown first, it gets 0.9 clicks and 0.9 in amounts, the rest 0.3 and 3."""
    return 1.0 if features[0] else 10.0


def test_amounts_are_learned_proven_and_deployed_against_clicks(
    store: Store, settings: LearnerSettings
) -> None:
    """The start ranks what users click first; what they pay for is the rest."""
    start = policy_of(linear(2.0, 0.0, 0.0), "start")
    put(store, start)
    world = World(store, amounts=cheap)
    learner = LiveLearner(store, settings)
    for _ in range(20):
        world.run(150)
        learner.step()
        trial = learner.trial
        if trial is not None and trial.stage != "shadow":
            break
    assert trial is not None
    assert (trial.metric, trial.unit, trial.stage) == ("amount", 10.0, "canary")
    assert trial.gained.deploy
    with read(store) as connection:
        learned = load_stored_policy(connection, trial.candidate)
        current = current_deployment(connection)
        trust = load_trust(connection)
    with store.engine.begin() as connection:
        save_note(connection, LEARNER, settings.model_dump())
    assert world.value(learned) < world.value(start) - 0.2  # what is clicked
    assert current is not None
    assert current.numbers["metric"] == "amount"
    assert "amount per impression" in current.why
    assert trust is not None
    assert trust.metric == "amount"
    world.run(150)
    overview = read_overview(store)
    page = html_page(page_document(overview, keys=False))
    assert overview.metric == "amount"
    assert "compared and watched by the amount per page" in page
    assert f"{trial.candidate} is better than start by amount per page" in page
    rates = {rate.policy: rate.rate for rate in overview.rates}
    assert rates[trial.candidate] > rates["start"]
    world.service.close()


@pytest.mark.parametrize(("metric", "ends"), [("clicks", False), ("amount", True)])
def test_a_canary_that_gains_clicks_and_loses_amounts_goes(store: Store, metric: str, ends: bool) -> None:
    """By the clicks of the same pages it would stay, as it did before."""
    old, new = policy_of(linear(-2.0, 0.0, 0.0), "old"), policy_of(linear(2.0, 0.0, 0.0), "new")
    put(store, old)
    put(store, old, new, shares=(0.6, 0.4), kind="canary")
    trial = replace(trial_of(store, "canary"), metric=metric, unit=10.0 if metric == "amount" else 1.0)
    with store.engine.begin() as connection:
        save_note(connection, "trial", trial.to_dict())
    world = World(store, amounts=cheap if metric == "amount" else None)
    learner = LiveLearner(store, SETTINGS.model_copy(update={"canary_impressions": 10**6, "least": 10**6}))
    for _ in range(8):
        world.run(200)
        learner.step()
        if learner.trial is None:
            break
    assert (learner.trial is None) == ends
    with read(store) as connection:
        current = current_deployment(connection)
    assert current is not None
    assert len(current.shares) == (1 if ends else 2)
    world.service.close()


def test_a_trial_by_clicks_ends_when_actions_carry_amounts(store: Store) -> None:
    """A canary is taken back: nothing is known about what it is worth."""
    old, new = policy_of(linear(1.0, 0.0, 0.0), "old"), policy_of(linear(0.5, 0.5, 0.0), "new")
    put(store, old)
    put(store, old, new, shares=(0.8, 0.2))
    with store.engine.begin() as connection:
        deploy(connection, [Share("old", 0.8), Share("new", 0.2, "canary")], who="test", why="a canary")
    trial_of(store, "canary")
    world, learner = World(store), LiveLearner(store, SETTINGS.model_copy(update={"least": 10_000}))
    world.run(100)
    learner.step()
    trial = learner.trial
    assert trial is not None
    assert trial.gain.count == 100
    world.amounts = cheap
    world.run(100)
    (said,) = [line for line in learner.step() if line.startswith("the trial")]
    assert said == (
        "the trial of new ended: what counts is amount now, and it was learned and compared by clicks"
    )
    assert learner.trial is None
    with read(store) as connection:
        assert read_diary(connection)[0]["text"] == said
        current = current_deployment(connection)
    assert current is not None
    assert [share.policy for share in current.shares] == ["old"]
    world.service.close()


def test_amounts_of_1_are_clicks_to_the_bit(location: str) -> None:  # noqa: ARG001
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    part = views(500, new=new, old=old, share=0.3, seed=3)
    known = {"new": new, "old": old}
    clicks, amounts = (PageEvidence(BIAS, 0.4, known.__getitem__, metric) for metric in ("clicks", "amount"))
    assert part.metric == "clicks"
    assert np.array_equal(clicks.gains(part, new, old), amounts.gains(part, new, old))
    assert np.array_equal(clicks.agreement(part, old), amounts.agreement(part, old))


def test_increments_of_amounts_have_the_mean_that_enumeration_says(location: str) -> None:  # noqa: ARG001
    """Each click on document d pays v_d. Five standard errors: a false alarm once in a million runs."""
    new, old = policy_of(linear(1.0, -1.0, 0.5), "new"), policy_of(linear(0.0, 0.5, 0.0), "old")
    # All clicks come from relevance: what a click is worth then depends on the document alone.
    bias, amount = replace(BIAS, beta=np.zeros(RANKS)), np.array([1.0, 30.0, 3.0, 2.0])
    part = views(4000, new=new, old=old, share=0.3, seed=3, bias=bias, amount=amount)
    assert part.metric == "amount"
    evidence = PageEvidence(bias, 0.2, {"new": new, "old": old}.__getitem__, "amount", unit=30.0)
    truth = float((expected_alpha(new) - expected_alpha(old)) @ (amount * RELEVANCE))
    # By clicks, the sign is another one.
    assert truth * (expected_clicks(new) - expected_clicks(old)) < 0.0
    gains = evidence.gains(part, new, old)
    scale = PageScale("amount", usual=5.0, highest=40.0)
    lists = ListPages(part, {"new": new, "old": old}.__getitem__).differences("new", "old", scale)
    for found in (gains, lists.values):
        assert abs(found.mean() - truth) < 5.0 * found.std() / np.sqrt(len(found))


def test_a_trial_of_another_version_ends_with_a_sentence(store: Store) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "old"))
    stored = trial_of(store).to_dict()
    del stored["metric"]
    with store.engine.begin() as connection:
        save_note(connection, "trial", stored)
        save_note(connection, "trust", {"policy": "old", "part": 0})
    learner = LiveLearner(store, SETTINGS)
    assert learner.trial is None
    assert read_overview(store).trial is None
    assert learner.step() == ["the trial of new ended: another version of rankloop began it"]
    assert learner.step() == []
    with read(store) as connection:
        assert read_diary(connection)[0]["kind"] == "ended"


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
        policy_of(linear(0.95, 0.05, 0.0), "new"),
        shares=(0.7, 0.3),
    )
    trial_of(store)
    world = World(store)
    ask = SETTINGS.model_copy(update={"deploy": "ask", "least": 10_000, "level": 1e-9})
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


def views(
    count: int,
    *,
    new: LivePolicy,
    old: LivePolicy,
    share: float,
    seed: int,
    bias: Bias = BIAS,
    amount: np.ndarray | None = None,
) -> PartViews:
    """Pages of a mixture of two policies, with clicks of users whose bias is known."""
    rng = np.random.default_rng(seed)
    problem = RankingProblem("q", tuple("wxyz"), FEATURES, np.eye(4, 3, dtype=np.float32))
    found = []
    for _ in range(count):
        policy = new if rng.random() < share else old
        keys = policy.scores(problem) + rng.gumbel(size=4)
        drawn = np.argsort(-keys)[:RANKS]
        clicked = rng.random(RANKS) < bias.alpha * RELEVANCE[drawn] + bias.beta
        paid = clicked if amount is None else clicked * amount[drawn]
        reactions = tuple(Reaction(bool(one), float(two)) for one, two in zip(clicked, paid, strict=True))
        total = int(clicked.sum())
        found.append(
            PageView(
                problem.id, policy.name, 1, (0, 1), tuple(drawn.tolist()), reactions, total, float(paid.sum())
            )
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
        gains = PageEvidence(BIAS, mean, known.__getitem__).gains(part, new, old)
        assert abs(gains.mean() - truth) < 5.0 * gains.std() / np.sqrt(len(gains))
    # λ̄ is the mean of λ with the weights λ, and the relevance of 4 documents is known.
    rates = expected_alpha(old)
    contrast = rates * (rates - (rates**2).sum() / rates.sum())
    evidence = PageEvidence(BIAS, 0.3, known.__getitem__)
    agreement = evidence.agreement(part, old)
    expected = float(contrast @ RELEVANCE)
    assert abs(agreement.mean() - expected) < 5.0 * agreement.std() / np.sqrt(len(agreement))
    if share:
        pages = ListPages(part, known.__getitem__).differences("new", "old", PageScale("clicks", usual=1.0))
        assert abs(pages.values.mean() - truth) < 5.0 * pages.values.std() / np.sqrt(len(pages.values))
