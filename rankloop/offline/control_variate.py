"""What is assumed about documents before their clicks, and the bounds for documents without support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.estimators.intervention_aware import mean_relevance
from rankloop.offline.policy_rankings import PolicyRanking
from rankloop.ragged import segment_sum
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64, Int64

# Clicks on a document are used if its expected α is at least this many times 1/√T. Below it, one click would
# move an estimate by more than about ten standard errors; with ten times as much, intervals are too narrow.
SUPPORT_SCALE = 0.1


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


@dataclass(frozen=True, eq=False)
class ControlVariate:
    """What is known about a log's documents without the clicks of single impressions.

    Attributes:
        guess: m, the mean relevance of what was shown.
        alpha: float64, items; ᾱ, the expected α over the impressions of the item's query.
        support: the smallest ᾱ of an item whose clicks are used.
        frequencies: float64, queries; the query's share of the impressions.
        offsets: int64, queries + 1.
        item_guesses: float64, items; a guess of each item's relevance that does not depend on the clicks of
            its query; None for m everywhere.
    """

    guess: float
    alpha: Float64
    support: float
    frequencies: Float64
    offsets: Int64
    item_guesses: Float64 | None = None

    @classmethod
    def of(
        cls, statistics: Statistics, bias: Bias, used: NDArray[np.bool_], support: float | None = None
    ) -> Self:
        """From statistics of the queries that are used; the default support is 0.1/√T."""
        times = np.where(used, statistics.query_counts, 0)
        alpha = np.zeros(statistics.n_items)
        for policy in statistics.policies.values():
            share = policy.query_counts / np.maximum(statistics.query_counts, 1)
            alpha += statistics.per_item(share) * policy.exposure.alpha
        return cls(
            guess=mean_relevance(statistics.select(np.flatnonzero(used)), bias),
            alpha=alpha,
            support=float(SUPPORT_SCALE / np.sqrt(times.sum())) if support is None else support,
            frequencies=times / times.sum(),
            offsets=statistics.offsets,
        )

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Whether an item's clicks are used."""
        return (self.alpha > 0.0) & (self.alpha >= self.support)

    @property
    def relevance(self) -> Float64:
        """float64, items; what is assumed about each item before its clicks.

        Items without support are average, whatever was guessed: no click would correct the guess.
        """
        mean = np.full(len(self.alpha), self.guess)
        return mean if self.item_guesses is None else np.where(self.supported, self.item_guesses, mean)

    def factors(self, rankings: tuple[PolicyRanking, PolicyRanking]) -> Float64:
        """The weight of a click on each item for each policy, items × 2: λ / ᾱ, or 0 without support."""
        clicks_count = self.supported & (self._per_item(self.frequencies) > 0.0)
        return np.divide(
            _lambdas(rankings),
            self.alpha[:, None],
            out=np.zeros((len(self.alpha), 2)),
            where=clicks_count[:, None],
        )

    def before(self, rankings: tuple[PolicyRanking, PolicyRanking]) -> Float64:
        """The value of each query before any click, queries × 2; documents not in the log are average."""
        inside = segment_sum(_lambdas(rankings) * self.relevance[:, None], self.offsets)
        result: Float64 = inside + self.guess * _elsewhere(rankings) + _always(rankings)
        return result

    def bounds(self, rankings: tuple[PolicyRanking, PolicyRanking]) -> SupportBounds:
        """The effect of documents without support, with their relevances anywhere from 0 to 1."""
        often = self._per_item(self.frequencies)[:, None]
        inside = often * _lambdas(rankings)
        outside = np.where(self.supported[:, None], 0.0, inside)
        elsewhere = self.frequencies @ _elsewhere(rankings)
        shown_outside = outside.sum(axis=0) + elsewhere
        shown_at_all = inside.sum(axis=0) + elsewhere
        # Documents that are not in the log may be different ones for each policy.
        differences = np.concatenate([outside[:, 0] - outside[:, 1], [elsewhere[0], -elsewhere[1]]])
        more, less = np.maximum(differences, 0.0).sum(), np.maximum(-differences, 0.0).sum()
        return SupportBounds(
            shares=np.divide(shown_outside, shown_at_all, out=np.zeros(2), where=shown_at_all > 0.0),
            nothing=-self.guess * shown_outside,
            everything=(1.0 - self.guess) * shown_outside,
            worst=float(-self.guess * more - (1.0 - self.guess) * less),
            best=float((1.0 - self.guess) * more + self.guess * less),
        )

    def _per_item(self, by_query: Float64) -> Float64:
        return np.repeat(by_query, np.diff(self.offsets))


def _lambdas(rankings: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.weights for policy in rankings], axis=1)


def _elsewhere(rankings: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.elsewhere for policy in rankings], axis=1)


def _always(rankings: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.always for policy in rankings], axis=1)
