"""What features tell about a document, by trees that never saw its query: its relevance, and its rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from rankloop import extras
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.ragged import threads
from rankloop.relevance import ClickModel, ClickTask, train_trees_on_clicks
from rankloop.relevance.cross_fit import each_fold, folds
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float32, Float64, Int64

# Small trees and large steps: both predictions are only needed to first order.
RELEVANCE = LightGBMSpec(
    rounds=200, patience=10, rate=0.1, leaves=15, min_documents=50, objective="click-likelihood"
)
PLACEMENT_ROUNDS = 40
PLACEMENT = {"learning_rate": 0.1, "num_leaves": 8, "min_data_in_leaf": 50, "verbosity": -1}
# No rank is believed to be less likely than this.
LEAST_PROBABILITY = 1e-3


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """Documents with features, in folds of whole queries.

    Attributes:
        shown: displays and clicks of the documents.
        features: float32, documents × features.
        fold: int64, queries of the log; the fold of each.
    """

    shown: CellTable
    features: Float32
    fold: Int64

    @classmethod
    def of(cls, shown: CellTable, features: Float32, rng: np.random.Generator) -> CrossFitting:
        """Draw the folds."""
        queries = np.unique(shown.queries)
        fold = np.zeros(shown.n_queries, np.int64)
        fold[queries] = folds(len(queries), rng=rng)
        return cls(shown, features, fold)

    def relevance(self, bias: Bias, rng: np.random.Generator) -> Float64:
        """Predict the relevance of every document if users click as the bias says: documents.

        Trees on the likelihood of clicks, grown on three of the other folds and stopped on the fourth.
        """
        result = np.empty(self.shown.n_documents)
        countable, factor = self.shown.countable()
        task = ClickTask(self.features, ClickModel(countable, bias.scaled(1.0 / factor)))
        for turn in each_fold(self.fold):
            grown = task.of_queries(turn.grown)
            trees = train_trees_on_clicks(grown, task.of_queries(turn.stopped), RELEVANCE, rng=rng).model
            own = turn.own[self.shown.queries]
            result[own] = expit(trees.scores(self.features[own]) + grown.model.mean_score)
        return result

    def placement(self, rng: np.random.Generator) -> Float64:
        """Predict the rank of every document: the probability of each if it is shown, documents × ranks."""
        lightgbm = extras.load("lightgbm")
        shown, ranks = self.shown, self.shown.positions
        settings = {
            **DEFAULTS,
            **PLACEMENT,
            "objective": "multiclass",
            "num_class": ranks,
            "seed": int(rng.integers(2**31)),
            "num_threads": threads(),
        }
        result = np.empty((shown.n_documents, ranks))
        for turn in each_fold(self.fold, stop=False):
            own = turn.own[shown.queries]
            cells = np.flatnonzero(~own[shown.document_of])
            data = lightgbm.Dataset(
                self.features[shown.document_of[cells]],
                label=shown.position[cells],
                weight=shown.displays[cells],
                params=settings,
            )
            booster = lightgbm.train(settings, data, num_boost_round=PLACEMENT_ROUNDS)
            scores = np.asarray(booster.predict(self.features[own], raw_score=True))
            result[own] = softmax(scores, axis=1)
        result = np.maximum(result, LEAST_PROBABILITY)
        return np.asarray(result / result.sum(axis=1, keepdims=True))
