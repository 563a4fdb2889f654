"""One damped Newton's method for everything that is maximised by steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")

# A step is halved until it raises the value, so many times at most.
HALVINGS = tuple(2.0**-power for power in range(9))


class Look(NamedTuple, Generic[P]):
    """What is known at a point.

    Attributes:
        value: what is maximised.
        move: from the length of a step to the point where it leads; 1 is the whole Newton step. It is called
            only if a step is taken, so that derivatives can be computed then.
    """

    value: float
    move: Callable[[float], P]


class Maximum(NamedTuple, Generic[P]):
    """Where a search ended.

    Attributes:
        at: the point.
        value: the value there.
        converged: whether the last step gained less than the tolerance.
    """

    at: P
    value: float
    converged: bool


def maximise(
    start: P,
    look: Callable[[P], Look[P]],
    *,
    steps: int,
    tolerance: float,
    lengths: Sequence[float] = HALVINGS,
    fallback: Callable[[P], P] | None = None,
) -> Maximum[P]:
    """Take Newton steps as long as they raise the value.

    Args:
        start: the first point.
        look: finds the value at a point, and where a step from it leads.
        steps: the largest number of steps.
        tolerance: the gain below which the search ends.
        lengths: lengths of a step to try in this order, until one raises the value.
        fallback: a safer step, if none of them does; None to end the search there.

    Example:
        The maximum of x − exp(x), which is concave, from far away.

        >>> from math import exp
        >>> def look(x):
        ...     return Look(x - exp(x), lambda length: x + length * (1.0 - exp(x)) / exp(x))
        >>> found = maximise(-3.0, look, steps=50, tolerance=1e-12)
        >>> round(found.at, 6), round(found.value, 6), found.converged
        (0.0, -1.0, True)
    """
    at, here = start, look(start)
    for _ in range(steps):
        for length in lengths:
            candidate = here.move(length)
            there = look(candidate)
            if there.value > here.value:
                break
        else:
            if fallback is None:
                return Maximum(at, here.value, True)
            candidate = fallback(at)
            there = look(candidate)
        gain = there.value - here.value
        if gain > 0.0:
            at, here = candidate, there
        if gain < tolerance:
            return Maximum(at, here.value, True)
    return Maximum(at, here.value, False)
