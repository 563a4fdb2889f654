"""From clicks to a problem: the weights, the clipping of held-out weights, and what a rank is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop import rank_weights
from rankloop.data import synthetic
from rankloop.errors import DataError
from rankloop.estimators import Affine
from rankloop.loop import SimulatedUsers
from rankloop.statistics import Exposure, Statistics
from rankloop.training import CLICK_LIKELIHOOD, DOUBLY_ROBUST, LEARNING, PAPER, ROBUST, Learning
from rankloop.types import Float64

DATA = synthetic(queries=30, features=4)
USERS = SimulatedUsers.of(DATA, "paper@5")
SPLITS = (DATA.train, DATA.validation)
# A bound that binds: clipped and unclipped weights differ.
CLIPPED = Affine(clip=0.9)


@pytest.fixture(scope="module")
def statistics() -> tuple[Statistics, Statistics]:
    scores = np.zeros(DATA.train.n_documents + DATA.validation.n_documents)
    exposure = Exposure.of_scores(scores, USERS.offsets, USERS.bias)
    log = USERS.gather("uniform", scores, exposure, 2_000, np.random.default_rng(0))
    n_train = DATA.train.n_queries
    return log.select(np.arange(n_train)), log.select(np.arange(n_train, log.n_queries))


def weights(learning: Learning, statistics: tuple[Statistics, Statistics]) -> tuple[Float64, Float64]:
    problem = learning.problem(SPLITS, statistics, USERS.bias)
    assert problem.held_out is not None
    return problem.train.document_weights, problem.held_out.document_weights


@pytest.mark.parametrize("clip_validation", [True, False])
def test_the_preset_decides_whether_held_out_weights_are_clipped(
    statistics: tuple[Statistics, Statistics], clip_validation: bool
) -> None:
    learning = Learning(estimator=CLIPPED, clip_validation=clip_validation)
    train, held_out = weights(learning, statistics)
    clipped, unclipped = (e.weights(statistics[1], USERS.bias) for e in (CLIPPED, CLIPPED.unclipped))
    assert np.abs(clipped - unclipped).max() > 0.01
    np.testing.assert_array_equal(train, CLIPPED.weights(statistics[0], USERS.bias))
    np.testing.assert_array_equal(held_out, clipped if clip_validation else unclipped)


def test_a_rank_is_worth_its_discount_or_its_clicks(statistics: tuple[Statistics, Statistics]) -> None:
    discounts, clicks = rank_weights.dcg(5), USERS.bias.alpha + USERS.bias.beta
    for learning, expected in ((ROBUST, discounts), (PAPER, clicks)):
        problem = learning.problem(SPLITS, statistics, USERS.bias)
        assert problem.held_out is not None
        for task in (problem.train, problem.held_out):
            np.testing.assert_array_equal(task.rank_weights, expected)


def test_queries_without_impressions_are_refused(statistics: tuple[Statistics, Statistics]) -> None:
    nothing = Statistics.empty(DATA.validation.offsets, USERS.bias.positions)
    with pytest.raises(DataError, match="nothing to estimate"):
        ROBUST.problem(SPLITS, (statistics[0], nothing), USERS.bias)


def test_presets_go_by_their_names() -> None:
    presets = (CLICK_LIKELIHOOD, DOUBLY_ROBUST, ROBUST, PAPER)
    assert {preset.name: preset for preset in presets} == LEARNING
    assert Learning() == ROBUST
    assert replace(PAPER, metric="dcg").name == "paper"
