"""What a log says of its documents before single impressions are looked at, and what it says nothing of."""

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

# Clicks on a document count if its expected α is at least so many times 1/√T. Below it, one click would move
# an estimate by more than about ten standard errors; ten times as much makes estimates that are too sure.
SUPPORT_SCALE = 0.1


class SupportBounds(NamedTuple):
    """What documents of which the log says nothing can do to estimates in which they count as average.

    Attributes:
        shares: of what each of both policies shows.
        nothing: what each estimate changes by if they are all irrelevant.
        everything: if they are all relevant.
        worst: what the difference changes by at worst.
        best: at best.
    """

    shares: Float64
    nothing: Float64
    everything: Float64
    worst: float
    best: float


@dataclass(frozen=True, eq=False)
class ControlVariate:
    """What is known of a log's documents but for the clicks of single impressions.

    Attributes:
        guess: m, the mean relevance of what was shown.
        alpha: float64, items; ᾱ, the expected α over the impressions of the item's query.
        support: the least ᾱ for clicks to count.
        frequencies: float64, queries; the share of the impressions that are the query's.
        offsets: int64, queries + 1.
    """

    guess: float
    alpha: Float64
    support: float
    frequencies: Float64
    offsets: Int64

    @classmethod
    def of(
        cls, statistics: Statistics, bias: Bias, used: NDArray[np.bool_], support: float | None = None
    ) -> Self:
        """From statistics, on the queries that are used; without a support it is 0.1/√T."""
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
        """Whether an item's clicks count."""
        return (self.alpha > 0.0) & (self.alpha >= self.support)

    def factors(self, shown: tuple[PolicyRanking, PolicyRanking]) -> Float64:
        """What a click on each item counts for each policy, items × 2: λ / ᾱ, or 0 where clicks do not."""
        clicks_count = self.supported & (self._per_item(self.frequencies) > 0.0)
        return np.divide(
            _lambdas(shown),
            self.alpha[:, None],
            out=np.zeros((len(self.alpha), 2)),
            where=clicks_count[:, None],
        )

    def before(self, shown: tuple[PolicyRanking, PolicyRanking]) -> Float64:
        """What each query is worth before any click, queries × 2: all documents are average."""
        inside = segment_sum(_lambdas(shown), self.offsets)
        result: Float64 = self.guess * (inside + _elsewhere(shown)) + _always(shown)
        return result

    def unseen(self, shown: tuple[PolicyRanking, PolicyRanking]) -> SupportBounds:
        """What the documents without support can do, with their relevances anywhere from 0 to 1."""
        often = self._per_item(self.frequencies)[:, None]
        inside = often * _lambdas(shown)
        outside = np.where(self.supported[:, None], 0.0, inside)
        elsewhere = self.frequencies @ _elsewhere(shown)
        shown_outside = outside.sum(axis=0) + elsewhere
        shown_at_all = inside.sum(axis=0) + elsewhere
        # Documents that the log does not know are another's for each policy, for all that is known.
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


def _lambdas(shown: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.weights for policy in shown], axis=1)


def _elsewhere(shown: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.elsewhere for policy in shown], axis=1)


def _always(shown: tuple[PolicyRanking, PolicyRanking]) -> Float64:
    return np.stack([policy.always for policy in shown], axis=1)
