"""What users do at each rank, and what every kind of users offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import Protocol

import numpy as np

from rankloop import names
from rankloop.errors import DataError
from rankloop.registry import Named, Registry
from rankloop.types import Bias, Float64


@dataclass(frozen=True, eq=False)
class Behaviour:
    """What a user does who goes down a ranking, in chances by rank: all that a simulation needs to know.

    A user who has come as far as rank k and finds an item of relevance R there

        clicks with chance             α_k · R + β_k
        then stops with chance         clicked_k + relevant_k · R     after a click
                                       skipped_k                      otherwise

    and clicks on nothing after stopping. What users remember is whether they have stopped, and no more.

    Attributes:
        alpha: float64, ranks.
        beta: float64, ranks.
        stop_clicked: float64, ranks; how likely users stop after a click, whatever they clicked on.
        stop_relevant: float64, ranks; how much likelier if it was relevant.
        stop_skipped: float64, ranks; how likely they stop although they did not click.

    Example:
        Users who leave after a click on something relevant:

        >>> never = np.zeros(3)
        >>> behaviour = Behaviour(np.full(3, 0.8), np.full(3, 0.1), never, np.ones(3), never)
        >>> behaviour.ranks, behaviour.stops
        (3, True)
    """

    alpha: Float64
    beta: Float64
    stop_clicked: Float64
    stop_relevant: Float64
    stop_skipped: Float64

    def __post_init__(self) -> None:
        shape = np.shape(self.alpha)
        for field in fields(self):
            values = np.array(getattr(self, field.name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, field.name, values)
            if values.ndim != 1 or len(values) == 0 or values.shape != shape:
                raise DataError(
                    f"{field.name} must be numbers, one a rank, as many as alpha has: "
                    f"got shapes {values.shape} and {shape}"
                )
        for name, irrelevant, more in (
            ("a click (alpha, beta)", self.beta, self.alpha),
            ("stopping after a click (stop_clicked, stop_relevant)", self.stop_clicked, self.stop_relevant),
            ("stopping without a click (stop_skipped)", self.stop_skipped, np.zeros(shape)),
        ):
            for chance in (irrelevant, irrelevant + more):
                # Written so that NaN fails.
                if not ((chance >= 0.0) & (chance <= 1.0)).all():
                    raise DataError(f"the chance of {name} must lie in [0, 1], got {chance.tolist()}")

    @classmethod
    def affine(cls, bias: Bias) -> Behaviour:
        """That of users who look at every rank by itself, and never stop."""
        never = np.zeros(bias.ranks)
        return cls(bias.alpha, bias.beta, never, never, never)

    @property
    def ranks(self) -> int:
        """How many ranks are shown."""
        return len(self.alpha)

    @property
    def stops(self) -> bool:
        """Whether users ever stop before the last rank."""
        return bool(self.stop_clicked.any() or self.stop_relevant.any() or self.stop_skipped.any())

    @property
    def table(self) -> Float64:
        """The same as one array, 5 × ranks."""
        return np.stack([getattr(self, field.name) for field in fields(self)])


class Users(Protocol):
    """Who clicks. Anything with a `Behaviour` can be simulated; ``str`` of users is their name."""

    @property
    def behaviour(self) -> Behaviour:
        """What these users do at each rank."""
        ...


class NamedUsers(Named, ABC):
    """Users with a name: frozen dataclasses whose fields are the options of the name."""

    @property
    @abstractmethod
    def behaviour(self) -> Behaviour:
        """What these users do at each rank."""


USERS: Registry[NamedUsers] = Registry("users", NamedUsers)


def users(text: str) -> NamedUsers:
    """Make users from their name; ``str`` of the users gives the name back.

    Example:
        >>> users("paper@5")
        PaperUsers(cutoff=5, rounded=False)
        >>> str(users("cascade@5(stop=1)"))
        'cascade@5(stop=1)'
        >>> users("position")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: 'position' needs a cut-off: position@5, for instance
    """
    return USERS.parse(text)


class AffineModel(NamedUsers):
    """Users who click with chance ``α_k · R + β_k``, whatever else is in the ranking."""

    @property
    @abstractmethod
    def bias(self) -> Bias:
        """α, β and examination by rank: what an estimator must know to correct these users' clicks."""

    @property
    def behaviour(self) -> Behaviour:
        """What these users do at each rank."""
        return Behaviour.affine(self.bias)


def bias_of(users: Users) -> Bias:
    """The bias of affine users; other users have none, and it is an error to ask.

    Example:
        >>> from rankloop.clicks import users
        >>> bias_of(users("position@3")).alpha.round(3)
        array([1.   , 0.5  , 0.333])
        >>> bias_of(users("cascade@3"))
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: 'cascade@3' users have no α and β by rank: whether they click at a rank ...
    """
    if isinstance(users, AffineModel):
        return users.bias
    raise DataError(
        f"{str(users)!r} users have no α and β by rank: whether they click at a rank depends on what stands "
        "above it. Say which bias to assume instead, that of 'paper@5' for instance"
    )


def check_chance(users: NamedUsers, option: str, *, highest: float = 1.0) -> float:
    """An option of users that is a chance, as a float; refused with its name if it is not one."""
    return check_number(users, option, 0.0, highest)


def check_number(users: NamedUsers, option: str, lowest: float, highest: float) -> float:
    """An option of users that is a number in a range, as a float; refused with its name if it is not."""
    value = getattr(users, option)
    if not isinstance(value, int | float) or not lowest <= value <= highest:
        raise names.BadNameError(
            f"{option!r} of the users {users.name!r}: expected a number from {lowest:g} to {highest:g}, "
            f"got {value!r}"
        )
    return float(value)


def check_cutoff(users: NamedUsers) -> None:
    """Refuse a cut-off that is not a whole number from 1."""
    cutoff = getattr(users, "cutoff", MISSING)
    if not isinstance(cutoff, int) or isinstance(cutoff, bool) or cutoff < 1:
        raise names.BadNameError(f"a cut-off counts ranks from 1, got {cutoff!r} for users {users.name!r}")
