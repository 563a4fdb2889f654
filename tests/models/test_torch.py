"""A user's own torch module as a model. What every model promises is in test_contract.py."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from rankloop.errors import ModelFileError, RankloopError
from rankloop.models import SGD, Adam, Linear, TorchModel, model_from_bytes

extras = pytest.mark.extras


def _network(torch: Any, seed: int = 0, width: int = 4) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Sigmoid(), torch.nn.Linear(width, 1))


def _batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=5)


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RankloopError, match=r'pip install "rankloop\[torch\]"'):
        TorchModel(object(), 3)  # type: ignore[arg-type]


@extras
def test_scores_are_the_modules_outputs(torch: Any) -> None:
    features, _ = _batch()
    network = _network(torch)
    with torch.no_grad():
        expected = network(torch.tensor(features))[:, 0].numpy()
    np.testing.assert_array_equal(TorchModel(network, 3).scores(features), expected)
    flat = torch.nn.Sequential(network, torch.nn.Flatten(0))
    np.testing.assert_array_equal(TorchModel(flat, 3).scores(features), expected)


@extras
def test_a_linear_module_learns_what_our_linear_model_learns(torch: Any) -> None:
    features, g = _batch()
    layer = torch.nn.Linear(3, 1)
    start = np.concatenate([layer.weight.detach().numpy()[0], layer.bias.detach().numpy()])
    optimisers: list[SGD | Adam] = [SGD(0.1), Adam(0.1, beta1=0.7)]
    for optimiser in optimisers:
        theirs, ours = TorchModel(layer, 3).learner(optimiser), Linear(3, start).learner(optimiser)
        for _ in range(5):
            theirs.update(features, g)
            ours.update(features, g)
        np.testing.assert_allclose(theirs.scores(features), ours.scores(features), rtol=0, atol=1e-5)


@extras
def test_any_torch_optimiser_ascends(torch: Any) -> None:
    features, g = _batch()
    model = TorchModel(_network(torch), 3)
    learner = model.learner(lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3))
    learner.update(features, g)
    assert g @ (learner.scores(features) - model.scores(features)) > 0


@extras
def test_training_does_not_change_the_users_module(torch: Any) -> None:
    features, g = _batch()
    network = _network(torch)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    TorchModel(network, 3).learner(SGD(1.0)).update(features, g)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    assert network.training


@extras
def test_dropout_is_on_in_updates_and_off_in_scores(torch: Any) -> None:
    features, g = _batch()
    modes: list[bool] = []

    class Spy(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x: Any) -> Any:
            modes.append(self.training)
            return self.layer(x)

    learner = TorchModel(Spy(), 3).learner(SGD())
    learner.scores(features)
    learner.update(features, g)
    learner.scores(features)
    assert modes == [False, True, False]


@extras
def test_reading_needs_the_architecture(torch: Any) -> None:
    data = TorchModel(_network(torch), 3).to_bytes()
    with pytest.raises(
        ModelFileError, match=r"not its architecture: .*TorchModel.from_bytes\(data, module\)"
    ):
        model_from_bytes(data)


@extras
def test_another_architecture_or_type_is_refused(torch: Any) -> None:
    data = TorchModel(_network(torch), 3).to_bytes()
    for other in (_network(torch, width=5), _network(torch)[:1], _network(torch).double()):
        with pytest.raises(ModelFileError, match="does not fit the module"):
            TorchModel.from_bytes(data, other)


@extras
def test_buffers_scalars_and_types_that_numpy_lacks_round_trip(torch: Any) -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, fill: float) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)
            self.weight = torch.nn.Parameter(torch.full((3,), fill, dtype=torch.bfloat16))
            self.register_buffer("mask", torch.tensor([True, False, fill > 1]))

        def forward(self, x: Any) -> Any:
            return self.norm(x) @ (self.weight.float() * self.mask)

    features, g = _batch()
    learner = TorchModel(Odd(1.7), 3).learner(SGD(0.1))
    learner.update(features, g)
    model = learner.model()
    again = TorchModel.from_bytes(model.to_bytes(), Odd(0.0))
    assert again.fingerprint == model.fingerprint
    np.testing.assert_array_equal(again.scores(features), model.scores(features))


@extras
def test_golden_fingerprint(torch: Any) -> None:
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[0.5, 3.0]])
        layer.bias[:] = -1.0
    assert TorchModel(layer, 2).fingerprint == "29cb6c58c009d092"


@extras
def test_refusals(torch: Any) -> None:
    with pytest.raises(RankloopError, match=r"expected a torch\.nn\.Module, got int"):
        TorchModel(3, 3)  # type: ignore[arg-type]
    with pytest.raises(RankloopError, match="n_features=0"):
        TorchModel(_network(torch), 0)
    features, _ = _batch()
    with pytest.raises(RankloopError, match=r"one score per document.*returned shape \(5, 3\)"):
        TorchModel(torch.nn.Identity(), 3).scores(features)
