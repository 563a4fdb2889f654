"""What every kind of model promises. A new kind gets one line in MODELS and is covered from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from rankloop.checks.contract import Clause
from rankloop.checks.models import MODEL_CLAUSES, ModelCase
from rankloop.errors import DataError
from rankloop.models import (
    MLP,
    SGD,
    Blend,
    LightGBMModel,
    Linear,
    TorchModel,
    model_from_bytes,
    model_to_bytes,
)
from rankloop.models.lightgbm import boost
from rankloop.models.lightgbm_trees import trees_of_text
from rankloop.models.storage import READERS
from rankloop.ragged import THREADS_VARIABLE
from rankloop.types import Float32, Model

N_FEATURES = 7


class Case(NamedTuple):
    """How to make a model of one kind from a seed, and how to read it back."""

    kind: str
    make: Callable[[int], Any]
    read: Callable[[bytes], Model] = model_from_bytes


def _torch_module(seed: int) -> Any:
    torch = pytest.importorskip("torch", reason='torch is not installed: pip install "rankloop[torch]"')
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(N_FEATURES, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def _mlp(**options: Any) -> Callable[[int], Any]:
    return lambda seed: MLP.initialise(N_FEATURES, np.random.default_rng(seed), **options)


def _trees(seed: int) -> LightGBMModel:
    """Trees that tell any two documents apart: fitted to the sum of the features, with a leaf a document."""
    features = np.random.default_rng(seed).normal(size=(60, N_FEATURES)).astype(np.float32)
    target = features.sum(axis=1, dtype=np.float64)
    parameters = {"min_data_in_leaf": 1, "learning_rate": 0.5}
    return boost(
        features, lambda scores: (target - scores, np.ones(60)), rounds=8, parameters=parameters, seed=seed
    )


# Models that learn by a step on a batch of documents. A kind that does not goes to MODELS alone.
LEARNERS = {
    "mlp": Case("mlp", _mlp()),
    "mlp, tanh, float64": Case("mlp", _mlp(hidden=(5, 3), activation="tanh", dtype=np.float64)),
    "mlp, relu": Case("mlp", _mlp(hidden=(20,), activation="relu")),
    "linear": Case("linear", lambda seed: Linear.initialise(N_FEATURES, np.random.default_rng(seed))),
    "torch": Case(
        "torch",
        lambda seed: TorchModel(_torch_module(seed), N_FEATURES),
        lambda data: TorchModel.from_bytes(data, _torch_module(seed=99)),
    ),
}
MODELS = {
    **LEARNERS,
    "lightgbm": Case("lightgbm", _trees),
    "trees": Case("trees", lambda seed: trees_of_text(_trees(seed).text)),
    "blend": Case("blend", lambda seed: Blend(_mlp()(seed), _trees(seed), 0.3)),
}


def _parameters(cases: dict[str, Case]) -> list[Any]:
    extras = pytest.mark.extras
    return [
        pytest.param(case, id=name, marks=[extras] if case.kind == "torch" else [])
        for name, case in cases.items()
    ]


every_model = pytest.mark.parametrize("case", _parameters(MODELS))
every_learner = pytest.mark.parametrize("case", _parameters(LEARNERS))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On data this small, the threads of LightGBM would only wait for one another."""
    monkeypatch.setenv(THREADS_VARIABLE, "1")


@pytest.fixture
def features(rng: np.random.Generator) -> Float32:
    return rng.normal(size=(11, N_FEATURES)).astype(np.float32)


def test_every_kind_that_can_be_read_is_under_contract() -> None:
    assert {case.kind for case in MODELS.values()} == set(READERS)


@every_model
@pytest.mark.parametrize("clause", MODEL_CLAUSES, ids=repr)
def test_every_model_keeps_the_contract(case: Case, clause: Clause[ModelCase]) -> None:
    clause(ModelCase(case.make(0), case.read))


@every_model
def test_it_is_what_it_says(case: Case) -> None:
    model = case.make(0)
    assert model.kind == case.kind
    assert model.n_features == N_FEATURES
    assert model_to_bytes(model) == model.to_bytes()


@every_model
def test_different_documents_have_different_scores(case: Case, features: Float32) -> None:
    assert len(np.unique(case.make(0).scores(features))) == len(features)


@every_model
@pytest.mark.parametrize("shape", [(3, N_FEATURES - 1), (3, N_FEATURES + 1), (N_FEATURES,), ()])
def test_features_of_the_wrong_shape_are_refused(case: Case, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"{N_FEATURES} features, got shape"):
        case.make(0).scores(np.zeros(shape, np.float32))


@every_model
def test_the_fingerprint_names_the_parameters(case: Case) -> None:
    assert case.make(0).fingerprint == case.make(0).fingerprint
    assert case.make(0).fingerprint != case.make(1).fingerprint
    assert len(case.make(0).fingerprint) == 16


@every_learner
def test_score_gradients_of_the_wrong_shape_are_refused(case: Case, features: Float32) -> None:
    learner = case.make(0).learner(SGD())
    for shape in [(len(features) - 1,), (len(features), 1), ()]:
        with pytest.raises(DataError, match="11 documents need 11 score gradients"):
            learner.update(features, np.zeros(shape))
