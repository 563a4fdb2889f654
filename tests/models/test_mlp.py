"""Multi-layer perceptrons: gradients against finite differences and torch, shapes, threads, refusals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.models import MLP, SGD, Adam
from rankloop.models.mlp import ROWS_TOGETHER, glorot
from rankloop.ragged import ROWS_PER_CHUNK, THREADS_VARIABLE

SHAPES = [(32, 32), (5,), (3, 20, 2), ()]
ACTIVATIONS = ["sigmoid", "tanh", "relu"]


def _network(hidden: tuple[int, ...], activation: str, dtype: type, n_features: int = 6) -> MLP:
    rng = np.random.default_rng(1)
    model = MLP.initialise(n_features, rng, hidden=hidden, activation=activation, dtype=dtype)
    # Biases other than zero, so that they are tested too.
    return model.with_parameters(model.parameters + rng.normal(0, 0.1, model.parameters.shape).astype(dtype))


def _torch_network(torch: Any, model: MLP) -> Any:
    """The same layers in torch, whose weights are out × in."""
    units = {"sigmoid": torch.nn.Sigmoid, "tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[model.activation]
    layers, at, flat = [], 0, torch.tensor(model.parameters)
    for n_in, n_out in zip(model.widths[:-1].tolist(), model.widths[1:].tolist(), strict=True):
        layer = torch.nn.Linear(n_in, n_out, dtype=flat.dtype)
        layer.weight.data = flat[at : at + n_in * n_out].reshape(n_in, n_out).T.clone()
        layer.bias.data = flat[at + n_in * n_out : at + (n_in + 1) * n_out].clone()
        at += (n_in + 1) * n_out
        layers += [layer, units()]
    return torch.nn.Sequential(*layers[:-1])


def _flat(network: Any, attribute: str) -> np.ndarray[Any, Any]:
    parts = []
    for layer in network[::2]:
        for tensor in (layer.weight, layer.bias):
            value = tensor.grad if attribute == "grad" else tensor.data
            parts.append(value.numpy().T.ravel())
    return np.concatenate(parts)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", SHAPES)
def test_gradient_against_finite_differences(hidden: tuple[int, ...], activation: str) -> None:
    rng = np.random.default_rng(2)
    model = _network(hidden, activation, np.float64)
    features, g = rng.normal(size=(7, 6)).astype(np.float32), rng.normal(size=7)
    step = 1e-6
    numeric = np.zeros_like(model.parameters)
    for k in range(len(numeric)):
        move = np.zeros_like(numeric)
        move[k] = step
        above = g @ model.with_parameters(model.parameters + move).scores(features)
        below = g @ model.with_parameters(model.parameters - move).scores(features)
        numeric[k] = (above - below) / (2 * step)
    np.testing.assert_allclose(model.gradient(features, g), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.extras
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-13)])
def test_scores_and_gradient_against_torch(
    torch: Any, hidden: tuple[int, ...], activation: str, dtype: type, tolerance: float
) -> None:
    rng = np.random.default_rng(3)
    model = _network(hidden, activation, dtype, n_features=40)
    features, g = rng.normal(size=(100, 40)).astype(np.float32), rng.normal(size=100)
    network = _torch_network(torch, model)
    scores = network(torch.tensor(features.astype(dtype)))[:, 0]
    scores.backward(gradient=torch.tensor(g.astype(dtype)))
    np.testing.assert_allclose(model.scores(features), scores.detach().numpy(), rtol=0, atol=tolerance)
    ours, theirs = model.gradient(features, g), _flat(network, "grad")
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


@pytest.mark.extras
@pytest.mark.parametrize("optimiser", [SGD(rate=0.05), Adam(rate=0.02)], ids=lambda o: o.name)
def test_twenty_steps_against_torch(torch: Any, optimiser: SGD | Adam) -> None:
    """Queries of different sizes, one a step, float64: rounding alone may differ."""
    rng = np.random.default_rng(4)
    model = _network((8, 4), "sigmoid", np.float64)
    network = _torch_network(torch, model)
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser.name]
    steps = make(network.parameters(), lr=optimiser.rate, maximize=True)
    learner = model.learner(optimiser)
    for n in range(1, 21):
        features, g = rng.normal(size=(n, 6)).astype(np.float32), rng.normal(size=n)
        learner.update(features, g)
        steps.zero_grad()
        network(torch.tensor(features.astype(np.float64)))[:, 0].backward(gradient=torch.tensor(g))
        steps.step()
    np.testing.assert_allclose(learner.parameters, _flat(network, "data"), rtol=0, atol=1e-10)
    assert learner.state.step == 20


def test_many_queries_at_once_are_the_sum_of_single_queries() -> None:
    rng = np.random.default_rng(5)
    model = _network((32, 32), "sigmoid", np.float64)
    # More rows than go through the layers together, and not a multiple of them.
    n = 2 * ROWS_TOGETHER + 5
    features, g = rng.normal(size=(n, 6)).astype(np.float32), rng.normal(size=n)
    cuts = [0, 1, 30, 31, 100, n]
    parts = [model.gradient(features[a:b], g[a:b]) for a, b in pairwise(cuts)]
    np.testing.assert_allclose(model.gradient(features, g), np.sum(parts, axis=0), rtol=1e-10, atol=1e-12)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    model = _network((32, 32), "sigmoid", np.float32)
    features = rng.normal(size=(3 * ROWS_PER_CHUNK + 7, 6)).astype(np.float32)
    g = rng.normal(size=len(features))
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        results.append((model.scores(features), model.gradient(features, g)))
    for scores, gradient in results[1:]:
        np.testing.assert_array_equal(scores, results[0][0])
        np.testing.assert_array_equal(gradient, results[0][1])


def test_default_shape_is_the_papers_and_its_layout_is_documented() -> None:
    model = MLP.initialise(10, np.random.default_rng(0))
    assert (model.hidden, model.activation, model.parameters.dtype) == ((32, 32), "sigmoid", np.float32)
    assert len(model.parameters) == 10 * 32 + 32 + 32 * 32 + 32 + 32 * 1 + 1
    zero_biases = [slice(320, 352), slice(352 + 1024, 352 + 1024 + 32), slice(-1, None)]
    for part in zero_biases:
        assert (model.parameters[part] == 0).all()
    assert np.count_nonzero(model.parameters) == 10 * 32 + 32 * 32 + 32


def test_glorot_spreads_by_the_widths() -> None:
    weights = glorot([700, 32], np.random.default_rng(0), np.float64)[: 700 * 32]
    reach = np.sqrt(6 / (700 + 32))
    # 22400 uniform draws: the largest misses the edge by 1 % with probability 0.99^22400 < 1e-97.
    assert 0.99 * reach < np.abs(weights).max() < reach
    # The mean's standard error is reach / √(3 · 22400); five of them are crossed once in two million seeds.
    assert abs(weights.mean()) < 5 * reach / np.sqrt(3 * 22400)


def test_one_seed_starts_both_types_from_the_same_parameters() -> None:
    single, double = (
        MLP.initialise(4, np.random.default_rng(0), dtype=dtype).parameters
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_array_equal(single, double.astype(np.float32))


def test_a_model_keeps_its_own_parameters() -> None:
    parameters = np.zeros(4, np.float32)
    model = MLP(3, parameters, hidden=())
    parameters[:] = 1
    assert (model.parameters == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        model.parameters[0] = 1


def test_golden_fingerprint() -> None:
    """If this changes, the names of all stored models change: that needs a new version of the format."""
    parameters = (np.arange(1, 12) / 8).astype(np.float32)
    model = MLP(2, parameters, hidden=(2, 1), activation="tanh")
    assert model.fingerprint == "babb3ddd38b3ee41"
    assert MLP(2, parameters.astype(np.float64), (2, 1), "tanh").fingerprint == "9a98c374508aae16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features": 0}, "at least one unit, got 0 features"),
        ({"hidden": (3, 0)}, r"hidden=\(3, 0\)"),
        ({"activation": "sigmoyd"}, "did you mean 'sigmoid'"),
        ({"parameters": np.zeros(3, np.float32)}, r"\[2, 1, 1\] units has 5 parameters .* shape \(3,\)"),
        ({"parameters": np.zeros(5, np.int64)}, "float32 or float64, got int64"),
        ({"parameters": np.array([0, 0, np.nan, 0, 0])}, "not finite.*lower the optimiser's rate"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    good = {"n_features": 2, "hidden": (1,), "activation": "relu", "parameters": np.zeros(5, np.float32)}
    MLP(**good)  # type: ignore[arg-type]
    with pytest.raises(RankloopError, match=message):
        MLP(**{**good, **options})


def test_a_rate_that_diverges_is_named_when_the_model_is_asked_for() -> None:
    model = _network((), "sigmoid", np.float32)
    learner = model.learner(SGD(rate=1e38))
    for _ in range(3):
        learner.update(np.full((1, 6), 1e3, np.float32), np.array([1e3]))
    with pytest.raises(RankloopError, match="lower the optimiser's rate"):
        learner.model()
