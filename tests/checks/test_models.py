"""Every clause about models catches a model that breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from rankloop.checks import ContractError, check_model, check_model_spec
from rankloop.checks.contract import VALUE_CLAUSES
from rankloop.checks.models import MODEL_CLAUSES, MODEL_SPEC_CLAUSES, ModelCase
from rankloop.models import SGD, Linear
from rankloop.models.mlp import NetworkLearner
from rankloop.models.specs import LinearSpec
from tests.checks.broken import assert_caught

N_FEATURES = 5


class Broken(Linear):
    """Linear scores, with the part overridden that breaks a clause."""


class Anonymous(Broken):
    fingerprint = "anonymous"  # type: ignore[assignment]


class Single(Broken):
    def scores(self, features: Any) -> Any:
        return super().scores(features).astype(np.float32)


class Relative(Broken):
    def scores(self, features: Any) -> Any:
        scores = super().scores(features)
        return scores - scores.mean() if len(scores) else scores


class Transposed(Broken):
    def scores(self, features: Any) -> Any:
        by_row = np.asarray(features).flags.c_contiguous
        return super().scores(features) * (1.0 if by_row else 2.0)


class Padding(Broken):
    def scores(self, features: Any) -> Any:
        rows = np.atleast_2d(features)
        return super().scores(np.resize(rows, (len(rows), self.n_features)))


class Forgetful(Broken):
    @classmethod
    def from_bytes(cls, data: bytes) -> Any:
        model = super().from_bytes(data)
        return model.with_parameters(np.zeros_like(model.parameters))


class Careless(Broken):
    @classmethod
    def from_bytes(cls, _data: bytes) -> Any:
        return make(cls)


class Learner(NetworkLearner):
    """A learner, with the part overridden that breaks a clause."""


class Downhill(Learner):
    def update(self, features: Any, score_gradient: Any) -> None:
        super().update(features, -np.asarray(score_gradient))


class Skewed(Learner):
    def update(self, features: Any, score_gradient: Any) -> None:
        super().update(features, np.asarray(score_gradient) * np.linspace(0.0, 1.0, len(features)))


class Averaging(Learner):
    def update(self, features: Any, score_gradient: Any) -> None:
        super().update(features, np.asarray(score_gradient) / len(features))


class Sharing(Learner):
    def model(self) -> Any:
        made = super().model()
        object.__setattr__(made, "parameters", self.parameters)
        return made


class Flattening(Learner):
    def update(self, features: Any, score_gradient: Any) -> None:
        super().update(features, np.resize(score_gradient, len(features)))


def learning(kind: type[Learner]) -> type[Linear]:
    return type(kind.__name__, (Broken,), {"learner": lambda self, optimiser: kind(self, optimiser)})


class Wrong(Broken):
    def gradient(self, features: Any, score_gradient: Any) -> Any:
        return 2.0 * super().gradient(features, score_gradient)


def make(kind: type[Linear]) -> Any:
    return kind.initialise(N_FEATURES, np.random.default_rng(0))


BROKEN = [
    ("says_what_it_is", Anonymous),
    ("scores_every_document", Single),
    ("scores_each_document_alone", Relative),
    ("takes_any_array", Transposed),
    ("refuses_other_features", Padding),
    ("survives_storage", Forgetful),
    ("notices_damage", Careless),
    ("learns_uphill", learning(Downhill)),
    ("learns_by_the_gradient", learning(Skewed)),
    ("agrees_with_finite_differences", Wrong),
    ("sums_over_documents", learning(Averaging)),
    ("learns_into_new_models", learning(Sharing)),
    ("refuses_other_gradients", learning(Flattening)),
]


def test_every_clause_can_fail() -> None:
    assert {name for name, _ in BROKEN} == {clause.name for clause in MODEL_CLAUSES}


@pytest.mark.parametrize(("clause", "kind"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_model_is_caught(clause: str, kind: type[Linear]) -> None:
    model = make(kind)
    case = ModelCase(model, kind.from_bytes)
    error = assert_caught(MODEL_CLAUSES, clause, case, lambda: check_model(model, read=kind.from_bytes))
    assert str(error).startswith(f"the linear model {kind.__name__} breaks the contract")


def test_a_model_that_keeps_the_contract_passes() -> None:
    check_model(make(Broken), read=Broken.from_bytes)
    assert make(Broken).learner(SGD()).scores(np.zeros((0, N_FEATURES))).shape == (0,)


@dataclass(frozen=True)
class Unseeded(LinearSpec):
    name: ClassVar[str] = "unseeded"

    def initialise(self, n_features: int, _rng: np.random.Generator) -> Any:
        return super().initialise(n_features, np.random.default_rng(int(COUNT.integers(1_000_000))))


@dataclass(frozen=True)
class Fixed(LinearSpec):
    name: ClassVar[str] = "fixed"

    def initialise(self, n_features: int, _rng: np.random.Generator) -> Any:
        return super().initialise(n_features, np.random.default_rng(0))


COUNT = np.random.default_rng(0)


@pytest.mark.parametrize("spec", [Unseeded(), Fixed()], ids=str)
def test_a_broken_spec_is_caught(spec: LinearSpec) -> None:
    (own,) = set(MODEL_SPEC_CLAUSES) - set(VALUE_CLAUSES)
    with pytest.raises(ContractError, match="Clause starts_from_the_generator"):
        own(spec)
    with pytest.raises(ContractError):
        check_model_spec(spec)
