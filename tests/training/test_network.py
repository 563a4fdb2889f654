"""Networks: the compiled epoch takes the steps of plain Python, and early stopping keeps its promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.models import MLP, SGD, Adam, Linear, TorchModel
from rankloop.models.mlp import Network
from rankloop.models.optimisers import Optimiser
from rankloop.objectives import Softmax
from rankloop.training import Settings, Task, Training, train_network
from rankloop.training.learning import DOUBLY_ROBUST, LEAST_STEPS
from rankloop.types import Dataset
from tests.training.problems import DCG_AT_3, N_FEATURES, new_rng, opposed
from tests.training.steps import Foreign, in_plain_python

float64_networks = pytest.mark.parametrize(
    "start",
    [
        MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5, 3), dtype=np.float64),
        MLP.initialise(
            N_FEATURES, np.random.default_rng(1), hidden=(6,), activation="tanh", dtype=np.float64
        ),
        Linear.initialise(N_FEATURES, np.random.default_rng(1), dtype=np.float64),
    ],
    ids=["mlp", "tanh", "linear"],
)
every_optimiser = pytest.mark.parametrize("optimiser", [SGD(rate=0.5), Adam(rate=0.05)], ids=["sgd", "adam"])


@float64_networks
@every_optimiser
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_the_compiled_epoch_takes_the_steps_of_plain_python(
    task: Task, start: Network, optimiser: Optimiser, batch: int
) -> None:
    settings = Settings(optimiser, batch=batch, epochs=3)
    result = train_network(start, task, held_out=None, settings=settings, rng=np.random.default_rng(5))
    learner = start.learner(optimiser)
    steps = in_plain_python(learner, task, batch=batch, epochs=3, rng=np.random.default_rng(5))
    assert steps == learner.state.step > 0
    assert np.abs(learner.parameters - start.parameters).max() > 0.01
    assert isinstance(result.model, Network)
    # The last bias shifts all scores alike, so its gradient is 0 but for rounding, which Adam blows up.
    np.testing.assert_allclose(result.model.parameters[:-1], learner.parameters[:-1], rtol=0, atol=1e-10)


@every_optimiser
@pytest.mark.parametrize("batch", [1, 3])
def test_a_model_without_kernels_takes_the_same_steps(task: Task, optimiser: Optimiser, batch: int) -> None:
    start = MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5,), dtype=np.float64)
    settings = Settings(optimiser, batch=batch, epochs=3)
    compiled, plain = (
        train_network(model, task, held_out=task, settings=settings, rng=np.random.default_rng(5))
        for model in (start, Foreign(start))
    )
    assert plain.model.kind == "foreign"
    scores, expected = (result.model.scores(task.features) for result in (plain, compiled))
    # Up to a shift, as above.
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        [epoch.held_out for epoch in plain.history],
        [epoch.held_out for epoch in compiled.history],
        atol=1e-10,
    )


@pytest.mark.extras
@every_optimiser
def test_a_torch_module_takes_the_same_steps(task: Task, optimiser: Optimiser) -> None:
    torch = pytest.importorskip("torch", reason='torch is not installed: pip install "rankloop[torch]"')
    start = MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5,))
    module = torch.nn.Sequential(torch.nn.Linear(N_FEATURES, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 1))
    cuts = np.split(start.parameters, np.cumsum([N_FEATURES * 5, 5, 5]))
    shapes = [(N_FEATURES, 5), (5,), (5, 1), (1,)]
    with torch.no_grad():
        for parameter, flat, shape in zip(module.parameters(), cuts, shapes, strict=True):
            parameter.copy_(torch.tensor(flat.reshape(shape).T))
    settings = Settings(optimiser, batch=3, epochs=3)
    ours, theirs = (
        train_network(model, task, held_out=task, settings=settings, rng=np.random.default_rng(5))
        for model in (start, TorchModel(module, N_FEATURES))
    )
    assert ours.best.held_out > ours.history[0].held_out
    np.testing.assert_allclose(
        [epoch.held_out for epoch in theirs.history], [epoch.held_out for epoch in ours.history], atol=1e-5
    )
    scores, expected = (result.model.scores(task.features) for result in (theirs, ours))
    # Up to a shift: the last bias has no gradient but rounding.
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=1e-4, atol=1e-4)


@every_optimiser
@pytest.mark.parametrize("make", [lambda model: model, Foreign], ids=["compiled", "foreign"])
def test_what_cannot_be_ranked_better_moves_nothing(make: Any, optimiser: Optimiser) -> None:
    start = MLP.initialise(1, np.random.default_rng(0), hidden=(3,))
    features = np.array([[1.0], [2.0], [3.0]], np.float32)
    flat = Task(features, np.array([0, 2, 3]), np.array([0.5, 0.5, 2.0]), DCG_AT_3)
    result = train_network(
        make(start), flat, held_out=None, settings=Settings(optimiser, epochs=3), rng=new_rng()
    )
    assert result.model.fingerprint == start.fingerprint


def test_what_never_gets_better_is_left_as_it_was(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    start = Linear.initialise(N_FEATURES, new_rng())
    settings = Settings(epochs=50, patience=3)
    result = train_network(start, task, held_out=opposed(task), settings=settings, rng=new_rng())
    assert result.model is start
    assert result.best.number == 0
    assert len(result.history) == 1 + 3


def test_caution_keeps_the_best_of_the_epochs_that_convince(noisy: Dataset) -> None:
    task, held_out = (Task.supervised(split, "ndcg@5") for split in (noisy.train, noisy.validation))
    start = MLP.initialise(noisy.n_features, new_rng(), hidden=(8,))

    def trained(caution: float) -> Training:
        settings = Settings(Adam(rate=0.05), epochs=12, patience=12, caution=caution)
        return train_network(start, task, held_out=held_out, settings=settings, rng=new_rng())

    bold, careful, timid = trained(0.0), trained(1.0), trained(100.0)
    # The same epochs in all three: caution only says which of them may be kept.
    values = [epoch.held_out for epoch in bold.history]
    assert (
        [epoch.held_out for epoch in careful.history] == [epoch.held_out for epoch in timid.history] == values
    )
    assert bold.best.held_out == max(values)
    assert timid.model is start
    first = held_out.values(start.scores(held_out.features))
    gain = held_out.values(careful.model.scores(held_out.features)) - first
    assert gain.mean() >= gain.std() / np.sqrt(len(gain)) > 0


def test_patience_counts_from_the_last_rise_convincing_or_not(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    start = Linear.initialise(N_FEATURES, new_rng())
    settings = Settings(Adam(rate=0.001), epochs=6, patience=2, caution=1e6)
    result = train_network(start, task, held_out=task, settings=settings, rng=new_rng())
    assert result.model is start
    values = [epoch.held_out for epoch in result.history]
    assert values == sorted(values)
    assert len(values) == 1 + 6


@pytest.mark.parametrize(("batch", "least_steps", "passes"), [(1, 9, 2), (3, 5, 2), (1, 8, 1), (100, 3, 3)])
def test_an_epoch_of_few_queries_is_several_passes(
    task: Task, batch: int, least_steps: int, passes: int
) -> None:
    """Eight queries: the steps are those of as many epochs of one pass each."""
    start = Linear.initialise(N_FEATURES, new_rng())
    one, several = (
        train_network(
            start,
            task,
            held_out=None,
            settings=Settings(batch=batch, epochs=epochs, least_steps=least),
            rng=new_rng(),
        )
        for epochs, least in ((3 * passes, 1), (3, least_steps))
    )
    assert several.best.number == 3
    assert several.model.fingerprint == one.model.fingerprint


def test_a_few_queries_are_enough_to_turn_a_wrong_start_around() -> None:
    """With two steps per epoch it ran out of patience long before its weight had changed its sign."""
    offsets, weights = np.array([0, 4, 8]), np.tile([0.0, 0.2, 0.6, 0.4], 2)
    features = np.tile([[0.0], [1.0], [3.0], [2.0]], (2, 1)).astype(np.float32)
    task = replace(Task(features, offsets, weights, DCG_AT_3), objective=Softmax())
    start = Linear(1, np.array([-1.7, 0.0], np.float32))
    for least_steps, sign in ((1, -1.0), (LEAST_STEPS, 1.0)):
        settings = replace(DOUBLY_ROBUST.settings.without_caution(), least_steps=least_steps)
        result = train_network(start, task, held_out=task, settings=settings, rng=new_rng(), keep_start=False)
        assert isinstance(result.model, Linear)
        assert np.sign(result.model.parameters[0]) == sign
    assert DOUBLY_ROBUST.settings.least_steps == LEAST_STEPS


def test_without_held_out_queries_a_network_keeps_the_last_epoch(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    start = Linear.initialise(N_FEATURES, new_rng())
    result, longer = (
        train_network(start, task, held_out=None, settings=Settings(epochs=epochs), rng=new_rng())
        for epochs in (7, 8)
    )
    assert result.model.fingerprint != longer.model.fingerprint
    assert result.best is result.history[-1]
    assert result.best.number == 7
    assert all(np.isnan(epoch.held_out) for epoch in result.history)


@pytest.mark.parametrize("optimiser", [SGD(1e30), Adam(1e30), SGD(1e12)], ids=str)
@pytest.mark.parametrize("held_out", [True, False])
@pytest.mark.parametrize("make", [lambda model: model, Foreign], ids=["compiled", "foreign"])
def test_steps_that_are_too_large_are_an_error_and_no_nan(
    easy: Dataset, optimiser: Optimiser, held_out: bool, make: Any
) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    with pytest.raises(RankloopError, match="lower the optimiser's rate"):
        train_network(
            make(Linear.initialise(N_FEATURES, new_rng())),
            task,
            held_out=task if held_out else None,
            settings=Settings(optimiser, epochs=2),
            rng=new_rng(),
        )


def test_a_model_of_another_width_is_refused(task: Task) -> None:
    model = Linear.initialise(N_FEATURES + 1, new_rng())
    for held_out in (task, None):
        with pytest.raises(DataError, match="takes 5 features, the documents have 4"):
            train_network(model, task, held_out=held_out, rng=new_rng())


@pytest.mark.parametrize("batch", [1, 3])
def test_epochs_do_not_depend_on_how_they_are_divided(
    task: Task, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiled code cannot be interrupted, so that Ctrl-C had to wait for the end of an epoch.
    start = MLP.initialise(N_FEATURES, np.random.default_rng(1), hidden=(5,))

    def trained() -> bytes:
        settings = Settings(Adam(0.01), batch=batch, epochs=2)
        return train_network(
            start, task, held_out=None, settings=settings, rng=np.random.default_rng(5)
        ).model.to_bytes()

    whole = trained()
    monkeypatch.setattr("rankloop.models.history.QUERIES_PER_CALL", 4)
    assert trained() == whole
