"""Linear scores: a network without hidden layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from rankloop.models.mlp import Network, glorot


@dataclass(frozen=True, eq=False)
class Linear(Network):
    """``s = x · w + b``; the parameters are w, then b.

    Example:
        >>> Linear(2, np.array([3.0, -1.0, 0.5])).scores(np.array([[1.0, 2.0]]))
        array([1.5])
    """

    kind: ClassVar[str] = "linear"
    hidden: tuple[int, ...] = field(default=(), init=False, repr=False)
    activation: str = field(default="sigmoid", init=False, repr=False)  # no hidden unit ever uses it

    @classmethod
    def initialise(
        cls, n_features: int, rng: np.random.Generator, *, dtype: DTypeLike = np.float32
    ) -> Linear:
        """An untrained model: weights from `glorot`, bias zero."""
        return cls(n_features, glorot([n_features, 1], rng, dtype))
