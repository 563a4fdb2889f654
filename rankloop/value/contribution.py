"""What one impression says about the value of a policy: the formula of this project, and the sums of it.

    x_t(π) = Σ_d λ_d m_d + Σ_{d shown at k} (λ_d / ᾱ_d) (c_td − α_k m_d − β_k)

λ_d is what document d is worth for its rank under π, m_d a guess of its relevance that does not depend on the
clicks of its query, and ᾱ_d the α that it could expect over the policies of the log. The mean of x_t is the
value of π for every such guess: clicks correct it.

| summed by | for | by |
|---|---|---|
| document | the weights of training | `Contribution.by_document`; the estimators are choices of it |
| query | values, and intervals over queries | `Contribution.by_query` |
| impression | sequences in time, errors for the same queries, other units | `Contribution.by_impression` |
| period or segment | tests of assumptions | the same, with one more key |

The estimators of the paper are the case m = 0, in which the charge for clicks by chance is expected over the
policies (``N_q E[β_d]``) rather than that of the displays that were made (``Σ_k n_dk β_k``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.ragged import segment_sum
from rankloop.statistics import Statistics
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import Bias, Float64, Int64, Lines

# A bound that bounds nothing.
NO_BOUND = -math.inf


def unexplained(
    amounts: NDArray[Any],
    by_chance: NDArray[Any],
    examined: Float64 | float = 0.0,
    guess: Float64 | float = 0.0,
) -> Float64:
    """The clicks that neither a guess of relevance nor chance explains: ``C − m Σ α − Σ β``.

    Args:
        amounts: C, clicks, or what they were worth; any shape.
        by_chance: Σ β over the displays, or its expectation; clicks that have nothing to do with relevance.
        examined: Σ α, likewise.
        guess: m.

    Example:
        A document was shown ten times where α = 0.5 and β = 0.2, and clicked four times; the guess is 0.3.

        >>> float(unexplained(np.array(4), np.array(10 * 0.2), 10 * 0.5, 0.3))
        0.5
    """
    result: Float64 = amounts - examined * guess - by_chance
    return result


def unexplained_by_displays(
    amounts: NDArray[Any], displays: NDArray[Any], bias: Bias | Lines, guess: Float64 | float
) -> Float64:
    """The clicks that are unexplained over the displays that were made: ``u = C − Σ_k n_k (α_k m + β_k)``.

    Args:
        amounts: C, documents.
        displays: n, documents × ranks.
        bias: α and β by rank.
        guess: m, a number or documents.
    """
    return unexplained(amounts, displays @ bias.beta, displays @ bias.alpha, guess)


def debias(numerator: NDArray[Any], denominator: Float64, *, least: float = NO_BOUND) -> Float64:
    """Divide by how much a click counts: ``n / max(ᾱ, least)``, and 0 where ᾱ is 0.

    From documents that are never shown nothing can be learned.

    Args:
        numerator: any shape; usually what `unexplained` gives, or rank weights λ.
        denominator: ᾱ, or another propensity; broadcast.
        least: a lower bound of the denominator, against variance.

    Example:
        >>> debias(np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.01, 0.0]), least=0.1)
        array([ 2., 10.,  0.])
    """
    bounded = np.maximum(denominator, least)
    quotient: Float64 = np.zeros(np.broadcast_shapes(numerator.shape, bounded.shape))
    np.divide(numerator, bounded, out=quotient, where=denominator != 0.0)
    return quotient


@dataclass(frozen=True, eq=False)
class Contribution:
    """The impressions of some queries, ready to be asked what policies are worth.

    Attributes:
        offsets: int64, queries + 1.
        impressions: int64, queries; N, how often each came.
        alpha: float64, documents; ᾱ.
        guess: float64, documents; m.
        unexplained: float64, documents; u = C − Σ_k n_k (α_k m + β_k), over the displays that were made.
        support: the smallest ᾱ of a document whose clicks are used; documents below it count as guessed.
        largest_ratio: the largest λ/ᾱ that counts. A loss keeps its full weight, a gain is never
            overestimated.

    Example:
        One document that is always shown, with α = 1 and β = 0, clicked 30 times out of 100.

        >>> from rankloop.statistics import Exposure
        >>> log = Statistics.of_policy(
        ...     "a", [0, 1], Exposure([1.0], [0.0], [1.0]),
        ...     impressions_by_query=[100], displays_by_position=[[100]], clicks_by_position=[[30]],
        ... )
        >>> contribution = Contribution.of(log, Bias([1.0], [0.0], [1.0]), np.array([0.2]))
        >>> round(float(contribution.by_query(np.array([1.0])).sum()) / 100, 6)
        0.3
    """

    offsets: Int64
    impressions: Int64
    alpha: Float64
    guess: Float64
    unexplained: Float64
    support: float = NO_BOUND
    largest_ratio: float = math.inf

    @classmethod
    def of(
        cls,
        statistics: Statistics,
        bias: Bias,
        guess: Float64,
        *,
        support: float = NO_BOUND,
        largest_ratio: float = math.inf,
    ) -> Self:
        """The contribution of a log's impressions.

        Raises:
            DataError: none of the queries came, or the guess or the bias does not fit the statistics.
        """
        check_fit(statistics, bias, guess)
        displays = statistics.effective_displays
        return cls(
            offsets=statistics.offsets,
            impressions=statistics.impressions_by_query,
            alpha=statistics.mean_exposure("query")[0],
            guess=guess,
            unexplained=unexplained_by_displays(statistics.clicks, displays, bias, guess),
            support=support,
            largest_ratio=largest_ratio,
        )

    @property
    def total(self) -> int:
        """T, the number of impressions."""
        return int(self.impressions.sum())

    @property
    def supported(self) -> NDArray[np.bool_]:
        """bool, documents; whether their clicks are used."""
        result: NDArray[np.bool_] = (self.alpha != 0.0) & (self.alpha >= self.support)
        return result

    @property
    def impressions_of(self) -> Int64:
        """int64, documents; how often the document's query came."""
        return np.repeat(self.impressions, np.diff(self.offsets))

    def factors(self, lambdas: Float64) -> Float64:
        """The weight of a click on each document, ``g = λ / ᾱ``: documents, or documents × policies."""
        ratios = debias(
            np.where(_column(self.supported, lambdas), lambdas, 0.0), _column(self.alpha, lambdas)
        )
        return np.minimum(ratios, self.largest_ratio)

    def before(self, lambdas: Float64) -> Float64:
        """The value of an impression before its clicks, ``Σ_d λ_d m_d``: queries, or queries × policies."""
        result: Float64 = segment_sum(lambdas * _column(self.guess, lambdas), self.offsets)
        return result

    def by_document(self, lambdas: Float64) -> Float64:
        """``N λ m + g u``: documents, or documents × policies."""
        guessed: Float64 = _column(self.impressions_of * self.guess, lambdas) * lambdas
        corrected: Float64 = self.factors(lambdas) * _column(self.unexplained, lambdas)
        return guessed + corrected

    def by_query(self, lambdas: Float64, constant: Float64 | float = 0.0) -> Float64:
        """The sums of x over the impressions of each query: queries, or queries × policies.

        Args:
            lambdas: λ, documents or documents × policies.
            constant: what else an impression of each query is worth, in the same shape as the result.
        """
        sums = segment_sum(self.by_document(lambdas), self.offsets)
        result: Float64 = sums + _column(self.impressions, lambdas) * constant
        return result

    def by_impression(
        self, lambdas: Float64, rows: ImpressionRows, bias: Bias, constant: Float64 | float = 0.0
    ) -> tuple[Float64, Float64]:
        """X of every impression, and its importance ``w = Σ_{d shown at k} g_d α_k``.

        Args:
            lambdas: λ, documents × policies.
            rows: what was shown and clicked; rows below the last rank of the bias do not count.
            bias: how users click.
            constant: what else an impression of each query is worth, queries × policies.

        Returns:
            float64, impressions × policies, twice.
        """
        inside = np.flatnonzero(rows.position < bias.positions)
        document, position = rows.document[inside], rows.position[inside]
        impression, weight = rows.impression_of[inside], self.factors(lambdas)[document]
        alpha, beta = bias.alpha[position], bias.beta[position]
        if rows.weight is not None:
            alpha, beta = alpha * rows.weight[inside], beta * rows.weight[inside]
        surprise = unexplained(rows.amount[inside], beta, alpha, self.guess[document])

        def total(term: Float64) -> Float64:
            columns = [np.bincount(impression, column * term, len(rows)) for column in weight.T]
            return np.stack(columns, axis=1).astype(np.float64)

        return (self.before(lambdas) + constant)[rows.query] + total(surprise), total(alpha)


def check_fit(statistics: Statistics, bias: Bias, guess: Float64) -> None:
    """Refuse statistics without impressions, and a bias or guesses that do not belong to them."""
    if statistics.positions != bias.positions:
        raise DataError(
            f"the statistics are of {statistics.positions} ranks and the bias of {bias.positions}: count the "
            f"log with the ranks of the bias"
        )
    if guess.shape != (statistics.n_documents,) or not np.isfinite(guess).all():
        raise DataError(
            f"{statistics.n_documents} documents need as many finite guesses, got shape {guess.shape}"
        )
    if statistics.impressions == 0:
        raise DataError(f"none of the {statistics.n_queries} queries ever came: there is no evidence")


def _column(values: NDArray[Any], like: Float64) -> NDArray[Any]:
    """Values per document or query, with as many axes as the λ of one policy or of several."""
    return values if like.ndim == 1 else values[:, None]
