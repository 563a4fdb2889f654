"""Steps from the start towards what was learned: as far as evidence and trust allow."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.clicks import bias_of, gather, users
from rankloop.errors import RankloopError
from rankloop.evidence import (
    ClickNoise,
    LossLimit,
    Trial,
    choose_step,
    evidence,
    worst_loss,
)
from rankloop.evidence.steps import SHARES
from rankloop.models import Blend, Linear
from rankloop.policies import expected_rank_weights
from rankloop.rank_weights import dcg
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Model
from rankloop.value import HeldOutClicks

PAPER = users("paper@5")
OFFSETS = np.arange(0, 801, 10)
# Relevance is the first feature; the start follows the second one as well, and a bad policy only that.
START, GOOD, BAD = (
    Linear(2, np.array([first, second, 0.0])) for first, second in ((1.5, 1.5), (6.0, 0.0), (-3.0, 3.0))
)


def world(impressions: int, seed: int = 0) -> tuple[np.ndarray, HeldOutClicks]:
    """Features of 80 queries with 10 documents each, and clicks of a log of the start."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(OFFSETS[-1], 2)).astype(np.float32)
    relevance = 1.0 / (1.0 + np.exp(-1.5 * features[:, 0].astype(np.float64)))
    scores, bias = START.scores(features), bias_of(PAPER)
    counts = gather(scores, OFFSETS, relevance, PAPER, impressions, rng)
    statistics = Statistics.of_policy(
        "start",
        OFFSETS,
        Exposure.of_scores(scores, OFFSETS, bias),
        impressions_by_query=counts.impressions_by_query,
        displays_by_position=counts.displays_by_position,
        clicks_by_position=counts.clicks_by_position,
    )
    return features, HeldOutClicks.measure(statistics, bias, np.full(OFFSETS[-1], 0.5))


def share_of(learned: Model, impressions: int, rule: str = "click-noise") -> float:
    features, clicks = world(impressions)
    return choose_step(
        START, learned, [Trial(learned, features, clicks)], dcg(5), evidence(rule), look=1
    ).share


@pytest.mark.parametrize("estimate", ["calibrated", "unbiased"])
def test_more_evidence_goes_further(estimate: str) -> None:
    shares = [share_of(GOOD, n, f"click-noise(estimate={estimate})") for n in (10, 40, 1_000)]
    assert 0.0 < shares[0] < shares[1] < shares[2] == 1.0


@pytest.mark.parametrize("estimate", ["calibrated", "unbiased"])
def test_a_bad_policy_gets_nowhere(estimate: str) -> None:
    for impressions in (40, 1_000, 10_000):
        assert share_of(BAD, impressions, f"click-noise(estimate={estimate})") == 0.0


def test_decisions_come_with_their_numbers() -> None:
    features, clicks = world(40)
    step = choose_step(START, GOOD, [Trial(GOOD, features, clicks)], dcg(5), ClickNoise(), look=2)
    assert step.decision.deploy
    assert step.decision.look == 2
    assert step.decision.lower >= step.decision.required
    assert np.isnan(step.possible_loss)
    model = step.policy(START, GOOD)
    assert isinstance(model, Blend)
    assert model.share == step.share
    kept = choose_step(START, BAD, [Trial(BAD, features, clicks)], dcg(5), ClickNoise(margin=0.0), look=1)
    assert not kept.decision.deploy
    assert kept.share == 0.0
    assert kept.policy(START, BAD) is START
    assert kept.policy(START, BAD, deployed=GOOD) is GOOD


def test_policy_stays_within_the_largest_loss() -> None:
    features, clicks = world(100_000)
    trial = Trial(GOOD, features, clicks)
    for width in (0.1, 0.3):
        limit = LossLimit(features, OFFSETS, width)
        step = choose_step(START, GOOD, [trial], dcg(5), ClickNoise(), look=1, limit=limit)
        start, new = (
            expected_rank_weights(model.scores(features), OFFSETS, dcg(5))
            for model in (START, step.policy(START, GOOD))
        )
        assert 0.0 < step.possible_loss <= width
        assert worst_loss(new, start, OFFSETS).mean() == pytest.approx(step.possible_loss)
        assert SHARES[0] <= step.share < 1.0


def test_trials_on_more_queries_are_more_evidence() -> None:
    features, clicks = world(20, seed=1)
    other_features, other = world(60, seed=2)
    one = choose_step(START, GOOD, [Trial(GOOD, features, clicks)], dcg(5), ClickNoise(), look=1)
    trials = [Trial(GOOD, features, clicks), Trial(GOOD, other_features, other)]
    both = choose_step(START, GOOD, trials, dcg(5), ClickNoise(), look=1)
    assert both.share > one.share


def test_what_is_deployed_stays_if_it_is_better_and_goes_if_it_is_worse() -> None:
    features, clicks = world(10_000)

    def choose(learned: Model, deployed: Model) -> Model:
        trials = [Trial(learned, features, clicks)]
        before = Trial(deployed, features, clicks)
        step = choose_step(START, learned, trials, dcg(5), ClickNoise(), look=1, deployed=before)
        return step.policy(START, learned, deployed)

    slightly = Blend(START, GOOD, 0.05)
    assert choose(slightly, deployed=GOOD) is GOOD
    assert choose(GOOD, deployed=slightly) is GOOD
    assert choose(BAD, deployed=GOOD) is GOOD
    assert choose(BAD, deployed=BAD) is START
    assert choose(GOOD, deployed=BAD) is GOOD


def test_nothing_to_judge_is_refused() -> None:
    with pytest.raises(RankloopError, match="needs a trial"):
        choose_step(START, GOOD, [], dcg(5), ClickNoise(), look=1)
