"""How a learned policy is softened before it logs."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.checks.contract import Clause
from rankloop.checks.loop import EXPLORATION_CLAUSES
from rankloop.errors import RankloopError
from rankloop.loop.exploration import (
    EXPLORATIONS,
    AsLearned,
    Exploration,
    Explore,
    Soft,
    Spread,
    Support,
    exploration,
)
from rankloop.policies import expected_rank_weights
from tests.checks.registered import built_in

SCORES = 8.0 * np.random.default_rng(0).normal(size=40)
OFFSETS = np.array([0, 20, 40])


def exposed(scores: np.ndarray) -> np.ndarray:
    return expected_rank_weights(scores, OFFSETS, [1.0, 0.5])


VALUES = [AsLearned(), Soft(by=0.25), Spread(to=2.5), Explore(share=0.2), Support(share=0.75), Support()]


def test_every_exploration_is_covered() -> None:
    assert {value.name for value in VALUES} == built_in(EXPLORATIONS)


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("clause", EXPLORATION_CLAUSES, ids=repr)
def test_every_exploration_keeps_the_contract(value: Exploration, clause: Clause[Exploration]) -> None:
    clause(value)


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_names_read_back(value: object) -> None:
    assert exploration(str(value)) == value


def test_spread_brings_scores_of_any_size_to_the_same_spread() -> None:
    for size in (1.0, 10.0, 1e4):
        scale = Spread(to=0.5).scale(size * SCORES, OFFSETS, exposed, clip=0.0)
        softened = scale * size * SCORES
        assert np.mean([softened[:20].std(), softened[20:].std()]) == pytest.approx(0.5)


def test_spread_never_sharpens_and_ignores_queries_without_a_choice() -> None:
    assert Spread(to=100.0).scale(SCORES, OFFSETS, exposed, clip=0.0) == 1.0
    assert Spread().scale(np.ones(3), np.array([0, 1, 3]), exposed, clip=0.0) == 1.0
    alone = np.append(SCORES, 7.0), np.append(OFFSETS, 41)
    assert Spread().scale(*alone, exposed, clip=0.0) == Spread().scale(SCORES, OFFSETS, exposed, clip=0.0)


def test_support_is_as_soft_as_it_takes_and_no_softer() -> None:
    scale = Support(share=0.8).scale(SCORES, OFFSETS, exposed, clip=1e-3)
    assert 0.05 < scale < 1.0
    assert np.mean(exposed(scale * SCORES) >= 1e-3) >= 0.8
    assert np.mean(exposed((scale + 0.01) * SCORES) >= 1e-3) < 0.8


def test_support_leaves_alone_what_explores_enough() -> None:
    assert Support(share=0.8).scale(0.01 * SCORES, OFFSETS, exposed, clip=1e-3) == 1.0


def test_support_that_cannot_be_had_gives_the_softest() -> None:
    assert Support(share=1.0, softest=0.1).scale(SCORES, OFFSETS, exposed, clip=0.9) == pytest.approx(
        0.1, abs=1e-3
    )


@pytest.mark.parametrize("make", [lambda: Soft(by=0.0), lambda: Soft(by=1.5), lambda: Support(share=0.0)])
def test_what_cannot_be_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RankloopError, match="above 0 and at most 1"):
        make()


@pytest.mark.parametrize("to", [0.0, -1.0, float("inf"), float("nan")])
def test_a_spread_that_cannot_be_is_refused(to: float) -> None:
    with pytest.raises(RankloopError, match="to must be a number above 0"):
        Spread(to=to)


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.5}, {"decay": -0.5}, {"decay": 2.0}])
def test_a_share_that_cannot_be_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(RankloopError, match="share must be above 0"):
        Explore(**options)


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(RankloopError, match="did you mean 'soft'"):
        exploration("sofd")
