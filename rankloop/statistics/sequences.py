"""Confidence sequences: intervals for a mean that may be looked at after every observation.

An interval of fixed length covers the mean with 95 % probability at one time that was chosen beforehand. Who
looks after every batch and stops when 0 is outside is wrong far more often. A confidence sequence covers the
mean at all times at once with 95 % probability, so it may be looked at, and acted on, whenever one likes.

Asymptotic sequences are Robbins' normal mixtures: a sum S of centred terms with total variance V is a
Brownian motion in the time V, up to the central limit theorem. Averaging the likelihood ratio
``exp(θS − θ²V/2)`` over a normal distribution of θ with variance 1/v gives a martingale, so by Ville's
inequality it ever exceeds 1/δ with probability at most δ, however often one looks. v is the variance at which
the mixture is most sensitive, up to a constant.

Reference: Robbins, "Statistical methods related to the law of the iterated logarithm" (1970); Howard, Ramdas,
McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences" (2021).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_ndtr

from rankloop.errors import DataError, RankloopError
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64

# The sharpest bet of the empirical-Bernstein sequence, as in Waudby-Smith and Ramdas, section 3.1.
LARGEST_BET = 0.5


@dataclass(frozen=True, kw_only=True)
class ConfidenceSequence(ABC):
    """A confidence sequence as a value: `add` returns the next one.

    Attributes:
        level: the probability that the mean is ever outside, such as 0.05.
        count: the number of observations.
        total: their sum.
    """

    plain_properties: ClassVar[tuple[str, ...]] = ("kind",)
    kind: ClassVar[str]
    level: float = 0.05
    count: int = 0
    total: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise RankloopError(f"the level of a confidence sequence is between 0 and 1, got {self.level}")

    @property
    def mean(self) -> float:
        """The mean of the observations; NaN without any."""
        return self.total / self.count if self.count else float("nan")

    @property
    @abstractmethod
    def lower(self) -> float:
        """The lower end of the interval."""

    @property
    @abstractmethod
    def upper(self) -> float:
        """The upper end of the interval."""

    def add(self, values: object) -> Self:
        """Return the sequence after these observations, in their order; the batches they come in are all one.

        Raises:
            DataError: an observation is not finite, or outside the range of the sequence.
        """
        batch = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
        bad = np.flatnonzero(~np.isfinite(batch))
        if len(bad):
            raise DataError(f"observation {self.count + bad[0]} is {batch[bad[0]]}, but it must be finite")
        return self._after(batch) if len(batch) else self

    @abstractmethod
    def _after(self, batch: Float64) -> Self:
        """The sequence after a batch of at least one finite observation."""

    def to_dict(self) -> dict[str, Any]:
        """The kind, the settings and the state, ready for JSON; `sequence_from_dict` reads them."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            DataError: it was written by another kind of sequence, or fields are missing or unknown.
        """
        return from_plain(cls, state, f"the state of a confidence sequence of kind {cls.kind!r}")


@dataclass(frozen=True, kw_only=True)
class BoundedSequence(ConfidenceSequence):
    """The mean of numbers from a known range: no approximation, at any count.

        Σ λ_t x_t / Σ λ_t  ±  (log(2/level) + Σ (x_t − μ_{t−1})² ψ(λ_t)) / Σ λ_t,   ψ(λ) = −log(1 − λ) − λ
        λ_t = min(√(2 log(2/level) / (σ²_{t−1} t log(1 + t))), 1/2)

    for x from 0 to 1; μ and σ² are regularised estimates from the observations before. Terms may depend on
    each other, as long as each has the same mean given all before it; if these means differ, the interval is
    for their average with the weights λ.

    Attributes:
        low: the lowest value that an observation can have.
        high: the highest.
        squares: Σ (x_t − μ_t)², on a scale from 0 to 1.
        bets: Σ λ_t.
        gains: Σ λ_t x_t, on a scale from 0 to 1.
        penalty: Σ (x_t − μ_{t−1})² ψ(λ_t).

    Example:
        >>> clicks = np.random.default_rng(0).random(2_000) < 0.3
        >>> sequence = BoundedSequence().add(clicks)
        >>> sequence.lower < 0.3 < sequence.upper, sequence.upper - sequence.lower < 0.1
        (True, True)

    Reference: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024),
    theorem 2.
    """

    kind: ClassVar[str] = "bounded"
    low: float = 0.0
    high: float = 1.0
    squares: float = 0.0
    bets: float = 0.0
    gains: float = 0.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise RankloopError(f"the range of a bounded sequence is empty: {self.low} to {self.high}")

    @property
    def lower(self) -> float:
        """The lower end of the interval."""
        return max(self.low, self._end(-1.0)) if self.count else self.low

    @property
    def upper(self) -> float:
        """The upper end of the interval."""
        return min(self.high, self._end(1.0)) if self.count else self.high

    def _end(self, side: float) -> float:
        margin = (float(np.log(2.0 / self.level)) + self.penalty) / self.bets
        return self.low + (self.high - self.low) * (self.gains / self.bets + side * margin)

    def _after(self, batch: Float64) -> Self:
        outside = np.flatnonzero((batch < self.low) | (batch > self.high))
        if len(outside):
            raise DataError(
                f"observation {self.count + outside[0]} is {batch[outside[0]]}, outside the range of the "
                f"sequence, {self.low} to {self.high}"
            )
        x = (batch - self.low) / (self.high - self.low)
        before = (self.total - self.count * self.low) / (self.high - self.low)
        number = self.count + np.arange(1, len(x) + 1)
        means = (0.5 + before + np.cumsum(x)) / (number + 1)
        earlier = np.concatenate([[(0.5 + before) / (self.count + 1)], means[:-1]])
        squares = self.squares + np.cumsum((x - means) ** 2)
        spread = (0.25 + np.concatenate([[self.squares], squares[:-1]])) / number
        bets = np.sqrt(2.0 * np.log(2.0 / self.level) / (spread * number * np.log1p(number)))
        bets = np.minimum(bets, LARGEST_BET)
        return replace(
            self,
            count=int(number[-1]),
            total=float(self.total + batch.sum()),
            squares=float(squares[-1]),
            bets=float(self.bets + bets.sum()),
            gains=float(self.gains + bets @ x),
            penalty=float(self.penalty + (x - earlier) ** 2 @ (-np.log1p(-bets) - bets)),
        )


@dataclass(frozen=True, kw_only=True)
class AsymptoticSequence(ConfidenceSequence):
    """The mean of numbers of finite variance and unknown range, such as importance-weighted metrics.

        mean ± σ · √((n + v) · log((n + v) / (v · level²))) / n

    Valid as the central limit theorem is: the variance is estimated, and coverage approaches the level as the
    first look comes later. Before `first` observations the interval is infinite.

    Attributes:
        tight_at: the count at which the interval is to be narrowest, compared with other choices.
        first: the count of the first look; rare large values need a later one.
        squares: Σ (x_t − mean)².

    Example:
        >>> values = np.random.default_rng(0).normal(0.2, 1.0, 5_000)
        >>> sequence = AsymptoticSequence(tight_at=5_000).add(values)
        >>> sequence.lower > 0.0, sequence.upper < 0.3
        (True, True)

    Reference: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and
    asymptotic confidence sequences" (2024), theorem 2.2.
    """

    kind: ClassVar[str] = "asymptotic"
    tight_at: int = 1_000
    first: int = 100
    squares: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tight_at < 1 or self.first < 2:
            raise RankloopError(
                "an asymptotic sequence is tight at a count of at least 1 and first looked at after at least "
                f"2 observations, got {self.tight_at} and {self.first}"
            )

    @property
    def lower(self) -> float:
        """The lower end of the interval."""
        return self.mean - self._margin if self._margin < np.inf else -np.inf

    @property
    def upper(self) -> float:
        """The upper end of the interval."""
        return self.mean + self._margin if self._margin < np.inf else np.inf

    @property
    def deviation(self) -> float:
        """The estimated standard deviation of one observation; NaN before two."""
        return float(np.sqrt(self.squares / (self.count - 1))) if self.count > 1 else float("nan")

    @property
    def log_e_value(self) -> float:
        """The logarithm of an e-value against a mean of at most 0, from the same mixture; 0 before `first`.

        If the mean is at most 0, it ever exceeds log(c) with a probability of at most 1/c.

        >>> values = np.random.default_rng(0).normal(0.2, 1.0, 2_000)
        >>> AsymptoticSequence().add(values).log_e_value > 10.0
        True
        >>> AsymptoticSequence().add(-values).log_e_value < 0.0
        True
        """
        if self.count < self.first or not self.deviation > 0.0:
            return 0.0
        return log_e_value(self.total / self.deviation, self.count, best_tuning(self.tight_at, self.level))

    @property
    def _margin(self) -> float:
        if self.count < self.first:
            return np.inf
        tuning = best_tuning(self.tight_at, self.level)
        return self.deviation * half_width(self.count, tuning, self.level) / self.count

    def _after(self, batch: Float64) -> Self:
        middle = float(batch.mean())
        within = float(((batch - middle) ** 2).sum())
        if self.count:
            share = self.count * len(batch) / (self.count + len(batch))
            within += self.squares + share * (middle - self.mean) ** 2
        return replace(
            self,
            count=self.count + len(batch),
            total=float(self.total + batch.sum()),
            squares=within,
        )


SEQUENCES: Mapping[str, type[ConfidenceSequence]] = {
    BoundedSequence.kind: BoundedSequence,
    AsymptoticSequence.kind: AsymptoticSequence,
}


def sequence_from_dict(state: Mapping[str, Any]) -> ConfidenceSequence:
    """Read the state of a confidence sequence of any kind.

    >>> import json
    >>> stored = json.dumps(BoundedSequence(level=0.1).add([0.5, 0.25]).to_dict())
    >>> sequence_from_dict(json.loads(stored)).mean
    0.375
    """
    kind = str(state.get("kind"))
    if kind not in SEQUENCES:
        raise DataError(f"a confidence sequence is of kind {' or '.join(SEQUENCES)}, got {kind!r}")
    return SEQUENCES[kind].from_dict(state)


def log_e_value(total: float, variance: float, tuning: float) -> float:
    """Return the logarithm of the e-value against a mean of at most 0.

        E = 2 √(v / (V + v)) · exp(m² / 2) · Φ(m),    m = S / √(V + v)

    The mixture is over positive drifts only. If the mean is 0 or less, E is ever above 1/δ with probability
    at most δ.

    Args:
        total: S, the sum of the terms.
        variance: V, the variance of the sum.
        tuning: v, above 0.

    Example:
        >>> log_e_value(0.0, 0.0, 1.0)
        0.0
        >>> log_e_value(40.0, 100.0, 100.0) > math.log(20) > log_e_value(-40.0, 100.0, 100.0)
        True
    """
    scaled = total / math.sqrt(variance + tuning)
    shrinkage = math.log(tuning / (variance + tuning))
    return math.log(2.0) + 0.5 * shrinkage + 0.5 * scaled**2 + float(log_ndtr(scaled))


def half_width(variance: float, tuning: float, level: float) -> float:
    """Return the largest deviation of the sum from its mean, at all looks with probability 1 − level.

        √((V + v) · log((V + v) / (v · level²)))

    Args:
        variance: V, the variance of the sum.
        tuning: v, above 0.
        level: the probability that the sum ever deviates further, in either direction.

    Example:
        >>> round(half_width(100.0, 10.0, 0.05), 2)
        30.38
        >>> round(1.96 * math.sqrt(100.0), 2)  # what a single look at a known variance needs
        19.6
    """
    both = variance + tuning
    return math.sqrt(both * math.log(both / (tuning * level**2)))


def best_tuning(variance: float, level: float) -> float:
    """Return the tuning that makes the half width about smallest at a variance.

        v = V / (2 log(1/level) + log(2 log(1/level) + 1))

    Reference: Howard et al. (2021), section 3.5, with a first-order solution of the equation.
    """
    needed = -2.0 * math.log(level)
    return variance / (needed + math.log1p(needed))
