"""Optimisers: from a gradient to new parameters, by ascent.

The settings of an optimiser (a frozen dataclass) and its state (`OptimiserState`) are kept apart, so that the
state can be copied and saved. The steps are compiled functions of plain arrays that other kernels call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import ModelFileError, RankloopError
from rankloop.kernels.optimiser_steps import ADAM_METHOD, METHODS, ascend
from rankloop.models.storage import pack, unpack
from rankloop.names import Option
from rankloop.registry import Named, Registry, register
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
        step = content.spec.get("step")
        if set(content.tensors) != {"first_moment", "second_moment"} or not isinstance(step, int) or step < 0:
            raise ModelFileError("the file does not hold the state of an optimiser")
        return cls(step, **content.tensors)


# The rate is always part of the name: it is what a reader of results asks for first.
Rate = Annotated[float, Option(always=True)]


class _Optimiser(Named):
    """The base of the optimisers: a name, an empty state, and one step."""

    @property
    def code(self) -> int:
        """The method's number, for `ascend`."""
        return METHODS.index(self.name)

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
        self.check_state(parameters, state)
        if gradient.shape != parameters.shape or gradient.dtype != parameters.dtype:
            raise RankloopError(
                f"{len(parameters)} parameters of {parameters.dtype} need a gradient like them, got "
                f"{gradient.dtype} of shape {gradient.shape}"
            )
        state.step += 1
        moments = state.first_moment, state.second_moment
        ascend(self.code, self.constants, parameters, gradient, *moments, state.step)

    def check_state(self, parameters: Parameters, state: OptimiserState) -> None:
        """Refuse the state of another optimiser, or of other parameters: kernels do not check it."""
        wanted = parameters.shape if self.code == ADAM_METHOD else (0,)
        for moment in (state.first_moment, state.second_moment):
            if moment.shape != wanted or moment.dtype != parameters.dtype:
                raise RankloopError(
                    f"{self.name}: this state is not that of {len(parameters)} parameters of "
                    f"{parameters.dtype}: its moments are {moment.dtype} of shape {moment.shape}; begin with "
                    f"state(parameters)"
                )

    def _refuse(self, name: str, wanted: str, *, unless: bool) -> None:
        if not unless:
            raise RankloopError(f"{self.name}: {name} must be {wanted}, got {getattr(self, name)!r}")


OPTIMISERS: Registry[Optimiser] = Registry("optimiser", _Optimiser)


@register
@dataclass(frozen=True)
class SGD(_Optimiser):
    """Gradient ascent: ``p ← p + rate · g``.

    Example:
        >>> str(SGD())
        'sgd(rate=0.01)'
    """

    name: ClassVar[str] = "sgd"
    rate: Rate = 0.01

    def __post_init__(self) -> None:
        self._refuse("rate", "positive and finite", unless=0 < self.rate < math.inf)


@register
@dataclass(frozen=True)
class Adam(_Optimiser):
    """Adam, ascending.

    ``m ← β₁ m + (1 − β₁) g``, ``v ← β₂ v + (1 − β₂) g²``, and at step t
    ``p ← p + rate · m̂ / (√v̂ + ε)`` with ``m̂ = m / (1 − β₁ᵗ)``, ``v̂ = v / (1 − β₂ᵗ)``.

    Example:
        >>> str(Adam(rate=0.01, beta1=0.8))
        'adam(beta1=0.8, rate=0.01)'

    Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.
    """

    name: ClassVar[str] = "adam"
    rate: Rate = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        self._refuse("rate", "positive and finite", unless=0 < self.rate < math.inf)
        self._refuse("beta1", "at least 0 and below 1", unless=0 <= self.beta1 < 1)
        self._refuse("beta2", "at least 0 and below 1", unless=0 <= self.beta2 < 1)
        self._refuse("epsilon", "positive and finite", unless=0 < self.epsilon < math.inf)


Optimiser = SGD | Adam


def optimiser(text: str) -> Optimiser:
    """The optimiser that a name spells.

    >>> optimiser("adam(rate=0.01)")
    Adam(rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-08)
    """
    return OPTIMISERS.parse(text)
