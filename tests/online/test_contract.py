"""The contract of every method with every model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from rankloop.data import synthetic
from rankloop.errors import ModelFileError, RankloopError
from rankloop.models import MLP, Linear
from rankloop.online import METHODS, MethodState, Traffic, interact, interact_log, method, replay
from tests.online.toy import Toy

FEATURES = 12
MODELS = {
    "linear": lambda rng: Linear.initialise(FEATURES, rng),
    "mlp": lambda rng: MLP.initialise(FEATURES, rng, hidden=(6, 4)),
}
CHOSEN = [*(method(name) for name in METHODS), Toy()]


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


def test_every_method_is_frozen_and_round_trips_through_its_name(chosen):
    if not isinstance(chosen, Toy):
        assert method(str(chosen)) == chosen
    assert all(field.default == getattr(chosen, field.name) for field in fields(chosen))
    with pytest.raises(AttributeError):
        chosen.rate = 2.0


def test_interactions_update_the_model_and_do_not_modify_inputs(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    before = state.to_bytes()
    after, counts = interact(chosen, state, traffic, 200, logging=logging)
    assert state.to_bytes() == before
    assert after.learned.fingerprint != model.fingerprint
    assert after.interactions == counts.interactions == 200
    assert (counts.clicks_by_rank <= counts.displays_by_rank).all()
    assert 200 < counts.clicks_by_rank.sum() < counts.displays_by_rank.sum()


def test_the_number_of_calls_does_not_matter(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    whole, counts = interact(chosen, state, traffic, 60, logging=logging)
    now, shown = state, 0
    for size in (1, 0, 2, 17, 40):
        now, part = interact(chosen, now, traffic, size, logging=logging)
        shown = shown + part.displays_by_rank
    assert same(now, whole)
    np.testing.assert_array_equal(shown, counts.displays_by_rank)


def test_a_checkpoint_resumes_exactly(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    half, _ = interact(chosen, state, traffic, 30, logging=logging)
    read = MethodState.from_bytes(half.to_bytes())
    assert same(read, half)
    ends = [interact(chosen, point, traffic, 30, logging=logging)[0] for point in (half, read)]
    assert same(*ends)
    assert ends[0].interactions == 60


def test_the_same_seed_gives_the_same_run(chosen, model, traffic):
    ends = [
        interact(chosen, MethodState.start(chosen, model, np.random.default_rng(seed)), traffic, 50)[0]
        for seed in (5, 5, 6)
    ]
    assert same(ends[0], ends[1])
    assert not same(ends[0], ends[2])


def test_threads_can_share_the_traffic(chosen, model, traffic):
    states = [MethodState.start(chosen, model, np.random.default_rng(seed)) for seed in range(4)]
    alone = [interact(chosen, state, traffic, 100)[0] for state in states]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda state: interact(chosen, state, traffic, 100)[0], states))
    assert all(same(a, b) for a, b in zip(alone, together, strict=True))


def test_log_and_counts_agree(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    after, counts = interact(chosen, state, traffic, 100, logging=logging)
    again, log = interact_log(chosen, state, traffic, 100, logging=logging)
    assert same(after, again)
    by_hand = log.counts(traffic.queries.offsets)
    for name in ("query_counts", "displays_by_rank", "clicks_by_rank"):
        np.testing.assert_array_equal(getattr(by_hand, name), getattr(counts, name))


# COLTR draws candidates and simulated users from the same stream, so a replay draws other candidates.
@pytest.mark.parametrize("chosen", [each for each in CHOSEN if each.name != "coltr"], ids=str)
def test_replay_gives_the_same_model(chosen, model, logging, traffic, rng):
    state = MethodState.start(chosen, model, rng)
    after, log = interact_log(chosen, state, traffic, 60, logging=logging)
    again = replay(chosen, state, traffic.queries, log, logging=logging)
    assert again.learned.fingerprint == after.learned.fingerprint
    np.testing.assert_array_equal(again.memory, after.memory)


def test_deploying_after_every_interaction_equals_online_learning(chosen, model, traffic, rng):
    """Counterfactual learning with the current policy at each step gives the same bits."""
    state = MethodState.start(chosen, model, rng)
    online, _ = interact(chosen, state, traffic, 40)
    now = state
    for _ in range(40):
        now, _ = interact(chosen, now, traffic, 1, logging=traffic.queries.scores(now.learned))
    assert same(now, online)


def test_both_float_types(chosen, traffic, rng):
    for dtype in (np.float32, np.float64):
        start = Linear.initialise(FEATURES, rng, dtype=dtype)
        after, _ = interact(chosen, MethodState.start(chosen, start, rng), traffic, 20)
        assert after.learned.parameters.dtype == dtype


def test_other_checkpoints_are_rejected(chosen, model, rng):
    with pytest.raises(ModelFileError, match="expected the checkpoint of an online method"):
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
