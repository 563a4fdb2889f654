"""Names of models to be trained, and back."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.checks import check_model_spec, check_value
from rankloop.errors import RankloopError
from rankloop.models.specs import (
    MODELS,
    LightGBMSpec,
    LinearSpec,
    MLPSpec,
    ModelSpec,
    NetworkSpec,
    TwoTowerSpec,
    model_spec,
)
from rankloop.names import BadNameError
from tests.checks.registered import built_in

SPELLINGS = {
    "mlp": MLPSpec(),
    "mlp(hidden=64)": MLPSpec(hidden=(64,)),
    "mlp(activation=relu, hidden=64-32-16)": MLPSpec(hidden=(64, 32, 16), activation="relu"),
    "linear": LinearSpec(),
    "linear(objective=click-likelihood)": LinearSpec(objective="click-likelihood"),
    "two-tower": TwoTowerSpec(),
    "two-tower(hidden=64)": TwoTowerSpec(hidden=(64,)),
    "lightgbm": LightGBMSpec(),
    "lightgbm(leaves=7, min_documents=1, patience=9, rate=0.1, rounds=20, subsample=1)": LightGBMSpec(
        rounds=20, patience=9, rate=0.1, leaves=7, min_documents=1, subsample=1.0
    ),
}


@pytest.mark.parametrize(("text", "spec"), SPELLINGS.items())
def test_names_and_specs_are_the_same(text: str, spec: ModelSpec) -> None:
    assert model_spec(text) == spec
    assert str(spec) == text
    assert model_spec(str(spec)) == spec


def test_every_spec_is_covered() -> None:
    assert {spec.name for spec in SPELLINGS.values()} == built_in(MODELS)


@pytest.mark.parametrize("spec", SPELLINGS.values(), ids=str)
def test_every_spec_keeps_the_contract(spec: ModelSpec) -> None:
    check_value(spec)
    if isinstance(spec, NetworkSpec):
        check_model_spec(spec)


def test_a_network_has_the_shape_it_was_given() -> None:
    model = MLPSpec(hidden=(5, 3), activation="tanh").initialise(7, np.random.default_rng(0))
    assert (model.kind, model.n_features, model.hidden, model.activation) == ("mlp", 7, (5, 3), "tanh")
    linear = LinearSpec().initialise(7, np.random.default_rng(0))
    assert (linear.kind, linear.n_features, len(linear.parameters)) == ("linear", 7, 8)


def test_options_of_trees_in_lightgbms_words() -> None:
    spec = LightGBMSpec(rate=0.1, leaves=7, min_documents=3, subsample=0.5)
    assert spec.parameters == {
        "learning_rate": 0.1,
        "num_leaves": 7,
        "min_data_in_leaf": 3,
        "bagging_fraction": 0.5,
        "bagging_freq": 1,
        "feature_fraction": 0.5,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mpl", r"unknown model 'mpl', did you mean 'mlp'\? There are: lightgbm, linear, mlp"),
        ("forest", "unknown model 'forest'; there are: lightgbm, linear, mlp"),
        ("mlp(hiden=3)", "unknown option of 'mlp' 'hiden', did you mean 'hidden'"),
        ("linear(hidden=3)", "unknown option of 'linear' 'hidden'"),
        ("mlp(hidden=3-x)", "option 'hidden' .* expected a whole number, got 'x'"),
        ("mlp(hidden=3-)", "option 'hidden' .* expected a whole number, got ''"),
        ("lightgbm(rate=fast)", "expected a number, got 'fast'"),
        ("lightgbm(rounds=1.5)", "expected a whole number, got '1.5'"),
        ("mlp@5", "'mlp' takes no cut-off, got 'mlp@5'"),
        ("mlp(hidden=3", "cannot read"),
    ],
)
def test_names_that_spell_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadNameError, match=message):
        model_spec(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lightgbm(rounds=0)", "rounds must be at least 1, got 0"),
        ("lightgbm(patience=0)", "patience must be at least 1, got 0"),
        ("lightgbm(leaves=1)", "leaves must be at least 2, got 1"),
        ("lightgbm(min_documents=0)", "min_documents must be at least 1, got 0"),
        ("lightgbm(rate=0)", "rate must be positive and finite, got 0"),
        ("lightgbm(rate=-0.1)", "rate must be positive and finite, got -0.1"),
        ("lightgbm(subsample=0)", "subsample must be above 0 and at most 1, got 0"),
        ("lightgbm(subsample=1.5)", "subsample must be above 0 and at most 1, got 1.5"),
    ],
)
def test_trees_that_cannot_be_grown_are_refused_before_lightgbm_sees_them(text: str, message: str) -> None:
    with pytest.raises(RankloopError, match=f"^lightgbm: {message}"):
        model_spec(text)


def test_networks_that_cannot_be_made_are_refused() -> None:
    for text, message in [
        ("mlp(hidden=0)", "at least one unit"),
        ("mlp(activation=cos)", "unknown activation"),
    ]:
        spec = model_spec(text)
        assert isinstance(spec, MLPSpec)
        with pytest.raises(RankloopError, match=message):
            spec.initialise(3, np.random.default_rng(0))
