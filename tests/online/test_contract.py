"""The contract of every method with every model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from rankloop.checks.contract import VALUE_CLAUSES
from rankloop.checks.methods import METHOD_CLAUSES, MethodCase
from rankloop.data import synthetic
from rankloop.errors import ModelFileError, RankloopError
from rankloop.models import MLP, Linear
from rankloop.online import METHODS, MethodState, Traffic, interact, interact_log, method, replay
from tests.checks.registered import built_in
from tests.online.toy import Toy

FEATURES = 12
MODELS = {
    "linear": lambda rng: Linear.initialise(FEATURES, rng),
    "mlp": lambda rng: MLP.initialise(FEATURES, rng, hidden=(6, 4)),
}
CHOSEN = [*(method(name) for name in sorted(built_in(METHODS))), Toy()]


@pytest.fixture(scope="module")
def traffic():
    return Traffic.of(synthetic(queries=40, features=FEATURES, seed=1), "paper@5")


@pytest.fixture(params=CHOSEN, ids=str)
def chosen(request):
    return request.param


@pytest.fixture(params=MODELS)
def model(request, rng):
    return MODELS[request.param](rng)


@pytest.fixture(params=["online", "counterfactual"])
def logging(request, model, traffic):
    return None if request.param == "online" else traffic.queries.scores(model)


def same(a: MethodState, b: MethodState) -> bool:
    return a.to_bytes() == b.to_bytes()


@pytest.mark.parametrize("clause", VALUE_CLAUSES, ids=repr)
def test_every_method_is_a_frozen_value_whose_name_reads_back(chosen, clause):
    clause(chosen)
    assert all(field.default == getattr(chosen, field.name) for field in fields(chosen))


@pytest.mark.parametrize(
    "clause",
    [
        # In float64 every method is compiled once more.
        pytest.param(clause, marks=pytest.mark.long)
        if clause.name == "keeps_the_type_of_parameters"
        else clause
        for clause in METHOD_CLAUSES
    ],
    ids=repr,
)
@pytest.mark.parametrize("counterfactual", [False, True], ids=["online", "counterfactual"])
def test_every_method_keeps_the_contract(chosen, model, counterfactual, clause):
    clause(MethodCase(chosen, model, counterfactual))


def test_most_impressions_have_clicks_and_not_all_displays_are_clicked(chosen, model, logging, traffic, rng):
    _, counts = interact(chosen, MethodState.start(chosen, model, rng), traffic, 200, logging=logging)
    assert 200 < counts.clicks_by_position.sum() < counts.displays_by_position.sum()


def test_runs_in_threads_share_the_traffic(chosen, model, traffic):
    states = [MethodState.start(chosen, model, np.random.default_rng(seed)) for seed in range(4)]
    alone = [interact(chosen, state, traffic, 100)[0] for state in states]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda state: interact(chosen, state, traffic, 100)[0], states))
    assert all(same(a, b) for a, b in zip(alone, together, strict=True))


# COLTR draws its candidates from the stream that simulated users are drawn from, and replayed ones are not.
@pytest.mark.parametrize("chosen", [each for each in CHOSEN if each.name != "coltr"], ids=str)
def test_replay_gives_the_same_model(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    after, log = interact_log(chosen, state, traffic, 60, logging=logging)
    again = replay(chosen, state, traffic.queries, log, logging=logging)
    assert again.learned.fingerprint == after.learned.fingerprint
    np.testing.assert_array_equal(again.memory, after.memory)


def test_other_checkpoints_are_refused(chosen, model, rng):
    with pytest.raises(ModelFileError, match="expected a file of kind 'online-state'"):
        MethodState.from_bytes(model.to_bytes())
    data = MethodState.start(chosen, model, rng).to_bytes()
    with pytest.raises(ModelFileError, match="damaged"):
        MethodState.from_bytes(data[:-1])


def test_models_without_parameters_are_rejected(chosen, rng):
    class Trees:
        kind = "lightgbm"

    with pytest.raises(
        RankloopError, match="lightgbm model does not have: start from an mlp or a linear model"
    ):
        MethodState.start(chosen, Trees(), rng)
