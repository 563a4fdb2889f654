"""Evidence that a mean is above 0, by bets: exact after any number of observations.

    E = 1/B Σ_b Π_t (1 + b x_t)

with B bets b. While the mean of x_t given everything before is at most 0, E is a supermartingale that begins
at 1, so the probability that it ever reaches 1/level is at most the level (Ville's inequality), however often
one looks. No variance is estimated and no central limit theorem is used: rare large observations do no harm.
A bet is capped such that no observation can take more than 95 % of what it has won, so the lowest possible
x_t must be known before the observation.

Reference: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rankloop.errors import DataError
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64

# Small bets notice small differences after many pages, large ones notice large differences at once.
BETS = tuple(float(bet) for bet in np.geomspace(0.001, 2.0, 16))
# An observation takes at most this share of what a bet has won.
LARGEST_LOSS = 0.95


def log_factors(values: Float64, losses: Float64, *, count: int = 0, unit: float = 1.0) -> Float64:
    """What each bet wins by each observation, ``log(1 + b x_t)``: bets × observations.

    Args:
        values: x_t.
        losses: the largest possible −x_t, known before the observation.
        count: the number of observations before, for messages.
        unit: what is usual, known before the observations: bets are on values in this unit, so that evidence
            is the same whatever amounts are counted in.

    Raises:
        DataError: an observation is not finite, or lower than it was said that it could be.

    Example:
        >>> log_factors(np.array([-1.0]), np.array([10.0])).min().round(3) == np.log(1.0 - 0.095).round(3)
        np.True_
    """
    bad = np.flatnonzero(~np.isfinite(values) | (values < -losses * (1.0 + 1e-9)))
    if len(bad):
        raise DataError(
            f"observation {count + bad[0]} is {values[bad[0]]}, and it may be no lower than {-losses[bad[0]]}"
        )
    with np.errstate(divide="ignore"):
        bets = np.minimum(np.array(BETS)[:, None] / unit, LARGEST_LOSS / losses)
    won: Float64 = np.log1p(bets * values)
    return won


@dataclass(frozen=True)
class Bets:
    """Evidence that a mean is above 0, as a value: `add` returns the next one.

    Attributes:
        count: the number of observations.
        log_bets: what each bet has won, as a logarithm.
        highest: the highest log E so far.
        total: the sum of the observations.
        squares: the sum of their squares.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> Bets().add(rng.choice([-1.0, 1.0], 2_000), np.ones(2_000)).decides(0.05)
        False
        >>> Bets().add(rng.choice([-1.0, 1.0], 2_000, p=[0.4, 0.6]), np.ones(2_000)).decides(0.05)
        True
    """

    count: int = 0
    log_bets: tuple[float, ...] = (0.0,) * len(BETS)
    highest: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    def __post_init__(self) -> None:
        if len(self.log_bets) != len(BETS):
            raise DataError(f"this version has {len(BETS)} bets, got {len(self.log_bets)}")

    def add(self, values: Float64, losses: Float64, *, unit: float = 1.0) -> Self:
        """Return the evidence after these observations, in their order.

        Args:
            values: x_t.
            losses: the largest possible −x_t, known before the observation.
            unit: what is usual; see `log_factors`.

        Raises:
            DataError: an observation is not finite, or lower than it was said that it could be.
        """
        if not len(values):
            return self
        won = np.cumsum(log_factors(values, losses, count=self.count, unit=unit), axis=1)
        path = np.array(self.log_bets)[:, None] + won
        evidence = np.logaddexp.reduce(path, axis=0) - math.log(len(BETS))
        return replace(
            self,
            count=self.count + len(values),
            log_bets=tuple(float(each) for each in path[:, -1]),
            highest=max(self.highest, float(evidence.max())),
            total=self.total + float(values.sum()),
            squares=self.squares + float(values @ values),
        )

    @property
    def log_evidence(self) -> float:
        """The logarithm of E now."""
        return float(np.logaddexp.reduce(self.log_bets)) - math.log(len(BETS))

    def decides(self, level: float) -> bool:
        """Whether E ever was at least 1 / level."""
        return self.highest >= -math.log(level)

    @property
    def mean(self) -> float:
        """The mean of the observations; NaN without any."""
        return self.total / self.count if self.count else math.nan

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN before two observations. For people: bets decide without it."""
        if self.count < 2:
            return math.nan
        variance = (self.squares - self.count * self.mean**2) / (self.count - 1)
        return math.sqrt(max(variance, 0.0) / self.count)

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            DataError: fields are missing or unknown.
        """
        return from_plain(cls, state, "the state of bets of this version")
