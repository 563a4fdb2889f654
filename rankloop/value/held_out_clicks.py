"""What clicks say about the difference between two policies, and how noisy it is, from counts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64
from rankloop.value.contribution import Contribution


@dataclass(frozen=True)
class Gain:
    """An estimated difference between the values of two policies, per impression.

    Attributes:
        value: the estimate; its expectation is the difference, or less if exposure was capped.
        click_error: its standard error if the same queries came again: noise of clicks and of what is shown,
            as expected from the exposure of all documents.
        observed_error: the same, from the clicks that were made.
        query_error: its standard error over queries, which contains the observed error.
        by_guess: what the guess of relevance says about the difference, without the clicks.
    """

    value: float
    click_error: float
    observed_error: float
    query_error: float
    by_guess: float

    @property
    def error(self) -> float:
        """The standard error if other queries of the same kind came: click noise and how queries differ.

            √(click² + max(query² − observed², 0))

        >>> round(Gain(0.1, click_error=0.05, observed_error=0.03, query_error=0.05, by_guess=0.0).error, 6)
        0.064031
        """
        if np.isinf(self.click_error) or np.isinf(self.query_error):
            return np.inf
        between = max(self.query_error**2 - self.observed_error**2, 0.0)
        return float(np.sqrt(self.click_error**2 + between))


def combine(gains: Sequence[Gain], weights: Sequence[float]) -> Gain:
    """Combine gains on different queries.

    >>> parts = [Gain(value, 0.3, 0.3, 0.4, 0.0) for value in (1.0, 2.0)]
    >>> both = combine(parts, [1.0, 1.0])
    >>> both.value, round(both.query_error, 6)  # √(0.4² + 0.4²) / 2
    (1.5, 0.282843)
    """
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    columns = {name: np.array([getattr(gain, name) for gain in gains]) for name in Gain.__dataclass_fields__}
    errors = ("click_error", "observed_error", "query_error")
    return Gain(
        **{
            name: float(np.sqrt(((shares * column) ** 2).sum()) if name in errors else shares @ column)
            for name, column in columns.items()
        }
    )


@dataclass(frozen=True, eq=False)
class HeldOutClicks(Contribution):
    """Clicks on queries that neither policy was trained on, with their noise.

        Var(u_d) = N_q ᾱ_d · v,    v = Σ_d s_d / Σ_d Σ_k n_k(d) α_k
        s_d = Σ_k c_k(d) (1 − e_k)² + (n_k(d) − c_k(d)) e_k²,   e_k = α_k m_d + β_k

    s_d is the sum of the squared residuals over the displays of d; its expectation is the variance of u_d if
    the guess is right, and at least that otherwise. A document that happened to be shown once, or never, has
    an s_d of one display or of none, but a weight that expects more: so what is summed over all documents is
    v, the variance per unit of α, and each document gets its part by the α that it could *expect*.

    Attributes:
        examined: float64, documents; Σ_k n_k(d) α_k, the α of the displays that were made.
        squares: float64, documents; s_d.
        noise: v.

    Example:
        One document that is always shown, with α = 1 and β = 0, clicked 30 times of 100; the guess is 0.3.

        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
        >>> log = Statistics.of_policy(
        ...     "a", [0, 1], Exposure([1.0], [0.0], [1.0]),
        ...     impressions_by_query=[100], displays_by_position=[[100]], clicks_by_position=[[30]],
        ... )
        >>> gain = HeldOutClicks.measure(log, bias, np.array([0.3])).gain(np.array([1.0]))
        >>> round(gain.value, 6), round(gain.click_error, 6)
        (0.3, 0.045826)
        >>> round(float(np.sqrt(0.3 * 0.7 / 100)), 6)
        0.045826
    """

    examined: Float64 = None  # type: ignore[assignment]  # `measure` gives it, after fields with defaults
    squares: Float64 = None  # type: ignore[assignment]
    noise: float = np.inf

    @classmethod
    def measure(cls, statistics: Statistics, bias: Bias, guess: Float64) -> Self:
        """Measure what clicks say, and how noisy they are.

        Args:
            statistics: of queries that neither policy was trained on.
            bias: how users click.
            guess: documents; a guess of each document's relevance that does not depend on these clicks.

        Raises:
            DataError: none of the queries came, or the guess or the bias does not fit the statistics.
        """
        plain = Contribution.of(statistics, bias, guess)
        displays, clicks = statistics.effective_displays, statistics.clicks_by_position
        click = bias.click_chance(guess[:, None])
        squares = (clicks * (1.0 - click) ** 2 + (displays - clicks) * click**2).sum(axis=1)
        total = float(displays.sum(axis=0) @ np.abs(bias.alpha))
        return cls(
            **vars(plain),
            examined=displays @ bias.alpha,
            squares=squares,
            noise=float(squares.sum()) / total if total > 0.0 else np.inf,
        )

    def capped(self, difference: Float64, caution: float) -> Float64:
        """Lower a difference of expected rank weights where clicks cannot confirm it.

            min(λ_new(d) − λ_old(d), c · ᾱ_d)

        Relevance is not negative, so counting less of what a document gains makes the estimated gain of a
        policy too small, never too large, and spares the noise of documents that were hardly ever shown. c is
        chosen among powers of 2 by what the guess and the exposure say, without the clicks: the highest value
        of ``gain by guess − caution · click error``.

        Args:
            difference: documents; how much more the new policy gives each document.
            caution: the number of standard errors that will be subtracted.
        """
        best, highest = difference, -np.inf
        for exponent in range(-2, 8):
            limited = np.minimum(difference, 2.0**exponent * self.alpha)
            promised = self.value_by_guess(limited) - caution * self._click_error(limited)
            if promised > highest:
                best, highest = limited, promised
        return best

    def gain(self, difference: Float64) -> Gain:
        """Estimate ``1/T Σ_q N_q Σ_d R(d) (λ_new(d) − λ_old(d))``.

        Args:
            difference: documents; how much more the new policy gives each document.
        """
        by_query = self.by_query(difference)
        value = float(by_query.sum()) / self.total
        centred = by_query - self.impressions * value
        came = int(np.count_nonzero(self.impressions))
        # One query tells nothing about how queries differ.
        spread = float((centred**2).sum()) * came / (came - 1) if came > 1 else np.inf
        return Gain(
            value,
            self._click_error(difference),
            float(np.sqrt(self.observed_variance(difference))),
            float(np.sqrt(spread)) / self.total,
            self.value_by_guess(difference),
        )

    def observed_variance(self, difference: Float64) -> float:
        """Estimate the variance of the gain for the same queries from the residuals of the clicks themselves.

            1/T² Σ_d ((λ_new(d) − λ_old(d)) / ᾱ_d)² s_d

        Unbiased if the guess is right; too large on average if it is wrong and one document is shown at a
        time.
        """
        return float(self.factors(difference) ** 2 @ self.squares) / self.total**2

    def value_by_guess(self, exposure: Float64) -> float:
        """What documents are worth by the guess, per impression, given their expected rank weights."""
        return float((self.impressions_of * self.guess) @ exposure) / self.total

    def _click_error(self, difference: Float64) -> float:
        never = (self.alpha == 0.0) & (self.impressions_of > 0) & (difference != 0.0)
        if never.any():
            return np.inf
        # Not as (difference / α)² · α: the square of a tiny α underflows.
        variance = self.impressions_of @ (difference * self.factors(difference) * np.sign(self.alpha))
        return float(np.sqrt(self.noise * variance)) / self.total if variance > 0.0 else 0.0
