"""Guesses of relevance from features: what makes the estimate of a document's relevance doubly robust."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.models.specs import LightGBMSpec
from rankloop.models.storage import pack, unpack
from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.objectives.click_likelihood import mean_score
from rankloop.progress import Progress, report
from rankloop.ragged import segment_index
from rankloop.statistics import Statistics
from rankloop.training.trees import train_trees_on_clicks
from rankloop.types import Bias, Float32, Float64, Int64, Split

FOLDS = 5
GUESS_KIND = "relevance-guess"
# Small trees and large steps: a guess has to be cheap, and clicks correct what it gets wrong.
GUESS = LightGBMSpec(rounds=200, patience=10, rate=0.1, leaves=15, objective="click-likelihood")


@dataclass(frozen=True, eq=False)
class RelevanceGuess:
    """A guess of every document's relevance that has not seen the clicks on its query.

    Attributes:
        train: float64, documents of the training queries.
        held_out: float64, documents of the held-out queries.
        spec: the name of the model.
        gain: how much more likely the clicks of each training query are by its guess than by one relevance
            for all documents, in nats per display; the guess did not see these clicks. 0 or less says that
            features tell nothing.
    """

    train: Float64
    held_out: Float64
    spec: str
    gain: float

    def to_bytes(self) -> bytes:
        """Serialise the guess; nothing is pickled."""
        tensors = {"train": self.train, "held_out": self.held_out}
        return pack(GUESS_KIND, {"spec": self.spec, "gain": self.gain}, tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> RelevanceGuess:
        """Read the guess that `to_bytes` wrote."""
        content = unpack(data, GUESS_KIND)
        return cls(content.tensors["train"], content.tensors["held_out"], **content.spec)


def guess_relevance(
    splits: tuple[Split, Split],
    statistics: tuple[Statistics, Statistics],
    bias: Bias,
    *,
    spec: LightGBMSpec = GUESS,
    progress: Progress | None = None,
) -> RelevanceGuess:
    """Guess relevance by trees on the likelihood of clicks, cross-fitted by query.

    Training queries are divided into five folds. The guess for a fold comes from trees that were grown on
    three of the others and stopped on the fourth: no query's guess depends on its own clicks. Held-out
    queries get the mean of all five guesses; their clicks are not used at all.

    Args:
        splits: training and held-out queries; their labels are not read.
        statistics: the clicks on each split; the held-out clicks are not read.
        bias: how users click.
        spec: the trees.
        progress: told of every fold.

    Reference: Oosterhuis, "Doubly robust estimation for correcting position bias in click feedback for
    unbiased learning to rank" (2023); Chernozhukov et al., "Double/debiased machine learning" (2018).
    """
    split, held_out = splits
    counts = ClickCounts.of(statistics[0])
    start = mean_score(counts, bias)
    train, elsewhere = np.full(split.n_docs, _relevance(start)), np.full(held_out.n_docs, _relevance(start))
    if split.n_queries >= FOLDS:
        fold = folds(split.n_queries)[segment_index(split.offsets)]
        elsewhere[:] = 0.0
        for number in range(FOLDS):
            report(progress, "guess relevance", number / FOLDS, f"fold {number + 1} of {FOLDS}")
            stop = (number + 1) % FOLDS
            parts = [np.flatnonzero(where) for where in ((fold != number) & (fold != stop), fold == stop)]
            grown, stopped = ((split.features[items], counts.select(items)) for items in parts)
            middle, own = mean_score(grown[1], bias), np.flatnonzero(fold == number)
            if not _can_split(grown[0], spec):
                train[own] = _relevance(middle)
                elsewhere += _relevance(middle) / FOLDS
                continue
            found = train_trees_on_clicks((grown, stopped), bias, spec, rng=np.random.default_rng(number))
            train[own] = _relevance(found.model.scores(split.features[own]) + middle)
            elsewhere += _relevance(found.model.scores(held_out.features) + middle) / FOLDS
        report(progress, "guess relevance", 1.0)
    displays = max(float(counts.displays.sum()), 1.0)
    likelihoods = [
        click_likelihood(scores, counts, bias).value
        for scores in (np.log(train) - np.log1p(-train), np.full(split.n_docs, start))
    ]
    return RelevanceGuess(train, elsewhere, str(spec), (likelihoods[0] - likelihoods[1]) / displays)


def _can_split(features: Float32, spec: LightGBMSpec) -> bool:
    """Whether LightGBM can grow a tree at all: it refuses data without a single split."""
    return len(features) >= 4 * spec.min_docs and bool(np.ptp(features, axis=0).any())


def _relevance(scores: Float64 | float) -> Float64:
    result: Float64 = 1.0 / (1.0 + np.exp(-np.clip(scores, -30.0, 30.0)))
    return result


def folds(n_queries: int) -> Int64:
    """The fold of each query: the same for the same number of queries, and not by their order."""
    return np.random.default_rng(0).permutation(n_queries) % FOLDS
