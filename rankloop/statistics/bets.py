"""Evidence by bets that a mean is above 0, or has become so: exact after any number of observations.

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

from rankloop.errors import DataError, RankloopError
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64

# Small bets notice small differences after many pages, large ones notice large differences at once.
BETS = tuple(float(bet) for bet in np.geomspace(0.001, 2.0, 16))
# An observation takes at most this share of what a bet has won.
LARGEST_LOSS = 0.95
# Observations may be lower than their bound by this share of what is usual: sums are rounded.
ROUNDING = 1e-9


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
    # Where two policies draw alike, the bound is 0, and an observation is 0 but for its rounding.
    bad = np.flatnonzero(~np.isfinite(values) | (values < -losses - ROUNDING * (losses + unit)))
    if len(bad):
        raise DataError(
            f"observation {count + bad[0]} is {values[bad[0]]}, and it may be no lower than {-losses[bad[0]]}"
        )
    with np.errstate(divide="ignore"):
        bets = np.minimum(np.array(BETS)[:, None] / unit, LARGEST_LOSS / losses)
    won: Float64 = np.log1p(bets * np.maximum(values, -losses))
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


# The logarithm of an evidence of 0, as JSON can hold it.
LOG_ZERO = -1e9


@dataclass(frozen=True)
class Detector:
    """Evidence that a mean is above 0 since any moment, as a value: `add` returns the next one.

    A confidence sequence asks one question from the beginning: what went well for a million pages speaks
    against harm that began yesterday. A Shiryaev–Roberts e-detector begins a new test with every page, and
    adds the evidence of all of them:

        M_b ← (M_b + 1/B) · (1 + b x_t),    alarm when Σ_b M_b ≥ c

    While the mean of x_t given everything before is at most 0, Σ_b M_b − t is a supermartingale, so the mean
    number of pages until a false alarm is at least c. Nothing else is assumed: no variance, no independence
    and no central limit theorem. The highest loss of a page must be known before the page.

    Attributes:
        pages_per_alarm: c, the mean number of observations until a false alarm, at least.
        count: the number of observations.
        log_bets: log M_b, one per bet.
        highest: the highest log Σ_b M_b so far.
        total: the sum of the observations.
        since: per bet, the number of observations since the moment that speaks most for it.
        rise: per bet, their sum.
        excess: per bet, the logarithm of what it has won in that time.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> quiet = Detector(1e6).add(rng.choice([-1.0, 1.0], 5_000), np.ones(5_000))
        >>> quiet.alarms
        False
        >>> quiet.add(rng.choice([-1.0, 1.0], 1_000, p=[0.3, 0.7]), np.ones(1_000)).alarms
        True

    Reference:
        Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection,
        2024, definition 2.2 and proposition 2.4.
    """

    pages_per_alarm: float
    count: int = 0
    log_bets: tuple[float, ...] = (LOG_ZERO,) * len(BETS)
    highest: float = LOG_ZERO
    total: float = 0.0
    since: tuple[int, ...] = (0,) * len(BETS)
    rise: tuple[float, ...] = (0.0,) * len(BETS)
    excess: tuple[float, ...] = (0.0,) * len(BETS)

    def __post_init__(self) -> None:
        if not self.pages_per_alarm > 1.0:
            raise RankloopError(f"observations per false alarm are more than 1, got {self.pages_per_alarm}")
        if len(self.log_bets) != len(BETS):
            raise DataError(f"a detector of this version has {len(BETS)} bets, got {len(self.log_bets)}")

    def add(self, values: Float64, losses: Float64, *, unit: float = 1.0) -> Self:
        """Return the detector after these observations, in their order.

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
        # M_t = Π f_1..t · (M_0 + Σ_s 1/B / Π f_1..s−1), in logarithms.
        before = np.concatenate([np.zeros((len(BETS), 1)), won[:, :-1]], axis=1)
        begun = np.concatenate([np.array(self.log_bets)[:, None], -math.log(len(BETS)) - before], axis=1)
        path = won + np.logaddexp.accumulate(begun, axis=1)[:, 1:]
        total = np.logaddexp.reduce(path, axis=0)
        excess = np.array(self.excess)[:, None] + won
        # The best moment to begin is the lowest point of what a bet has won; it may be in this batch.
        lowest = excess.shape[1] - 1 - np.argmin(excess[:, ::-1], axis=1)
        later = excess.min(axis=1) < 0.0
        sums = np.concatenate([[0.0], np.cumsum(values)])
        since = np.where(later, len(values) - 1 - lowest, np.array(self.since) + len(values))
        rise = np.where(later, sums[-1] - sums[lowest + 1], np.array(self.rise) + sums[-1])
        return replace(
            self,
            count=self.count + len(values),
            log_bets=tuple(float(each) for each in path[:, -1]),
            highest=max(self.highest, float(total.max())),
            total=self.total + float(sums[-1]),
            since=tuple(since.tolist()),
            rise=tuple(rise.tolist()),
            excess=tuple((excess[:, -1] - np.minimum(excess.min(axis=1), 0.0)).tolist()),
        )

    @property
    def log_evidence(self) -> float:
        """The logarithm of Σ_b M_b now."""
        return float(np.logaddexp.reduce(self.log_bets))

    @property
    def mean(self) -> float:
        """The mean of all observations; NaN without any."""
        return self.total / self.count if self.count else math.nan

    @property
    def onset(self) -> tuple[int, float]:
        """How many observations ago the mean seems to have risen, and what it has been since then."""
        best = int(np.argmax(self.log_bets))
        return self.since[best], self.rise[best] / max(self.since[best], 1)

    @property
    def alarms(self) -> bool:
        """Whether the evidence was ever high enough; who acts on it begins with a new detector."""
        return self.highest >= math.log(self.pages_per_alarm)

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            DataError: fields are missing or unknown.
        """
        return from_plain(cls, state, "the state of a detector of this version")
