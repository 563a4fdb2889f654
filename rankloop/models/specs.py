"""Names of models to be trained: ``mlp``, ``mlp(hidden=64-32)``, ``linear``, ``lightgbm(rounds=500)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop import names
from rankloop.errors import RankloopError
from rankloop.models.linear import Linear
from rankloop.models.mlp import MLP, Network


class _Spec:
    """The base of the specs: ``str(spec)`` is the name that parses back to the spec."""

    kind: ClassVar[str]

    def __str__(self) -> str:
        return names.name_of(self, self.kind, spelling=_spell)


@dataclass(frozen=True)
class MLPSpec(_Spec):
    """A network with hidden layers: as in the paper, two of 32 sigmoid units.

    >>> str(MLPSpec(hidden=(64, 32)))
    'mlp(hidden=64-32)'
    """

    kind: ClassVar[str] = "mlp"
    hidden: tuple[int, ...] = (32, 32)
    activation: str = "sigmoid"

    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """An untrained network of this shape."""
        return MLP.initialise(n_features, rng, hidden=self.hidden, activation=self.activation)


@dataclass(frozen=True)
class LinearSpec(_Spec):
    """Linear scores."""

    kind: ClassVar[str] = "linear"

    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """An untrained linear model."""
        return Linear.initialise(n_features, rng)


@dataclass(frozen=True)
class LightGBMSpec(_Spec):
    """Boosted trees.

    Attributes:
        rounds: the largest number of trees.
        patience: rounds without a better held-out value before training stops.
        rate: the learning rate.
        leaves: the largest number of leaves per tree.
        min_docs: the smallest number of documents per leaf.
        subsample: the share of documents, and of features, that each tree sees.
    """

    kind: ClassVar[str] = "lightgbm"
    rounds: int = 500
    patience: int = 50
    rate: float = 0.05
    leaves: int = 31
    min_docs: int = 20
    subsample: float = 0.8

    def __post_init__(self) -> None:
        for option, least in (("rounds", 1), ("patience", 1), ("leaves", 2), ("min_docs", 1)):
            if getattr(self, option) < least:
                raise RankloopError(
                    f"lightgbm: {option} must be at least {least}, got {getattr(self, option)}"
                )
        if not 0 < self.rate < np.inf:
            raise RankloopError(f"lightgbm: rate must be positive and finite, got {self.rate}")
        if not 0 < self.subsample <= 1:
            raise RankloopError(f"lightgbm: subsample must be above 0 and at most 1, got {self.subsample}")

    @property
    def parameters(self) -> dict[str, float]:
        """The same settings under LightGBM's names."""
        return {
            "learning_rate": self.rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_docs,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1,
            "feature_fraction": self.subsample,
        }


ModelSpec = MLPSpec | LinearSpec | LightGBMSpec


Readers = Mapping[str, Callable[[str], Any]]


def _hidden(text: str) -> tuple[int, ...]:
    return tuple(names.integer(part) for part in text.split("-"))


def _spell(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple) else names.spell(value)


_SPECS: dict[str, tuple[type[ModelSpec], Readers]] = {
    "mlp": (MLPSpec, {"hidden": _hidden, "activation": str}),
    "linear": (LinearSpec, {}),
    "lightgbm": (
        LightGBMSpec,
        {
            "rounds": names.integer,
            "patience": names.integer,
            "rate": names.number,
            "leaves": names.integer,
            "min_docs": names.integer,
            "subsample": names.number,
        },
    ),
}


def model_spec(text: str) -> ModelSpec:
    """The spec that a name spells.

    >>> model_spec("mlp(hidden=64-32, activation=relu)")
    MLPSpec(hidden=(64, 32), activation='relu')
    """
    name = names.parse_without_cutoff(text, _SPECS, kind="model")
    spec, readers = _SPECS[name.name]
    return spec(**names.arguments(name, readers))
