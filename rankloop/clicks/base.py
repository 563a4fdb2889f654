"""The behaviour of simulated users per rank, and the interface of all kinds of users."""

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
    """The behaviour of a user who reads a ranking from the top, as probabilities per rank.

    A user who reaches rank k with a document of relevance R

        clicks with probability        α_k · R + β_k
        then stops with probability    clicked_k + relevant_k · R     after a click
                                       skipped_k                      otherwise

    Users click nothing after they stop. Apart from that, ranks are independent.

    Attributes:
        alpha: float64, ranks.
        beta: float64, ranks.
        stop_clicked: float64, ranks; the probability of stopping after a click on an irrelevant document.
        stop_relevant: float64, ranks; the increase of that probability for a relevant document.
        stop_skipped: float64, ranks; the probability of stopping without a click.

    Example:
        Users who leave after a click on a relevant document:

        >>> never = np.zeros(3)
        >>> behaviour = Behaviour(np.full(3, 0.8), np.full(3, 0.1), never, np.ones(3), never)
        >>> behaviour.positions, behaviour.stops
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
                    f"{field.name} must be numbers, one per rank, with as many ranks as alpha: "
                    f"got shapes {values.shape} and {shape}"
                )
        for name, irrelevant, increase in (
            ("a click (alpha, beta)", self.beta, self.alpha),
            ("stopping after a click (stop_clicked, stop_relevant)", self.stop_clicked, self.stop_relevant),
            ("stopping without a click (stop_skipped)", self.stop_skipped, np.zeros(shape)),
        ):
            for chance in (irrelevant, irrelevant + increase):
                # The condition is written so that it rejects NaN.
                if not ((chance >= 0.0) & (chance <= 1.0)).all():
                    raise DataError(f"the probability of {name} must lie in [0, 1], got {chance.tolist()}")

    @classmethod
    def affine(cls, bias: Bias) -> Behaviour:
        """Create the behaviour of users who treat every rank independently and never stop."""
        never = np.zeros(bias.positions)
        return cls(bias.alpha, bias.beta, never, never, never)

    @property
    def positions(self) -> int:
        """Number of ranks that are shown."""
        return len(self.alpha)

    @property
    def stops(self) -> bool:
        """Whether users may stop before the last rank."""
        return bool(self.stop_clicked.any() or self.stop_relevant.any() or self.stop_skipped.any())

    @property
    def table(self) -> Float64:
        """All probabilities in one array, 5 × ranks."""
        return np.stack([getattr(self, field.name) for field in fields(self)])


class Users(Protocol):
    """Simulated users: any object with a `Behaviour`; ``str`` of the users is their name."""

    @property
    def behaviour(self) -> Behaviour:
        """The behaviour of these users per rank."""
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
    """Users who click with probability ``α_k · R + β_k``, independently of the rest of the ranking."""

    @property
    @abstractmethod
    def bias(self) -> Bias:
        """α, β and examination per rank, which estimators need to correct the clicks of these users."""

    @property
    def behaviour(self) -> Behaviour:
        """The behaviour of these users per rank."""
        return Behaviour.affine(self.bias)


def bias_of(users: Users) -> Bias:
    """Return the bias of affine users; raise an error for other users, which have none.

    Example:
        >>> from rankloop.clicks import users
        >>> bias_of(users("position@3")).alpha.round(3)
        array([1.   , 0.5  , 0.333])
        >>> bias_of(users("cascade@3"))
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: 'cascade@3' users have no α and β per rank: whether they click at a rank
        ...
    """
    if isinstance(users, AffineModel):
        return users.bias
    raise DataError(
        f"{str(users)!r} users have no α and β per rank: whether they click at a rank depends on the "
        "documents above it. Assume the bias of other users instead, such as 'paper@5'; in a loop, with "
        "SimulatedUsers.of(…, bias=…)"
    )


def check_chance(users: NamedUsers, option: str, *, highest: float = 1.0) -> float:
    """Check that an option of users is a probability, and return it as a float."""
    return check_number(users, option, 0.0, highest)


def check_number(users: NamedUsers, option: str, lowest: float, highest: float) -> float:
    """Check that an option of users is a number in a range, and return it as a float."""
    value = getattr(users, option)
    if not isinstance(value, int | float) or not lowest <= value <= highest:
        raise names.BadNameError(
            f"{option!r} of the users {users.name!r}: expected a number from {lowest:g} to {highest:g}, "
            f"got {value!r}"
        )
    return float(value)


def check_cutoff(users: NamedUsers) -> None:
    """Raise an error unless the cut-off is an integer of at least 1."""
    cutoff = getattr(users, "cutoff", MISSING)
    if not isinstance(cutoff, int) or isinstance(cutoff, bool) or cutoff < 1:
        raise names.BadNameError(
            f"the cut-off of users {users.name!r} must be an integer of at least 1, got {cutoff!r}"
        )
