"""The trust region: its bound against the worst relevance, and how it opens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from rankloop.clicks import bias_of, gather, users
from rankloop.errors import RankloopError
from rankloop.evidence import TrustRegion, agreement, worst_loss
from rankloop.policies import expected_rank_weights
from rankloop.rank_weights import dcg
from rankloop.statistics import Exposure, Statistics

OFFSETS = np.array([0, 5, 11])
PAPER = users("paper@5")


def policies(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=11)
    start, new = (
        expected_rank_weights(s, OFFSETS, dcg(3)) for s in (scores, scores + 0.5 * rng.normal(size=11))
    )
    return start, new


@pytest.mark.parametrize("seed", range(5))
def test_no_relevance_loses_more(seed: int) -> None:
    """A linear program finds the worst relevance of each query: the one of a unit value under the start."""
    start, new = policies(seed)
    bounds = worst_loss(new, start, OFFSETS)
    for q, (a, b) in enumerate(pairwise(OFFSETS)):
        worst = linprog(new[a:b], A_eq=start[None, a:b], b_eq=[1.0])
        assert 1.0 - worst.fun == pytest.approx(bounds[q], abs=1e-9)


def test_a_policy_loses_nothing_to_itself() -> None:
    start, _ = policies(0)
    assert worst_loss(start, start, OFFSETS).tolist() == [0.0, 0.0]


def clicks_of(
    relevance: np.ndarray, scores: np.ndarray, offsets: np.ndarray, seed: int, policy: str = "start"
) -> Statistics:
    counts = gather(scores, offsets, relevance, PAPER, 3_000, np.random.default_rng(seed))
    return Statistics.of_policy(
        policy,
        offsets,
        Exposure.of_scores(scores, offsets, bias_of(PAPER)),
        impressions_by_query=counts.impressions_by_query,
        displays_by_position=counts.displays_by_position,
        clicks_by_position=counts.clicks_by_position,
    )


def test_clicks_that_agree_open_it_and_inverted_clicks_do_not() -> None:
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 401, 10)
    relevance = rng.random(400)
    scores = 3.0 * relevance + rng.normal(size=400)
    logs = [
        agreement([(clicks_of(r, scores, offsets, seed=1), scores)], bias_of(PAPER), dcg(5))
        for r in (relevance, 1.0 - relevance)
    ]
    assert logs[0] > np.log(10.0)
    assert logs[1] < 0.0
    assert TrustRegion(0.1).width(logs[0]) == 1.0
    assert TrustRegion(0.1).width(logs[1]) == pytest.approx(0.1)


def test_clicks_of_better_policies_do_not_close_it() -> None:
    """A peaked policy that sorts by relevance shows little of what the start shows."""
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 401, 10)
    relevance = rng.random(400)
    scores = 3.0 * relevance + rng.normal(size=400)
    log = clicks_of(relevance, scores, offsets, seed=1)
    before = agreement([(log, scores)], bias_of(PAPER), dcg(5))
    for number in range(5):
        log += clicks_of(relevance, 12.0 * relevance, offsets, seed=2 + number, policy=f"better {number}")
    after = agreement([(log, scores)], bias_of(PAPER), dcg(5))
    assert after > 0.5 * before > np.log(5.0)


def test_without_a_relation_to_relevance_it_hardly_ever_opens() -> None:
    """The start knows nothing: E ≥ 5 at one look has a probability of at most 1/5, by Markov's inequality.

    In 60 logs, more than 22 have a probability below 8e-4 (binomial) even at that bound.
    """
    opened = 0
    offsets = np.arange(0, 401, 10)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        relevance, scores = rng.random(400), 2.0 * rng.normal(size=400)
        relevance = np.repeat(relevance[::10], 10)  # all documents of a query alike: no policy is better
        part = (clicks_of(relevance, scores, offsets, seed), scores)
        opened += agreement([part], bias_of(PAPER), dcg(5)) >= np.log(5.0)
    assert opened <= 22


def test_width_is_bounded() -> None:
    region = TrustRegion(tightest=0.05, loosest=0.4)
    assert region.width(-100.0) == pytest.approx(0.05)
    assert region.width(np.log(2.0)) == pytest.approx(0.1)
    assert region.width(1e6) == 0.4
    assert TrustRegion(tightest=0.0).width(1e6) == 0.0


@pytest.mark.parametrize(("tightest", "loosest"), [(-0.1, 1.0), (0.5, 0.4), (0.5, 1.1)])
def test_bad_widths_are_refused(tightest: float, loosest: float) -> None:
    with pytest.raises(RankloopError, match="from its tightest to its loosest"):
        TrustRegion(tightest, loosest)
