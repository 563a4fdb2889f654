"""How sure the values of two policies are: over queries, over impressions, and over the bias.

The value of impression t of query q is ``x_t = a_q + e_t``: the value of the query before any click, and what
the clicks of the impression add. The estimate is the mean of x over all T impressions. Sums of x by query
follow from counts; only the spread of single impressions needs a pass over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from rankloop.statistics.counts import ImpressionRows
from rankloop.statistics.intervals import (
    CONFIDENCE,
    draw_units,
    few_units_widening,
    normal_quantile,
    percentile,
)
from rankloop.types import Bias, Float64, Int64, Lines
from rankloop.value.contribution import Contribution
from rankloop.value.valuation import Valuation

RESAMPLES = 1_000
# Engines add in any order, so the last bits differ; a variance does not need them.
DIGITS = 12
# The bits of a sum, out of 53, that hardly any order of additions changes (one in ten thousand does).
BITS = 36
# The values of both policies, and their difference.
CONTRASTS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])


class ValueInterval(NamedTuple):
    """An estimate with its 90 % intervals.

    Attributes:
        value: the estimate.
        low: the lower end of the interval for traffic of similar queries: whole queries are resampled.
        high: its upper end.
        error: the standard error for traffic of these queries, over impressions.
        same_low: the lower end of the interval for these queries, ``value − z · error``.
        same_high: its upper end.
    """

    value: float
    low: float
    high: float
    error: float
    same_low: float
    same_high: float


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the impressions of each query, for two policies.

    Attributes:
        squares: float64, queries × 2; Σ e².
        product: float64, queries; Σ e e'.
        importance: float64, queries × 2; Σ w, see `Contribution.by_impression`.
        importance_squares: float64, queries × 2; Σ w².
    """

    squares: Float64
    product: Float64
    importance: Float64
    importance_squares: Float64

    COLUMNS: ClassVar[tuple[str, ...]] = ("ee0", "ee1", "e01", "w0", "w1", "ww0", "ww1")

    @classmethod
    def of_table(cls, table: Float64) -> Self:
        """From a table with `COLUMNS`, one row per query; without the bits that the order of sums changes."""
        exact = without_last_bits(table)
        return cls(exact[:, :2], exact[:, 2], exact[:, 3:5], exact[:, 5:7])

    @classmethod
    def of_all(cls, parts: Sequence[Moments]) -> Self:
        """The sums over the impressions of several periods, of the same queries."""
        names = ("squares", "product", "importance", "importance_squares")
        return cls(*(np.sum([getattr(part, name) for part in parts], axis=0) for name in names))

    def effective(self) -> tuple[float, float]:
        """The effective sample size, in impressions of each policy itself: ``(Σ w)² / Σ w²``.

        ``w_t = Σ_{d shown at k} λ_d α_k / ᾱ_d`` is how much of what the policy would show impression t shows;
        it is the same for all impressions if they are the policy's own and it never varies its rankings.
        """
        first, second = self.importance.sum(axis=0) ** 2, self.importance_squares.sum(axis=0)
        ratio = np.divide(first, second, out=np.zeros(2), where=second > 0.0)
        return float(ratio[0]), float(ratio[1])


@dataclass(frozen=True, eq=False)
class ImpressionTerms:
    """What each impression adds to the columns of `Moments`: a function that can be sent to where rows are.

    Attributes:
        contribution: what the impressions of the log say.
        lambdas: float64, documents × 2; λ of both policies.
        bias: how users click.
    """

    contribution: Contribution
    lambdas: Float64
    bias: Bias

    def of(self, rows: ImpressionRows) -> Float64:
        """float64, impressions × columns."""
        x, w = self.contribution.by_impression(self.lambdas, rows, self.bias)
        e = x - self.contribution.before(self.lambdas)[rows.query]
        return np.column_stack([e**2, e[:, 0] * e[:, 1], w, w**2])

    def by_query(self, rows: ImpressionRows) -> tuple[Int64, Float64]:
        """The queries of some impressions, and the sums over the impressions of each: queries × columns."""
        queries, place = np.unique(rows.query, return_inverse=True)
        columns = [np.bincount(place, column, len(queries)) for column in self.of(rows).T]
        return queries, np.stack(columns, axis=1)

    def by_unit(self, rows: ImpressionRows, unit: Int64, constant: Float64) -> tuple[Int64, Float64]:
        """The units of some impressions, and the columns of `UnitSums` for each.

        Args:
            rows: the impressions.
            unit: int64, impressions.
            constant: float64, queries × 2; what else an impression is worth, see `Valuation.constant`.
        """
        units, place = np.unique(unit, return_inverse=True)
        x, _ = self.contribution.by_impression(self.lambdas, rows, self.bias, constant)
        columns = [np.bincount(place, column, len(units)) for column in (*x.T, np.ones(len(place)))]
        return units, np.stack(columns, axis=1)


class UnitSums(NamedTuple):
    """Sums over the impressions of each unit, such as a user, for two policies.

    Attributes:
        sums: float64, units × 2; Σ x.
        times: float64, units; how many impressions.
    """

    sums: Float64
    times: Float64

    @classmethod
    def of_table(cls, table: Float64) -> UnitSums:
        """From a table with one row per unit; without the bits that the order of sums changes."""
        exact = without_last_bits(table)
        return cls(exact[:, :2], exact[:, 2])


@dataclass(frozen=True, eq=False)
class QueryValues:
    """The values of two policies, query by query, from which intervals are computed.

    Attributes:
        times: int64, queries; the number of impressions of each query.
        sums: float64, queries × 2; Σ x.
        before: float64, queries × 2; a, the value of each query before any click.
    """

    times: Int64
    sums: Float64
    before: Float64

    @classmethod
    def of(cls, valuation: Valuation) -> Self:
        """The values of the two policies of a valuation."""
        return cls(valuation.contribution.impressions, valuation.by_query, valuation.before)

    @property
    def total(self) -> int:
        """T, the number of impressions."""
        return int(self.times.sum())

    @property
    def values(self) -> Float64:
        """Both values and their difference: float64, 3."""
        result: Float64 = CONTRASTS @ self.sums.sum(axis=0) / self.total
        return result

    @property
    def query_variances(self) -> Float64:
        """The variances of both values and of their difference over queries: float64, 3.

        1/T² Σ_q (S_q − V̂ N_q)²,    S_q = Σ_t x_t of query q
        """
        residuals = self.sums @ CONTRASTS.T - self.times[:, None] * self.values
        result: Float64 = (residuals**2).sum(axis=0) / self.total**2
        return result

    def errors(self, moments: Moments) -> Float64:
        """The standard errors if impressions are independent, their queries included: float64, 3.

            s² = 1/(T − 1) Σ_t (x_t − x̄)²,   error = s / √T

        They cover the randomness of which queries come, of what is shown, and of clicks.
        """
        after = self.sums - self.times[:, None] * self.before
        result = []
        for contrast, value in zip(CONTRASTS, self.values, strict=True):
            centred = self.before @ contrast - value
            alone = moments.squares @ contrast**2
            squares = alone + 2.0 * contrast[0] * contrast[1] * moments.product
            total = float((self.times * centred**2 + 2.0 * centred * (after @ contrast) + squares).sum())
            error = np.sqrt(max(total, 0.0) / max(self.total - 1, 1) / self.total)
            # Sums of squares that cancel leave rounding errors.
            scale = np.sqrt(alone.sum()) / self.total
            result.append(0.0 if error < scale * 1e-7 else float(f"{error:.{DIGITS}g}"))
        return np.array(result)


@dataclass(frozen=True, eq=False)
class PeriodValues:
    """The values of two policies in the periods of a log, each by the clicks of that period alone.

        V̂ = Σ_p ω_p V̂_p,    ω_p ∝ 1 / Var(difference in p)

    Whatever changes between the periods, such as demand, changes both policies alike within each. The same
    queries come in all periods, so they are resampled once for all of them. A log without periods has one.

    Attributes:
        parts: the values in each period, of the same queries.
    """

    parts: tuple[QueryValues, ...]

    @cached_property
    def weights(self) -> Float64:
        """ω: float64, periods; their shares of the impressions if a variance is not known."""
        variances = np.array([part.query_variances[-1] for part in self.parts])
        known = (variances > 0.0).all() and all(int((part.times > 0).sum()) > 1 for part in self.parts)
        weights = 1.0 / variances if known else np.array([part.total for part in self.parts], np.float64)
        result: Float64 = weights / weights.sum()
        return result

    @property
    def values(self) -> Float64:
        """Both values and their difference: float64, 3."""
        result: Float64 = self.weights @ np.stack([part.values for part in self.parts])
        return result

    def errors(self, moments: Sequence[Moments]) -> Float64:
        """The standard errors for these queries, over impressions: float64, 3."""
        each = [part.errors(sums) for part, sums in zip(self.parts, moments, strict=True)]
        result: Float64 = np.sqrt(self.weights**2 @ np.stack(each) ** 2)
        return result

    @property
    def times(self) -> Float64:
        """How much each query counts: float64, queries."""
        parts = zip(self.weights, self.parts, strict=True)
        result: Float64 = sum(weight * part.times / part.total for weight, part in parts)
        return result

    def resampled(self, rng: np.random.Generator) -> Float64:
        """Both values and their difference, from queries drawn with replacement: resamples × 3."""
        came = self.times > 0.0
        tables = [np.column_stack([part.sums @ CONTRASTS.T, part.times])[came] for part in self.parts]
        both = np.concatenate(tables, axis=1)
        width = len(CONTRASTS) + 1
        draws = np.stack([draw_units(int(came.sum()), rng) @ both for _ in range(RESAMPLES)])
        by_period = draws.reshape(RESAMPLES, len(self.parts), width)
        # A period whose queries were not drawn has no weight in that resample.
        weights = np.where(by_period[..., -1] > 0.0, self.weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        means = by_period[..., :-1] / np.maximum(by_period[..., -1:], 1.0)
        result: Float64 = (weights[..., None] * means).sum(axis=1)
        return result

    @property
    def query_variances(self) -> Float64:
        """The variances of both values and of their difference over queries: float64, 3."""
        centred = self._centred([(part.sums, part.times) for part in self.parts])
        result: Float64 = (centred**2).sum(axis=0)
        return result

    def unit_variances(self, units: Sequence[UnitSums]) -> Float64:
        """The same over units, such as users, whose impressions depend on each other."""
        centred = self._centred(units)
        count = int((np.sum([part.times for part in units], axis=0) > 0.0).sum())
        result: Float64 = (centred**2).sum(axis=0) * count / max(count - 1, 1)
        return result

    def _centred(self, sums: Sequence[tuple[Float64, Int64 | Float64]]) -> Float64:
        """How much each query or unit adds to the estimates, beyond the mean: × 3."""
        result: Float64 = sum(
            weight / part.total * (total @ CONTRASTS.T - times[:, None] * part.values)
            for weight, part, (total, times) in zip(self.weights, self.parts, sums, strict=True)
        )
        return result

    def intervals(
        self,
        moments: Sequence[Moments],
        rng: np.random.Generator,
        spread: BiasSpread | None = None,
        units: Sequence[UnitSums] | None = None,
        *,
        confidence: float = CONFIDENCE,
    ) -> tuple[ValueInterval, ValueInterval, ValueInterval]:
        """The intervals of the new policy, of the policy it is compared with, and of their difference.

        Impressions of one user depend on each other, and so do those of one query. With the variances over
        queries, over users and over impressions as if these were independent,

            variance = over queries + max(over users − over impressions, 0)

        Args:
            moments: sums over impressions, period by period.
            rng: random generator for the resamples.
            spread: what the uncertainty of the bias does to the estimates; None if the bias is assumed.
            units: sums over users, period by period; None if it is not known who looked.
            confidence: the confidence level.
        """
        drawn, errors = np.stack(percentile(self.resampled(rng), confidence)), self.errors(moments)
        several, wider = int((self.times > 0).sum()) > 1, few_units_widening(self.times, confidence)
        more = np.zeros(3) if units is None else np.maximum(self.unit_variances(units) - errors**2, 0.0)
        by_query = self.query_variances
        by_users = np.sqrt(1.0 + np.divide(more, by_query, out=np.zeros(3), where=by_query > 0.0))
        errors = np.where(errors > 0.0, np.sqrt(errors**2 + more), 0.0) if units is not None else errors
        result = []
        for number, (value, error) in enumerate(zip(self.values.tolist(), errors.tolist(), strict=True)):
            stretch = wider * float(by_users[number])
            # Policies that rank alike differ only by rounding.
            if spread is not None and error:
                error = float(np.hypot(error, spread.deviation[number]))
                stretch *= float(spread.stretch[number])
            half = normal_quantile(confidence) * error
            low, high = value - half, value + half
            if several:
                # How much queries differ cannot be told from one.
                low, high = (value + stretch * (end - value) if error else value for end in drawn[:, number])
            result.append(ValueInterval(value, float(low), float(high), error, value - half, value + half))
        return result[0], result[1], result[2]


class BiasSpread(NamedTuple):
    """What the uncertainty of a bias does to the two values and to their difference.

    Attributes:
        stretch: float64, 3; the factor by which intervals from resampled queries become wider.
        deviation: float64, 3; the standard deviation of the estimates over the resamples of the bias alone.
    """

    stretch: Float64
    deviation: Float64


def bias_spread(
    valuations: Sequence[Valuation],
    weights: Float64,
    biases: Iterable[Lines],
    shares: Sequence[Float64],
    draws: Float64 | None,
) -> BiasSpread:
    """What resamples of the bias do to the estimates.

    A bias that was estimated from the same log is resampled together with the clicks: the same queries are
    drawn for both. Any other bias varies independently of the clicks.

    Args:
        valuations: the estimate in each period, with the bias as it was estimated; of the same queries.
        weights: float64, periods; how much each counts, see `PeriodValues`.
        biases: α and β of its resamples.
        shares: of each period, float64, documents × ranks; the probability of each rank per impression of the
            query.
        draws: float64, resamples × queries; how often each query was drawn in each resample. None if the
            bias does not come from these clicks, or if that is not known.
    """
    times = [one.contribution.impressions.astype(np.float64) for one in valuations]
    everything = np.ones(len(times[0]))

    def mean(by_query: Sequence[Float64], drawn: Float64) -> Float64:
        came = np.array([drawn @ part for part in times])
        used = np.where(came > 0.0, weights, 0.0)
        means = np.stack([drawn @ part for part in by_query]) / np.maximum(came, 1.0)[:, None]
        result: Float64 = CONTRASTS @ (used / used.sum() @ means)
        return result

    usual_values = [one.by_query for one in valuations]
    joint, fixed, alone = [], [], []
    rng = np.random.default_rng(0)
    for number, lines in enumerate(biases):
        drawn = everything if draws is None else draws[number]
        if not sum(float(drawn @ part) for part in times):
            continue
        varied = [
            one.by_query_with(lines, part, drawn) if drawn @ came else usual
            for one, part, came, usual in zip(valuations, shares, times, usual_values, strict=True)
        ]
        joint.append(mean(varied, drawn))
        alone.append(mean(varied, everything))
        fixed.append(mean(usual_values, draw_units(len(times[0]), rng) if draws is None else drawn))
    deviation, usual_deviation = _deviation(alone), _deviation(fixed)
    total = np.hypot(usual_deviation, deviation) if draws is None else _deviation(joint)
    stretch = np.divide(total, usual_deviation, out=np.ones(3), where=usual_deviation > 0.0)
    return BiasSpread(stretch, deviation)


def _deviation(values: list[Float64]) -> Float64:
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.zeros(3)


def without_last_bits(values: Float64) -> Float64:
    """Values without the last bits of their mantissas, which depend on the order of additions."""
    mantissas, exponents = np.frexp(values)
    steps = 2.0**BITS
    return np.ldexp(np.round(mantissas * steps) / steps, exponents)
