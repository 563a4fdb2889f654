"""Names of models to be trained: ``mlp``, ``mlp(hidden=64-32)``, ``linear``, ``lightgbm(rounds=500)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from rankloop.errors import RankloopError
from rankloop.models.linear import Linear
from rankloop.models.mlp import MLP, Network
from rankloop.registry import Named, Registry, register


class NamedModel(Named):
    """The value of a name such as ``mlp(hidden=64-32)``: how to make a model, not the model itself."""


class NetworkSpec(NamedModel, ABC):
    """A model that learns in steps, and so needs parameters to start from."""

    @abstractmethod
    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """A model of this kind to start from; all chance comes from the generator."""


TreeObjective = Literal["auto", "lambdarank", "expected-metric", "click-likelihood", "click-rates", "ips"]
NetworkObjective = Literal["auto", "weights", "click-likelihood"]
# Trees that learn from the clicks of a log by rank, and not from weights of documents.
ON_CLICKS = ("click-likelihood", "click-rates", "ips")

# Leaves per tree. On sparse logs 7 and 15 were better than 31, and 7 took too many trees.
LEAVES, LEAVES_ON_CLICKS = 31, 15

MODELS: Registry[ModelSpec] = Registry("model", NamedModel)


@register
@dataclass(frozen=True)
class MLPSpec(NetworkSpec):
    """A network with hidden layers: as in the paper, two of 32 sigmoid units.

    Attributes:
        hidden: units per hidden layer.
        activation: what units compute.
        objective: what `rankloop.fit` trains it on: ``click-likelihood`` (of the clicks of the log, by rank),
            ``weights`` (the objective of the learning, on the weights of its estimator), or ``auto``.

    >>> str(MLPSpec(hidden=(64, 32)))
    'mlp(hidden=64-32)'
    """

    name: ClassVar[str] = "mlp"
    hidden: tuple[int, ...] = (32, 32)
    activation: str = "sigmoid"
    objective: NetworkObjective = "auto"

    def __post_init__(self) -> None:
        _check_objective(self.name, self.objective)

    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """An untrained network of this shape."""
        return MLP.initialise(n_features, rng, hidden=self.hidden, activation=self.activation)


@register
@dataclass(frozen=True)
class LinearSpec(NetworkSpec):
    """Linear scores.

    Attributes:
        objective: what `rankloop.fit` trains it on, as for `MLPSpec`.
    """

    name: ClassVar[str] = "linear"
    objective: NetworkObjective = "auto"

    def __post_init__(self) -> None:
        _check_objective(self.name, self.objective)

    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """An untrained linear model."""
        return Linear.initialise(n_features, rng)


@register
@dataclass(frozen=True)
class TwoTowerSpec(NetworkSpec):
    """An additive two-tower model on the clicks of a log: the network is its relevance tower.

    A baseline for `rankloop.fit` alone; it uses no bias, and is confounded by what the ranker that logged
    knew (`rankloop.relevance.baselines`).

    Attributes:
        hidden: units per hidden layer of the relevance tower.
        activation: what units compute.
    """

    name: ClassVar[str] = "two-tower"
    hidden: tuple[int, ...] = (32, 32)
    activation: str = "sigmoid"

    def initialise(self, n_features: int, rng: np.random.Generator) -> Network:
        """An untrained relevance tower of this shape."""
        return MLP.initialise(n_features, rng, hidden=self.hidden, activation=self.activation)


def _check_objective(name: str, objective: str) -> None:
    if objective not in get_args(NetworkObjective):
        known = ", ".join(get_args(NetworkObjective))
        raise RankloopError(f"{name}: objective must be one of {known}, got {objective!r}")


@register
@dataclass(frozen=True)
class LightGBMSpec(NamedModel):
    """Boosted trees.

    Attributes:
        rounds: the largest number of trees.
        patience: rounds without a better held-out value before training stops.
        rate: the learning rate.
        leaves: the largest number of leaves per tree; ``auto`` is 15 for ``click-likelihood``, because single
            clicks are noisy, and 31 for the others.
        min_documents: the smallest number of documents per leaf.
        subsample: the share of documents, and of features, that each tree sees.
        objective: what trees are grown on: ``lambdarank`` (pairs of documents, weighted by what swapping them
            changes), ``expected-metric`` (exact, under the Plackett–Luce policy of the scores),
            ``click-likelihood`` (of the clicks of a log, by rank; `rankloop.fit` alone), as baselines of
            `rankloop.fit` ``click-rates`` and ``ips`` (squared error of clicks per display), or ``auto``: for
            clicks of a log click-likelihood if its queries come rarely and lambdarank if they come often,
            and expected-metric for everything else.
        imitate: whether trees that imitate the logged order are added to trees on the likelihood of clicks,
            as far as held-out clicks support it.
    """

    name: ClassVar[str] = "lightgbm"
    rounds: int = 500
    patience: int = 50
    rate: float = 0.05
    leaves: int | Literal["auto"] = "auto"
    min_documents: int = 20
    subsample: float = 0.8
    objective: TreeObjective = "auto"
    imitate: bool = True

    def __post_init__(self) -> None:
        for option, least in (("rounds", 1), ("patience", 1), ("leaves", 2), ("min_documents", 1)):
            value = getattr(self, option)
            if value != "auto" and value < least:
                raise RankloopError(f"lightgbm: {option} must be at least {least}, got {value}")
        if self.objective not in get_args(TreeObjective):
            known = ", ".join(get_args(TreeObjective))
            raise RankloopError(f"lightgbm: objective must be one of {known}, got {self.objective!r}")
        if not 0 < self.rate < np.inf:
            raise RankloopError(f"lightgbm: rate must be positive and finite, got {self.rate}")
        if not 0 < self.subsample <= 1:
            raise RankloopError(f"lightgbm: subsample must be above 0 and at most 1, got {self.subsample}")

    @property
    def parameters(self) -> dict[str, float]:
        """The same settings under LightGBM's names."""
        usual = LEAVES_ON_CLICKS if self.objective == "click-likelihood" else LEAVES
        return {
            "learning_rate": self.rate,
            "num_leaves": usual if self.leaves == "auto" else self.leaves,
            "min_data_in_leaf": self.min_documents,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1,
            "feature_fraction": self.subsample,
        }


ModelSpec = NetworkSpec | LightGBMSpec


def model_spec(text: str) -> ModelSpec:
    """The spec that a name spells.

    >>> model_spec("mlp(hidden=64-32, activation=relu)")
    MLPSpec(hidden=(64, 32), activation='relu', objective='auto')
    """
    return MODELS.parse(text)
