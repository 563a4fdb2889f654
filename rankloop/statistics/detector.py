"""An alarm that never sleeps: it notices when a mean that was at most 0 rises above 0, whenever that happens.

A confidence sequence asks one question from the beginning: what went well for a million pages speaks against
harm that began yesterday. A Shiryaev–Roberts e-detector begins a new test with every page, and adds the
evidence of all of them:

    M_b ← (M_b + 1/B) · (1 + b x_t),    alarm when Σ_b M_b ≥ c

with the bets b of `rankloop.statistics.bets`. While the mean of x_t given everything before is at most 0,
Σ_b M_b − t is a supermartingale, so the mean number of pages until a false alarm is at least c. Nothing else
is assumed: no variance, no independence and no central limit theorem. The highest loss of a page must be
known before the page.

Reference: Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection"
(2024), definition 2.2 and proposition 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from rankloop.errors import DataError, RankloopError
from rankloop.statistics.bets import BETS, log_factors
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64

# The logarithm of an evidence of 0, as JSON can hold it.
LOG_ZERO = -1e9


@dataclass(frozen=True)
class Detector:
    """Evidence that a mean is above 0 since any moment, as a value: `add` returns the next one.

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
            unit: what is usual; see `rankloop.statistics.bets.log_factors`.

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
