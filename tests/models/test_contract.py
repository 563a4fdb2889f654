"""What every kind of model promises. A new kind gets one line in MODELS and is covered from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from rankloop.errors import DataError, ModelFileError
from rankloop.models import MLP, SGD, LightGBMModel, Linear, TorchModel, model_from_bytes, model_to_bytes
from rankloop.models.lightgbm import boost
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
MODELS = {**LEARNERS, "lightgbm": Case("lightgbm", _trees)}


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
def test_it_is_a_model(case: Case) -> None:
    model = case.make(0)
    assert isinstance(model, Model)
    assert model.kind == case.kind
    assert model.n_features == N_FEATURES


@every_model
def test_one_finite_float64_score_a_document(case: Case, features: Float32) -> None:
    before = features.copy()
    scores = case.make(0).scores(features)
    assert scores.dtype == np.float64
    assert scores.shape == (len(features),)
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == len(features)
    np.testing.assert_array_equal(features, before)


@every_model
def test_a_score_does_not_depend_on_the_other_documents(case: Case, features: Float32) -> None:
    model = case.make(0)
    alone = np.concatenate([model.scores(features[i : i + 1]) for i in range(len(features))])
    np.testing.assert_allclose(model.scores(features), alone, rtol=1e-5, atol=1e-6)
    assert model.scores(features[:0]).shape == (0,)


@every_model
def test_scores_take_any_array_of_numbers(case: Case, features: Float32) -> None:
    model = case.make(0)
    np.testing.assert_array_equal(model.scores(np.asfortranarray(features)), model.scores(features))
    np.testing.assert_array_equal(model.scores(features.astype(np.float64)), model.scores(features))


@every_model
@pytest.mark.parametrize("shape", [(3, N_FEATURES - 1), (3, N_FEATURES + 1), (N_FEATURES,), ()])
def test_features_of_the_wrong_shape_are_refused(case: Case, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=f"{N_FEATURES} features, got shape"):
        case.make(0).scores(np.zeros(shape, np.float32))


@every_model
def test_bytes_round_trip(case: Case, features: Float32) -> None:
    model = case.make(0)
    data = model_to_bytes(model)
    again = case.read(data)
    assert type(again) is type(model)
    assert again.fingerprint == model.fingerprint
    assert again.to_bytes() == data
    np.testing.assert_array_equal(again.scores(features), model.scores(features))


@every_model
def test_the_fingerprint_names_the_parameters(case: Case) -> None:
    assert case.make(0).fingerprint == case.make(0).fingerprint
    assert case.make(0).fingerprint != case.make(1).fingerprint
    assert len(case.make(0).fingerprint) == 16


@every_model
def test_a_flipped_bit_or_a_missing_end_is_refused(case: Case) -> None:
    data = model_to_bytes(case.make(0))
    for k in [0, len(data) // 2, len(data) - 1]:
        with pytest.raises(ModelFileError):
            case.read(data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :])
        with pytest.raises(ModelFileError):
            case.read(data[:k])


@every_learner
def test_an_update_ascends_and_leaves_the_model_alone(
    case: Case, features: Float32, rng: np.random.Generator
) -> None:
    model = case.make(0)
    before, fingerprint = model.scores(features), model.fingerprint
    score_gradient = rng.normal(size=len(features))
    learner = model.learner(SGD(rate=1e-3))
    np.testing.assert_array_equal(learner.scores(features), before)
    learner.update(features, score_gradient)
    assert score_gradient @ (learner.scores(features) - before) > 0
    np.testing.assert_array_equal(model.scores(features), before)
    # Made again from the same parameters, not remembered from before.
    assert case.read(model.to_bytes()).fingerprint == fingerprint


@every_learner
def test_a_learners_model_is_a_value(case: Case, features: Float32, rng: np.random.Generator) -> None:
    learner = case.make(0).learner(SGD(rate=0.1))
    learner.update(features, rng.normal(size=len(features)))
    model = learner.model()
    scores = learner.scores(features)
    assert model.kind == case.kind
    assert model.fingerprint != case.make(0).fingerprint
    np.testing.assert_array_equal(model.scores(features), scores)
    learner.update(features, rng.normal(size=len(features)))
    assert not np.array_equal(learner.scores(features), scores)
    np.testing.assert_array_equal(model.scores(features), scores)


@every_learner
def test_the_gradient_is_summed_over_the_rows(
    case: Case, features: Float32, rng: np.random.Generator
) -> None:
    """One step on all rows is the sum of the steps on each row, for a method whose step is linear."""
    model = case.make(0)
    start, probe = model.scores(features), rng.normal(size=len(features))
    rate = 1e-3
    whole = model.learner(SGD(rate))
    whole.update(features, probe)
    # A row's own step moves every score a little; to first order in the rate the moves add up.
    moves = np.zeros(len(features))
    for i in range(len(features)):
        single = model.learner(SGD(rate))
        single.update(features[i : i + 1], probe[i : i + 1])
        moves += single.scores(features) - start
    np.testing.assert_allclose(whole.scores(features) - start, moves, rtol=0.05, atol=1e-5)


@every_learner
def test_score_gradients_of_the_wrong_shape_are_refused(case: Case, features: Float32) -> None:
    learner = case.make(0).learner(SGD())
    for shape in [(len(features) - 1,), (len(features), 1), ()]:
        with pytest.raises(DataError, match="11 documents need as many score gradients"):
            learner.update(features, np.zeros(shape))
