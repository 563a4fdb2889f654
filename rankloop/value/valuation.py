"""Two policies on a log: what a ranking is worth, values query by query, and what the log cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.evaluation import Additive, metric
from rankloop.names import parse
from rankloop.ragged import segment_sum
from rankloop.relevance.click_model import mean_relevance
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64, Int64, Lines
from rankloop.value.contribution import Contribution, unexplained_by_displays

# The value in the units of the log: what users click, or what their actions are worth.
CLICKS = "clicks"
# Down to the last rank of the bias.
DEFAULT_METRIC = "dcg"
# Clicks on a document are used if its expected α is at least this many times 1/√T. Below it, one click would
# move an estimate by more than about ten standard errors; with ten times as much, intervals are too narrow.
SUPPORT_SCALE = 0.1
# A resampled ᾱ is at least this share of the estimated one: a division by nearly 0 says nothing.
LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class LoggedMetric:
    """The value of a ranking: ``Σ_d (θ_rank(d) · R(d) + θ⁰_rank(d))``.

    A metric of relevance, such as DCG, has fixed weights θ and no θ⁰. The metric ``clicks`` is the number of
    clicks that users make: θ is their α and θ⁰ their β, so both are as uncertain as the bias.

    Attributes:
        name: its name, such as ``dcg@5``.
        discounts: float64, ranks; θ. None for ``clicks``.
        ranks: how many ranks count.
        unit: what relevance 1 is worth: 1 for clicks, and the highest amount of a log with amounts.

    Example:
        >>> bias = Bias(alpha=np.array([0.5]), beta=np.array([0.1]), examination=np.array([1.0]))
        >>> LoggedMetric.of("dcg@2", bias).discounts.round(4)
        array([1.    , 0.6309])
        >>> clicks = LoggedMetric.of("clicks", bias)
        >>> clicks.gain(np.array([[1.0]]), bias), clicks.always(np.array([[1.0]]), bias)
        (array([0.5]), array([0.1]))
    """

    name: str
    discounts: Float64 | None
    ranks: int
    unit: float = 1.0

    @classmethod
    def of(cls, name: str, bias: Bias, *, unit: float | None = None) -> LoggedMetric:
        """Find a metric by its name: ``clicks``, or any sum over documents such as ``dcg``, ``dcg@5``.

        Args:
            name: the name; without a cut-off, as many ranks count as the bias has.
            bias: how users click.
            unit: what relevance 1 is worth, if displays have amounts; None for clicks.
        """
        suffix, amount = ("", 1.0) if unit is None else (" of the amount", unit)
        if name == CLICKS:
            return cls(name + suffix, None, bias.positions, amount)
        found = None if parse(name).name == CLICKS else metric(name)
        if not isinstance(found, Additive) or found.normalised or parse(str(found)).options:
            raise RankloopError(
                f"{name!r} cannot be estimated from clicks: expected '{CLICKS}', 'dcg' or a cut-off as in "
                f"'dcg@5', which are sums over documents and do not ask for the best ranking"
            )
        ranks = found.cutoff or bias.positions
        return cls(f"{found.name}@{ranks}{suffix}", found.rank_weights(ranks), ranks, amount)

    @property
    def vectors(self) -> Float64:
        """Weights of ranks to sum placements with, vectors × ranks: θ, or each rank by itself."""
        return np.eye(self.ranks) if self.discounts is None else self.discounts[None]

    def gain(self, placed: Float64, bias: Bias | Lines) -> Float64:
        """λ, what a placement is worth per unit of relevance; its last axis is that of vectors."""
        result: Float64 = placed[..., 0] if self.discounts is not None else placed @ bias.alpha
        return result * self.unit

    def always(self, placed: Float64, bias: Bias | Lines) -> Float64:
        """What a placement is worth whatever the relevance."""
        if self.discounts is not None:
            return np.zeros(placed.shape[:-1])
        result: Float64 = placed @ bias.beta
        return result * self.unit


@dataclass(frozen=True, eq=False)
class PolicyRanking:
    """How a policy ranks a log's queries, as far as a `LoggedMetric` needs it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` or ``drawn``, followed by ``within impressions`` if only the documents of an
            impression are ranked; or ``as displayed`` if it is known only from displays.
        placed: float64, documents × vectors; the expected weight of the document's rank, for each vector of
            the metric.
        elsewhere: float64, queries × vectors; the sum of these weights over documents that are not in the
            log.
        known: bool, queries; whether it is known how the policy ranks the query.
    """

    name: str
    ranking: str
    placed: Float64
    elsewhere: Float64
    known: NDArray[np.bool_]

    def select(self, queries: NDArray[np.bool_], offsets: Int64) -> PolicyRanking:
        """The same for some of the queries.

        Args:
            queries: bool, queries.
            offsets: int64, queries + 1; those of all queries.
        """
        documents = np.repeat(queries, np.diff(offsets))
        placed, elsewhere, known = self.placed[documents], self.elsewhere[queries], self.known[queries]
        return replace(self, placed=placed, elsewhere=elsewhere, known=known)


# Those of the new policy, and of the policy that it is compared with.
RankingPair = tuple[PolicyRanking, PolicyRanking]


class SupportBounds(NamedTuple):
    """How documents without support, which are assumed to be average, can change the estimates.

    Attributes:
        shares: their share of what each of the two policies shows.
        nothing: the change of each estimate if they are all irrelevant.
        everything: the change of each estimate if they are all relevant.
        worst: the change of the difference in the worst case.
        best: the change of the difference in the best case.
    """

    shares: Float64
    nothing: Float64
    everything: Float64
    worst: float
    best: float

    @classmethod
    def mean(cls, parts: Sequence[SupportBounds], weights: Float64) -> SupportBounds:
        """Those of several periods, each of which counts with its weight."""
        return cls(
            *(weights @ np.stack([part[place] for part in parts]) for place in range(3)),
            *(float(weights @ [part[place] for part in parts]) for place in (3, 4)),
        )


@dataclass(frozen=True, eq=False)
class Valuation:
    """Two policies, and the clicks that they are valued by.

    Attributes:
        statistics: displays and clicks on the queries that are used, with their exposures.
        bias: how users click.
        metric: what a ranking is worth.
        policies: how the two policies rank these queries.
        support: the smallest expected α of a document whose clicks are used.
        guesses: float64, documents; a guess of each document's relevance that does not depend on the clicks
            of its query; None for the mean relevance everywhere.
    """

    statistics: Statistics
    bias: Bias
    metric: LoggedMetric
    policies: RankingPair
    support: float
    guesses: Float64 | None = None

    @staticmethod
    def usual_support(impressions: int) -> float:
        """The support for a number of impressions, unless another one is chosen."""
        return float(SUPPORT_SCALE / np.sqrt(impressions))

    @cached_property
    def mean(self) -> float:
        """The mean relevance of what was shown."""
        return mean_relevance(self.statistics.totals_by_position(), self.bias)

    @cached_property
    def contribution(self) -> Contribution:
        """What the impressions say, given the guesses.

        Documents without support are average, whatever was guessed: no click would correct the guess.
        """
        mean = np.full(self.statistics.n_documents, self.mean)
        plain = Contribution.of(self.statistics, self.bias, mean, support=self.support)
        if self.guesses is None:
            return plain
        guess = np.where(plain.supported, self.guesses, mean)
        return Contribution.of(self.statistics, self.bias, guess, support=self.support)

    @cached_property
    def lambdas(self) -> Float64:
        """λ of both policies: float64, documents × 2."""
        return self._lambdas(self.bias)

    @cached_property
    def constant(self) -> Float64:
        """What an impression is worth apart from the log's documents: float64, queries × 2."""
        return self._constant(self.bias, self.mean)

    @cached_property
    def by_query(self) -> Float64:
        """The sums of both values over the impressions of each query: float64, queries × 2."""
        return self.contribution.by_query(self.lambdas, self.constant)

    @property
    def before(self) -> Float64:
        """The values of an impression of each query before its clicks: float64, queries × 2."""
        return self.contribution.before(self.lambdas) + self.constant

    def _lambdas(self, bias: Bias | Lines) -> Float64:
        return np.stack([self.metric.gain(policy.placed, bias) for policy in self.policies], axis=1)

    def _constant(self, bias: Bias | Lines, mean: float) -> Float64:
        """Documents that are not in the log are average; any document is clicked by chance."""
        columns = []
        for policy in self.policies:
            placed = segment_sum(policy.placed, self.statistics.offsets) + policy.elsewhere
            average = mean * self.metric.gain(policy.elsewhere, bias)
            columns.append(average + self.metric.always(placed, bias))
        return np.stack(columns, axis=1)

    def by_query_with(self, bias: Lines, shares: Float64, weights: Float64) -> Float64:
        """The same as `by_query` for users of another bias, such as a resampled one.

        Args:
            bias: how they click.
            shares: float64, documents × ranks; the probability of each rank per impression of the query.
            weights: float64, queries; how often each query counts in the mean relevance.
        """
        statistics, usual = self.statistics, self.contribution
        displays = statistics.effective_displays
        per_document = statistics.per_document(weights)
        mean = mean_relevance((per_document @ displays, per_document @ statistics.clicks_by_position), bias)
        guess = np.full(statistics.n_documents, mean) if self.guesses is None else usual.guess
        alpha = np.maximum(shares @ bias.alpha, LEAST_SHARE * usual.alpha)
        other = replace(
            usual,
            # What is used does not depend on the resample.
            alpha=np.where(usual.supported, alpha, 0.0),
            guess=guess,
            unexplained=unexplained_by_displays(statistics.clicks, displays, bias, guess),
            support=0.0,
        )
        return other.by_query(self._lambdas(bias), self._constant(bias, mean))

    def bounds(self) -> SupportBounds:
        """The effect of documents without support, with their relevances anywhere from 0 to 1."""
        frequencies = self.contribution.impressions / self.contribution.total
        inside = self.statistics.per_document(frequencies)[:, None] * self.lambdas
        outside = np.where(self.contribution.supported[:, None], 0.0, inside)
        strangers = [self.metric.gain(policy.elsewhere, self.bias) for policy in self.policies]
        elsewhere = frequencies @ np.stack(strangers, axis=1)
        shown_outside = outside.sum(axis=0) + elsewhere
        shown_at_all = inside.sum(axis=0) + elsewhere
        # Documents that are not in the log may be different ones for each policy.
        differences = np.concatenate([outside[:, 0] - outside[:, 1], [elsewhere[0], -elsewhere[1]]])
        more, less = np.maximum(differences, 0.0).sum(), np.maximum(-differences, 0.0).sum()
        return SupportBounds(
            shares=np.divide(shown_outside, shown_at_all, out=np.zeros(2), where=shown_at_all > 0.0),
            nothing=-self.mean * shown_outside,
            everything=(1.0 - self.mean) * shown_outside,
            worst=float(-self.mean * more - (1.0 - self.mean) * less),
            best=float((1.0 - self.mean) * more + self.mean * less),
        )

    def alike(self, rounding: float) -> bool:
        """Whether both policies rank alike: weights differ by no more than this share of the largest."""
        first, second = self.policies
        # Documents that are not in the log may be different ones for each policy.
        strangers = max(float(np.abs(policy.elsewhere).max(initial=0.0)) for policy in self.policies)
        largest = max(float(np.abs(policy.placed).max(initial=0.0)) for policy in self.policies)
        difference = float(np.abs(first.placed - second.placed).max(initial=0.0))
        return max(difference, strangers) <= rounding * max(largest, rounding)
