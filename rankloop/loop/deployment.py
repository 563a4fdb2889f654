"""Deployment: which policy may log after a training, by the evidence of clicks it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from rankloop.errors import RankloopError
from rankloop.evidence import (
    ClickNoise,
    EvidenceRule,
    LossLimit,
    Step,
    Trial,
    TrustRegion,
    agreement,
    choose_step,
)
from rankloop.relevance import mean_relevance
from rankloop.relevance.cross_fit import each_fold, folds
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64, Int64, Model, Split
from rankloop.value import HeldOutClicks

# From this many held-out impressions on, held-out queries are evidence enough without cross-fitting.
ENOUGH_IMPRESSIONS = 2_000

# From training and held-out queries with their clicks to the policy that is learned from them.
Learn = Callable[[tuple[Split, Split], tuple[Statistics, Statistics]], Model]


@dataclass(frozen=True, eq=False)
class Clicks:
    """The clicks so far, and what they are thought to mean.

    Attributes:
        splits: the training queries, and the held-out ones.
        statistics: the clicks on each.
        bias: how users click.
        guess: a guess of each document's relevance for each split that does not depend on the clicks of the
            document's own query; None for the mean relevance.
    """

    splits: tuple[Split, Split]
    statistics: tuple[Statistics, Statistics]
    bias: Bias
    guess: tuple[Float64, Float64] | None = None

    def debiased(self, part: int, queries: Int64 | None = None) -> HeldOutClicks:
        """Debias the clicks on one of the splits, or on some of its queries."""
        statistics = self.statistics[part]
        if self.guess is None:
            guess = np.full(
                statistics.n_documents, mean_relevance(statistics.totals_by_position(), self.bias)
            )
        else:
            guess = self.guess[part]
        if queries is not None:
            chosen = np.zeros(statistics.n_queries, np.bool_)
            chosen[queries] = True
            guess = guess[np.repeat(chosen, np.diff(statistics.offsets))]
            statistics = statistics.select(queries)
        return HeldOutClicks.measure(statistics, self.bias, guess)


@dataclass(frozen=True)
class Deployment:
    """How the loop decides how far it may go from the start.

    Attributes:
        evidence: the rule of evidence.
        trust: the trust region; None for no limit. It takes a start that ranks more relevant documents
            higher: choose None for a start that knows nothing.
        folds: of cross-fitting: with few held-out impressions, the training queries are divided, and each
            part is the evidence for a policy that was learned from the others; 1 for none. It is a
            training more per fold, and the start is left much earlier.
    """

    evidence: EvidenceRule = field(default_factory=ClickNoise)
    trust: TrustRegion | None = field(default_factory=TrustRegion)
    folds: int = 2

    def __post_init__(self) -> None:
        if self.folds < 1:
            raise RankloopError(f"the number of folds is at least 1, got {self.folds}")

    def step(
        self,
        start: Model,
        learned: Model,
        clicks: Clicks,
        rank_weights: Float64,
        look: int,
        *,
        learn: Learn,
        deployed: Model | None = None,
    ) -> Step:
        """Choose how far to go from the start towards a learned policy.

        Args:
            start: the policy that must not become worse.
            learned: what was learned from all training queries.
            clicks: on training and held-out queries.
            rank_weights: θ, what each rank is worth.
            look: the number of the look at the evidence, from 1.
            learn: learns a policy in the same way from part of the clicks, for cross-fitting.
            deployed: the policy that was deployed before, if it is not the start.
        """
        held_out = Trial(learned, clicks.splits[1].features, clicks.debiased(1))
        trials = [held_out]
        if self.folds > 1 and held_out.clicks.total < ENOUGH_IMPRESSIONS:
            # Training stopped on the held-out clicks, so they are not quite unseen: do without them.
            trials = list(self._cross_fitted(clicks, learn)) or trials
        limit = None if self.trust is None else _loss_limit(self.trust, start, clicks, rank_weights)
        before = None if deployed is None else replace(held_out, model=deployed)
        return choose_step(
            start,
            learned,
            trials,
            rank_weights,
            self.evidence,
            look,
            limit=limit,
            deployed=before,
        )

    def _cross_fitted(self, clicks: Clicks, learn: Learn) -> Iterator[Trial]:
        split, statistics = clicks.splits[0], clicks.statistics[0]
        for turn in each_fold(folds(split.n_queries, self.folds), self.folds, stop=False):
            inside, outside = np.flatnonzero(turn.grown), np.flatnonzero(turn.own)
            came = [int(statistics.impressions_by_query[queries].sum()) for queries in (inside, outside)]
            if min(came) == 0:
                continue
            parts = (split.select(inside), clicks.splits[1])
            model = learn(parts, (statistics.select(inside), clicks.statistics[1]))
            yield Trial(model, split.select(outside).features, clicks.debiased(0, outside))


def _loss_limit(trust: TrustRegion, start: Model, clicks: Clicks, rank_weights: Float64) -> LossLimit:
    features = np.concatenate([split.features for split in clicks.splits])
    first, second = clicks.splits
    offsets = np.concatenate([first.offsets, first.n_documents + second.offsets[1:]])
    parts = [
        (statistics, start.scores(split.features))
        for split, statistics in zip(clicks.splits, clicks.statistics, strict=True)
    ]
    return LossLimit(features, offsets, trust.width(agreement(parts, clicks.bias, rank_weights)))
