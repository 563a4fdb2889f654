"""What features tell about a document, by trees that never saw its query: its relevance, and its rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from rankloop import extras
from rankloop.bias.rank_counts import RankCounts
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.objectives import ClickCounts
from rankloop.objectives.click_likelihood import mean_score
from rankloop.ragged import threads
from rankloop.training.shown_documents import ShownDocuments
from rankloop.training.trees import train_trees_on_clicks
from rankloop.types import Bias, Float32, Float64, Int64

FOLDS = 5
# Small trees and large steps: both predictions are only needed to first order.
RELEVANCE = LightGBMSpec(
    rounds=200, patience=10, rate=0.1, leaves=15, min_docs=50, objective="click-likelihood"
)
PLACEMENT_ROUNDS = 40
PLACEMENT = {"learning_rate": 0.1, "num_leaves": 8, "min_data_in_leaf": 50, "verbosity": -1}
# No rank is believed to be less likely than this.
LEAST_PROBABILITY = 1e-3


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """Items with features, in folds of whole queries.

    Attributes:
        shown: displays and clicks of the items.
        features: float32, items × features.
        fold: int64, items.
    """

    shown: RankCounts
    features: Float32
    fold: Int64

    @classmethod
    def of(cls, shown: RankCounts, features: Float32, rng: np.random.Generator) -> CrossFitting:
        """Draw the folds."""
        queries, query_of = np.unique(shown.queries, return_inverse=True)
        return cls(shown, features, (rng.permutation(len(queries)) % FOLDS)[query_of])

    def relevance(self, bias: Bias, rng: np.random.Generator) -> Float64:
        """Predict the relevance of every item if users click as the bias says: items.

        Trees on the likelihood of clicks, grown on three of the other folds and stopped on the fourth.
        """
        result = np.empty(self.shown.n_items)
        for own in range(FOLDS):
            stop = (own + 1) % FOLDS
            others = (self.fold != own) & (self.fold != stop)
            parts = [np.flatnonzero(part) for part in (others, self.fold == stop)]
            grown, stopped = (self._documents(items) for items in parts)
            here = np.flatnonzero(self.fold == own)
            found = train_trees_on_clicks((grown, stopped), bias, RELEVANCE, rng=rng)
            result[here] = expit(found.model.scores(self.features[here]) + mean_score(grown.counts, bias))
        return result

    def placement(self, rng: np.random.Generator) -> Float64:
        """Predict the rank of every item: the probability of each rank if it is shown, items × ranks."""
        lightgbm = extras.load("lightgbm")
        shown, ranks = self.shown, self.shown.ranks
        settings = {
            **DEFAULTS,
            **PLACEMENT,
            "objective": "multiclass",
            "num_class": ranks,
            "seed": int(rng.integers(2**31)),
            "num_threads": threads(),
        }
        result = np.empty((shown.n_items, ranks))
        cell_fold = self.fold[shown.item_of]
        for own in range(FOLDS):
            cells, here = np.flatnonzero(cell_fold != own), np.flatnonzero(self.fold == own)
            data = lightgbm.Dataset(
                self.features[shown.item_of[cells]],
                label=shown.rank[cells],
                weight=shown.displays[cells],
                params=settings,
            )
            booster = lightgbm.train(settings, data, num_boost_round=PLACEMENT_ROUNDS)
            scores = np.asarray(booster.predict(self.features[here], raw_score=True))
            result[here] = softmax(scores, axis=1)
        result = np.maximum(result, LEAST_PROBABILITY)
        return np.asarray(result / result.sum(axis=1, keepdims=True))

    def _documents(self, items: Int64) -> ShownDocuments:
        part = self.shown.select(items)
        counts = ClickCounts(part.starts, part.rank, part.displays, part.clicks)
        queries, query_of = np.unique(part.queries, return_inverse=True)
        return ShownDocuments(self.features[items], counts, query_of, len(queries))
