"""A blend of two models: their scores, weighted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.models.mlp import Network, mean_network
from rankloop.models.storage import fingerprint, model_from_bytes, model_to_bytes, pack, unpack
from rankloop.types import Float32, Float64, Model


def mean_model(models: Sequence[Model]) -> Model:
    """Compute a model whose scores are the mean of those of several: a network if they are networks."""
    first = models[0]
    if all(isinstance(model, Network) for model in models):
        return mean_network([model for model in models if isinstance(model, Network)])
    mean = first
    for number, model in enumerate(models[1:], 2):
        mean = Blend(mean, model, 1.0 / number)
    return mean


@dataclass(frozen=True, eq=False)
class Blend:
    """A step from one model towards another: ``(1 − share) · first + share · second``.

    The models may be of any kinds. A small share makes a policy that differs little from the first one,
    however far the second one is.

    Attributes:
        first: the model at share 0.
        second: the model at share 1.
        share: from 0 to 1.

    Example:
        >>> from rankloop.models import Linear
        >>> down, up = (Linear(1, np.array([slope, 0.0])) for slope in (-1.0, 1.0))
        >>> Blend(down, up, 0.75).scores(np.array([[2.0]], np.float32))
        array([1.])
    """

    kind: ClassVar[str] = "blend"
    first: Model
    second: Model
    share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise RankloopError(f"the share of a blend is from 0 to 1, got {self.share}")
        if self.first.n_features != self.second.n_features:
            raise DataError(
                f"models that are blended take the same features, got {self.first.n_features} and "
                f"{self.second.n_features}"
            )

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return self.first.n_features

    @cached_property
    def fingerprint(self) -> str:
        """Identifies both models and the share."""
        parts = [self.first.fingerprint, self.second.fingerprint]
        return fingerprint(self.kind, {"share": self.share, "models": parts}, {})

    def scores(self, features: Float32) -> Float64:
        """Score documents, one score per document."""
        result: Float64 = (1.0 - self.share) * self.first.scores(features)
        return result + self.share * self.second.scores(features)

    def times(self, by: float) -> Self:
        """The same model with all its scores multiplied by a number."""
        first, second = (model.times(by) for model in (self.first, self.second))  # type: ignore[attr-defined]
        return replace(self, first=first, second=second)

    def to_bytes(self) -> bytes:
        """Serialise both models, without pickle."""
        models = {"first": self.first, "second": self.second}
        tensors = {name: np.frombuffer(model_to_bytes(model), np.uint8) for name, model in models.items()}
        return pack(self.kind, {"share": self.share}, tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ModelFileError: these are not the bytes of a blend, or they are damaged.
        """
        content = unpack(data, cls.kind)
        first, second = (model_from_bytes(content.tensors[name].tobytes()) for name in ("first", "second"))
        return cls(first, second, content.spec["share"])
