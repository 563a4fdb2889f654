"""The uncertainty of an estimate: from sums over impressions to standard errors and intervals.

The value of impression t of query q is ``x_t = a_q + e_t``: the value of the query before any click, and the
contribution of the clicks of the impression. The estimate is the mean of x over all T impressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from rankloop.offline.bias_resamples import BiasSpread
from rankloop.offline.impression_sums import DIGITS, ImpressionSums
from rankloop.types import Float64, Int64

CONFIDENCE = 0.9
# A 90 % interval extends this many standard errors to either side.
QUANTILE = float(ndtri(0.5 + 0.5 * CONFIDENCE))
RESAMPLES = 1_000

Contrast = tuple[float, float]
NEW, AGAINST, DIFFERENCE = (1.0, 0.0), (0.0, 1.0), (1.0, -1.0)


class ValueInterval(NamedTuple):
    """An estimate with its 90 % intervals.

    Attributes:
        value: the estimate.
        low: the lower end of the interval for traffic of similar queries: whole queries are resampled.
        high: its upper end.
        error: the standard error for traffic of these queries, over impressions.
        same_low: the lower end of the interval for these queries, ``value − 1.645 · error``.
        same_high: its upper end.
    """

    value: float
    low: float
    high: float
    error: float
    same_low: float
    same_high: float


@dataclass(frozen=True, eq=False)
class ImpressionSample:
    """The values of two policies, query by query, from which intervals are computed.

    Attributes:
        times: int64, queries; the number of impressions of each query.
        before: float64, queries × 2; a, the value of each query before any click.
        sums: sums over the impressions of each query.
    """

    times: Int64
    before: Float64
    sums: ImpressionSums

    @property
    def total(self) -> int:
        """T, the number of impressions."""
        return int(self.times.sum())

    def by_query(self, contrast: Contrast) -> Float64:
        """``Σ_t x_t`` of each query, for a combination of both policies."""
        result: Float64 = (self.times[:, None] * self.before + self.sums.first) @ np.array(contrast)
        return result

    def value(self, contrast: Contrast) -> float:
        """The estimate: the mean of x."""
        return float(self.by_query(contrast).sum() / self.total)

    def error(self, contrast: Contrast) -> float:
        """The standard error of the estimate if impressions are independent, their queries included.

            s² = 1/(T − 1) Σ_t (x_t − x̄)²,   error = s / √T

        It covers the randomness of which queries come, of what is shown, and of clicks.
        """
        c = np.array(contrast)
        centred = self.before @ c - self.value(contrast)
        squares = self.sums.squares @ c**2 + 2.0 * c[0] * c[1] * self.sums.product
        within = 2.0 * centred * (self.sums.first @ c) + squares
        total = float((self.times * centred**2 + within).sum())
        error = np.sqrt(max(total, 0.0) / max(self.total - 1, 1) / self.total)
        # Sums of squares that cancel leave rounding errors.
        scale = np.sqrt((self.sums.squares @ c**2).sum()) / self.total
        return 0.0 if error < scale * 1e-7 else float(f"{error:.{DIGITS}g}")

    def query_variance(self, contrast: Contrast) -> float:
        """The variance of the estimate over queries, which resampling queries approximates.

        1/T² Σ_q (S_q − V̂ N_q)²,    S_q = Σ_t x_t of query q
        """
        residuals = self.by_query(contrast) - self.value(contrast) * self.times
        return float(residuals @ residuals) / self.total**2

    def resampled(self, contrasts: tuple[Contrast, ...], rng: np.random.Generator) -> Float64:
        """Estimates from queries drawn with replacement, resamples × contrasts."""
        sums = np.stack([*(self.by_query(contrast) for contrast in contrasts), self.times], axis=1)
        sums = sums[self.times > 0]
        result = np.empty((RESAMPLES, len(contrasts)))
        for row in result:
            drawn = np.bincount(rng.integers(len(sums), size=len(sums)), minlength=len(sums)) @ sums
            row[:] = drawn[:-1] / drawn[-1]
        return result

    @property
    def widening(self) -> float:
        """How much wider than their percentiles intervals are because the queries are few.

            √(n / (n − 1)) · t_{n−1} / z,    n = (Σ_q N_q)² / Σ_q N_q²

        n is the number of queries that would tell as much if all came equally often: resampling n queries
        understates their variance by (n − 1) / n, and it is known only as well as n queries tell it.
        """
        effective = self.total**2 / float((self.times.astype(np.float64) ** 2).sum())
        freedom = max(effective - 1.0, 1.0)
        quantile = float(stdtrit(freedom, 0.5 + 0.5 * CONFIDENCE))
        return float(np.sqrt((freedom + 1.0) / freedom) * quantile / QUANTILE)

    def intervals(
        self, rng: np.random.Generator, spread: BiasSpread | None = None
    ) -> tuple[ValueInterval, ...]:
        """The intervals of the new policy, of the policy it is compared with, and of their difference.

        Args:
            rng: random generator for the resamples.
            spread: what the uncertainty of the bias does to the estimates; None if the bias is assumed.
        """
        contrasts = NEW, AGAINST, DIFFERENCE
        tails = 0.5 - 0.5 * CONFIDENCE, 0.5 + 0.5 * CONFIDENCE
        drawn = np.quantile(self.resampled(contrasts, rng), tails, axis=0)
        result = []
        for number, contrast in enumerate(contrasts):
            value, error = self.value(contrast), self.error(contrast)
            wider = self.widening
            # Policies that rank alike differ only by rounding.
            if spread is not None and error:
                error = float(np.hypot(error, spread.deviation[number]))
                wider *= float(spread.stretch[number])
            half = QUANTILE * error
            if (self.times > 0).sum() > 1:
                low, high = (value + wider * (end - value) if error else value for end in drawn[:, number])
            else:
                # How much queries differ cannot be told from one: this is what its own clicks tell.
                low, high = value - half, value + half
            result.append(ValueInterval(value, float(low), float(high), error, value - half, value + half))
        return tuple(result)

    def effective(self) -> tuple[float, float]:
        """The effective sample size, in impressions of each policy itself: ``(Σ w)² / Σ w²``.

        ``w_t = Σ_{d shown at k} λ_d α_k / ᾱ_d`` is how much of what the policy would show impression t shows;
        it is the same for all impressions if they are the policy's own and it never varies its rankings.
        """
        first = self.sums.importance.sum(axis=0) ** 2
        second = self.sums.importance_squares.sum(axis=0)
        ratio = np.divide(first, second, out=np.zeros(2), where=second > 0.0)
        return float(ratio[0]), float(ratio[1])
