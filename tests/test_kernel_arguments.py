"""Arguments that compiled loops would follow out of their arrays are refused before they get there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rankloop
from rankloop import clicks, objectives, online, ragged, statistics
from rankloop.errors import ModelFileError, RankloopError
from rankloop.models.optimisers import SGD, Adam, OptimiserState
from rankloop.policies import expected_rank_weights, log_probability, rank_marginals, sample_rankings
from rankloop.relevance import ClickModel
from rankloop.statistics import CellTable
from rankloop.types import Bias, as_numbers, as_whole_numbers

SCORES = np.array([0.5, 1.0, -0.5, 2.0, 0.0])
OFFSETS = np.array([0, 3, 5])
BIAS = Bias(alpha=[0.5, 0.4], beta=[0.1, 0.1], examination=[1.0, 0.8])
RANKINGS = np.array([[[0, 2], [1, 0]]])

WITH_OFFSETS: dict[str, Callable[[Any], object]] = {
    "expected_rank_weights": lambda offsets: expected_rank_weights(SCORES, offsets, [1.0, 0.5]),
    "rank_marginals": lambda offsets: rank_marginals(SCORES, offsets, 2),
    "log_probability": lambda offsets: log_probability(SCORES, offsets, RANKINGS),
    "sample_rankings": lambda offsets: sample_rankings(SCORES, offsets, 2, np.random.default_rng(0)),
    "top_ranking": lambda offsets: rankloop.policies.top_ranking(SCORES, offsets, 2),
    "expected_metric": lambda offsets: rankloop.objectives.expected_metric(SCORES, offsets, SCORES, [1.0]),
    "lambda_rank": lambda offsets: objectives.lambda_rank(SCORES, offsets, SCORES, [1.0]),
    "reinforce_gradient": lambda offsets: objectives.reinforce_gradient(
        SCORES, offsets, SCORES, [1.0, 0.5], RANKINGS
    ),
    "pl_rank_gradient": lambda offsets: objectives.pl_rank_gradient(
        SCORES, offsets, SCORES, [1.0, 0.5], RANKINGS
    ),
    "gather": lambda offsets: clicks.gather(
        SCORES, offsets, np.full(5, 0.5), clicks.users("paper@2"), 10, np.random.default_rng(0)
    ),
    "Exposure.of_scores": lambda offsets: statistics.Exposure.of_scores(SCORES, offsets, BIAS),
}

BAD_OFFSETS: dict[str, Any] = {
    "uint64": OFFSETS.astype(np.uint64),
    "uint64, wrapping": np.array([0, 2**64 - 3, 5], np.uint64),
    "int16": OFFSETS.astype(np.int16),
    "float": OFFSETS.astype(float),
    "list": [0, 3, 5],
    # Their differences are all positive, modulo 2⁶⁴.
    "int64, wrapping": np.array([0, 2**62, -(2**62) - 1, 5]),
    "beyond the end": np.array([0, 9, 5]),
    "too long": np.array([0, 3, 6]),
    "empty": np.array([], np.int64),
    "matrix": np.array([[0, 3, 5]]),
}


@pytest.mark.parametrize("name", WITH_OFFSETS)
@pytest.mark.parametrize("offsets", BAD_OFFSETS.values(), ids=list(BAD_OFFSETS))
def test_offsets(name: str, offsets: Any) -> None:
    """Before: offsets were differenced in their own type; wrapped ones ended in a segmentation fault."""
    with pytest.raises(RankloopError, match=r"offsets|no documents"):
        WITH_OFFSETS[name](offsets)


@pytest.mark.parametrize("name", WITH_OFFSETS)
def test_good_offsets(name: str) -> None:
    WITH_OFFSETS[name](OFFSETS)
    padded = np.zeros(6, np.int64)
    padded[::2] = OFFSETS
    WITH_OFFSETS[name](padded[::2])


@pytest.mark.parametrize(
    "rankings",
    [
        np.array([[[0.9, 2.0], [1.0, 0.0]]]),
        np.array([[[2**64 - 1, 2], [1, 0]]], np.uint64),
        np.array([[["0", "2"], ["1", "0"]]]),
        np.array([[[0, 3], [1, 0]]]),
    ],
    ids=["fractions", "2⁶⁴−1", "text", "no such document"],
)
def test_rankings(rankings: Any) -> None:
    """Before: 0.9 was taken for document 0, and 2⁶⁴ − 1 for an empty rank."""
    with pytest.raises(RankloopError, match="ranking"):
        log_probability(SCORES, OFFSETS, rankings)


def test_scores_that_are_not_numbers() -> None:
    for scores in (["a"] * 5, SCORES * 1j, np.array([None] * 5)):
        with pytest.raises(RankloopError, match="scores must be numbers"):
            expected_rank_weights(scores, OFFSETS, [1.0])


@pytest.mark.parametrize("optimiser", [SGD(), Adam()])
def test_the_state_of_another_optimiser(optimiser: SGD | Adam) -> None:
    """Before: moments of another size were written to beyond their end."""
    parameters = np.zeros(4, np.float32)
    good = optimiser.state(parameters)
    optimiser.step(parameters, np.ones(4, np.float32), good)
    other = Adam().state(np.zeros(2, np.float32))
    wide = Adam().state(np.zeros(4, np.float64))
    for bad in (other, wide):
        with pytest.raises(RankloopError, match=r"this state is not that of 4 parameters of float32"):
            optimiser.step(parameters, np.ones(4, np.float32), bad)
    for gradient in (np.ones(3, np.float32), np.ones(4)):
        with pytest.raises(RankloopError, match="need a gradient like them"):
            optimiser.step(parameters, gradient, good)


def test_a_learner_with_a_state_of_another_size() -> None:
    data = rankloop.synthetic(queries=20, features=3)
    learner = rankloop.models.Linear.initialise(3, np.random.default_rng(0)).learner(Adam())
    learner.state = OptimiserState(0, np.zeros(1, np.float32), np.zeros(1, np.float32))
    with pytest.raises(RankloopError, match="this state is not that of 4 parameters"):
        learner.update(data.train.features, np.zeros(data.train.n_documents))


@pytest.mark.parametrize(
    ("stream", "memory"),
    [
        (np.ones(3, np.uint64), np.empty(0)),
        (np.zeros(4, np.uint64), np.empty(0)),
        (np.ones(4), np.empty(0)),
        (np.ones(4, np.uint64), np.empty((1, 1))),
        (np.ones(4, np.uint64), np.empty(0, np.float32)),
    ],
)
def test_the_state_of_an_online_method(stream: Any, memory: Any) -> None:
    """Before: a short stream of random numbers was read beyond its end."""
    model = rankloop.models.Linear.initialise(3, np.random.default_rng(0))
    state = online.MethodState.start(online.method("pdgd"), model, np.random.default_rng(1))
    with pytest.raises(RankloopError, match=r"the (stream|memory) of"):
        replace(state, stream=stream, memory=memory)


def test_the_state_of_another_online_method() -> None:
    traffic = online.Traffic.of(rankloop.synthetic(queries=20, features=3), "paper@2")
    model = rankloop.models.Linear.initialise(3, np.random.default_rng(0))
    state = online.MethodState.start(online.method("pdgd"), model, np.random.default_rng(1))
    with pytest.raises(RankloopError, match="the state is not one of pdgd"):
        online.interact(online.method("pdgd"), replace(state, memory=np.zeros(7)), traffic, 1)


def test_a_log_with_documents_beyond_32_bits() -> None:
    """Before: rankings were cast to int32 before they were checked, and document 2³² became document 0."""
    traffic = online.Traffic.of(rankloop.synthetic(queries=20, features=3), "paper@2")
    method, model = online.method("pdgd"), rankloop.models.Linear.initialise(3, np.random.default_rng(0))
    state = online.MethodState.start(method, model, np.random.default_rng(1))
    log = clicks.Impressions(np.array([0]), np.array([[2**32, 1]]), np.array([[True, False]]))  # type: ignore[arg-type]
    with pytest.raises(RankloopError, match="impression number 0: no such document"):
        online.replay(method, state, traffic.queries, log)


@pytest.mark.parametrize(
    ("cells", "ranks"),
    [([0, 9], [0]), ([0, 1], [-1]), ([0, 1], [5]), ([1, 0, 1], [0]), ([0, 2, 1], [0]), ([[0, 1]], [0])],
)
def test_counts_of_clicks(cells: list[int], ranks: list[int]) -> None:
    def explain() -> object:
        counts = CellTable.of_cells(cells, ranks, np.ones(len(ranks)), np.zeros(len(ranks)))
        return ClickModel(counts, BIAS).at(np.zeros(len(cells) - 1))

    with pytest.raises(RankloopError, match=r"starts|ranks"):
        explain()


def test_states_that_are_something_else() -> None:
    from rankloop.models.storage import pack

    for data in (
        pack("optimiser-state", {"step": -1}, {}),
        pack("optimiser-state", {"step": 0}, {"first_moment": np.zeros(2)}),
    ):
        with pytest.raises(ModelFileError, match="does not hold the state of an optimiser"):
            OptimiserState.from_bytes(data)
    model = np.frombuffer(rankloop.models.Linear.initialise(2, np.random.default_rng(0)).to_bytes(), np.uint8)
    for tensors in ({}, {"learned": model, "memory": np.zeros(0), "stream": np.zeros(2, np.uint64)}):
        with pytest.raises(ModelFileError, match="does not hold the state of an online method"):
            online.MethodState.from_bytes(pack("online-state", {"impressions": 0}, tensors))


def test_what_was_checked_is_what_kernels_get() -> None:
    # Another thread may change an array while a compiled loop trusts it: it crashed the interpreter.
    offsets = np.arange(5)

    def kernel(_first: int, _last: int, given: Any) -> None:
        offsets[:] = 2**40
        assert given.tolist() == [0, 1, 2, 3, 4]

    ragged.for_segments(kernel, offsets)
    for convert, array in ((as_numbers, np.zeros(3)), (as_whole_numbers, np.zeros(3, np.int64))):
        assert not np.shares_memory(convert(array, "numbers"), array)
