"""The clicks that policies are judged by, and what an evaluation computes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.logs import LogCounts, LogReader, LogStatistics
from rankloop.offline.bias_resamples import BiasResamples, BiasSpread, QueryValues
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.impression_sums import sum_impressions
from rankloop.offline.intervals import ImpressionSample
from rankloop.offline.policy_rankings import PolicyRanking
from rankloop.offline.relevance_control import (
    MEAN,
    SCORES,
    RelevanceControl,
    control_by_features,
    control_by_scores,
)
from rankloop.types import Bias, Float64, Int64

# Those of the new policy, and of the policy that it is compared with.
RankingPair = tuple[PolicyRanking, PolicyRanking]
# Resampling fewer queries than this gives intervals that are too narrow.
FEW_QUERIES = 30


@dataclass(frozen=True, eq=False)
class JudgedClicks:
    """The clicks that policies are judged by.

    Attributes:
        log: the log.
        counts: its counts.
        found: its statistics.
        bias: how users click; of the signal, if policies are judged by that.
        used: bool, queries; those whose clicks are used.
    """

    log: LogReader
    counts: LogCounts
    found: LogStatistics
    bias: Bias
    used: NDArray[np.bool_]

    @property
    def times(self) -> Int64:
        """How often each query came; 0 for queries that are not used."""
        return np.where(self.used, self.found.statistics.query_counts, 0)

    def sample(self, rankings: RankingPair, variate: ControlVariate) -> ImpressionSample:
        """Sum the terms of both values over the impressions of each query."""
        log, factors, guessed = self.log, variate.factors(rankings), variate.relevance
        with log.open_engine() as running:
            sums = sum_impressions(
                running, log, self.counts, factors, self.bias, guessed, grading=log.grading()
            )
        return ImpressionSample(self.times, variate.before(rankings), sums)

    def guess(self, scores: Sequence[Float64], control: str) -> RelevanceControl | None:
        """Guess the relevance of documents, if that can be done.

        Args:
            scores: those of the policies, for items.
            control: what guesses, as in `rankloop.EvaluationOptions`.
        """
        few = self.used.sum() < FEW_QUERIES
        # A curve through the clicks of a few queries predicts nothing.
        if control == MEAN or few or (control == SCORES and not scores):
            return None
        if control == SCORES:
            return control_by_scores(scores, self.found.statistics, self.bias, self.used)
        return control_by_features(control, self.log, self.found, self.bias)

    def spread(
        self, rankings: RankingPair, variate: ControlVariate, resamples: BiasResamples | None
    ) -> BiasSpread | None:
        """How the values vary with the bias; None for a bias without resamples."""
        if resamples is None:
            return None
        values = QueryValues(
            self.log.rank_shares(self.found),
            self.counts.displays_by_rank,
            self.found.statistics.clicks,
            self.times,
            rankings,
            variate,
        )
        worth = resamples.of_worth(self.log.grading().per_click)
        return values.spread(self.bias, worth, self.counts.fingerprint)
