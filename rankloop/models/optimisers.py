"""Optimisers: from a gradient to new parameters, by ascent.

The settings of an optimiser (a frozen dataclass) and its state (`OptimiserState`) are kept apart, so that the
state can be copied and saved. The steps are compiled functions of plain arrays that other kernels call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.kernels.optimiser_steps import ADAM_METHOD, METHODS, ascend
from rankloop.models.storage import pack, unpack
from rankloop.names import arguments, name_of, number, parse_without_cutoff
from rankloop.types import Float64

Parameters = NDArray[np.float32] | NDArray[np.float64]

STATE_KIND = "optimiser-state"


@dataclass
class OptimiserState:
    """The state of an optimiser between steps.

    Attributes:
        step: the number of steps taken.
        first_moment: running mean of the gradient, like the parameters; empty if the method keeps none.
        second_moment: running mean of its square, the same.

    Example:
        >>> state = Adam().state(np.zeros(3, np.float32))
        >>> OptimiserState.from_bytes(state.to_bytes())
        OptimiserState(step=0, first_moment=array([0., 0., 0.], dtype=float32),
                       second_moment=array([0., 0., 0.], dtype=float32))
    """

    step: int
    first_moment: Parameters
    second_moment: Parameters

    def copy(self) -> OptimiserState:
        """The same state in new arrays."""
        return OptimiserState(self.step, self.first_moment.copy(), self.second_moment.copy())

    def to_bytes(self) -> bytes:
        """The whole state, without pickle."""
        moments = {"first_moment": self.first_moment, "second_moment": self.second_moment}
        return pack(STATE_KIND, {"step": self.step}, moments)

    @classmethod
    def from_bytes(cls, data: bytes) -> OptimiserState:
        """The state that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data, STATE_KIND)
        return cls(content.spec["step"], content.tensors["first_moment"], content.tensors["second_moment"])


class _Optimiser:
    """The base of the optimisers: a name, an empty state, and one step."""

    method: ClassVar[str]

    @property
    def name(self) -> str:
        """The name that parses back to this optimiser: the rate, and whatever differs from its default."""
        return name_of(self, self.method, always=("rate",))

    @property
    def code(self) -> int:
        """The method's number, for `ascend`."""
        return METHODS.index(self.method)

    @property
    def constants(self) -> Float64:
        """Rate, beta1, beta2, epsilon, for `ascend`; those that the method does not have are zero."""
        names = ("rate", "beta1", "beta2", "epsilon")
        return np.array([getattr(self, name, 0.0) for name in names], dtype=np.float64)

    def state(self, parameters: Parameters) -> OptimiserState:
        """The state before the first step on parameters like these."""
        shape = parameters.shape if self.code == ADAM_METHOD else (0,)
        return OptimiserState(0, np.zeros(shape, parameters.dtype), np.zeros(shape, parameters.dtype))

    def step(self, parameters: Parameters, gradient: Parameters, state: OptimiserState) -> None:
        """One ascent step, in place on the parameters and the state."""
        state.step += 1
        moments = state.first_moment, state.second_moment
        ascend(self.code, self.constants, parameters, gradient, *moments, state.step)

    def _refuse(self, name: str, wanted: str, *, unless: bool) -> None:
        if not unless:
            raise RankloopError(f"{self.method}: {name} must be {wanted}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class SGD(_Optimiser):
    """Gradient ascent: ``p ← p + rate · g``.

    Example:
        >>> SGD().name
        'sgd(rate=0.01)'
    """

    method: ClassVar[str] = "sgd"
    rate: float = 0.01

    def __post_init__(self) -> None:
        self._refuse("rate", "positive and finite", unless=0 < self.rate < math.inf)


@dataclass(frozen=True)
class Adam(_Optimiser):
    """Adam, ascending.

    ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``, and at step t
    ``p ← p + rate · m̂ / (√v̂ + ε)`` with ``m̂ = m / (1 − β₁ᵗ)``, ``v̂ = v / (1 − β₂ᵗ)``.

    Example:
        >>> Adam(rate=0.01, beta1=0.8).name
        'adam(beta1=0.8, rate=0.01)'

    Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    method: ClassVar[str] = "adam"
    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        self._refuse("rate", "positive and finite", unless=0 < self.rate < math.inf)
        self._refuse("beta1", "at least 0 and below 1", unless=0 <= self.beta1 < 1)
        self._refuse("beta2", "at least 0 and below 1", unless=0 <= self.beta2 < 1)
        self._refuse("epsilon", "positive and finite", unless=0 < self.epsilon < math.inf)


Optimiser = SGD | Adam


_READERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}


def optimiser(text: str) -> Optimiser:
    """The optimiser that a name spells.

    >>> optimiser("adam(rate=0.01)")
    Adam(rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-08)
    """
    name = parse_without_cutoff(text, _READERS, kind="optimiser")
    chosen = _READERS[name.name]
    return chosen(**arguments(name, {field.name: number for field in fields(chosen)}))
