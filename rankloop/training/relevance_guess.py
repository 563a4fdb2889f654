"""Guesses of relevance from features: what makes the estimate of a document's relevance doubly robust."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.models.storage import pack, unpack
from rankloop.progress import Progress, report
from rankloop.ragged import segment_index
from rankloop.statistics import Statistics
from rankloop.training.calibration import Calibration, calibrate, relevance_of
from rankloop.training.guess_models import ConstantGuess, GuessModel, Scorer, TreeGuess
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float32, Float64, Int64, Split

FOLDS = 5
GUESS_KIND = "relevance-guess"


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
        calibration: how well the guess explains the clicks of the training queries, which it did not see;
            None if that was not measured.
    """

    train: Float64
    held_out: Float64
    spec: str
    gain: float
    calibration: Calibration | None = None

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
    model: GuessModel | None = None,
    progress: Progress | None = None,
) -> RelevanceGuess:
    """Guess relevance from features, cross-fitted by query.

    Training queries are divided into five folds. The guess for a fold comes from a model that was fitted to
    three of the others and stopped on the fourth: no query's guess depends on its own clicks. Held-out
    queries get the mean of all five guesses; their clicks are not used at all.

    Args:
        splits: training and held-out queries; their labels are not read.
        statistics: the clicks on each split; the held-out clicks are not read.
        bias: how users click.
        model: what guesses; None for trees (`TreeGuess`).
        progress: called before every fold.

    Reference: Oosterhuis, "Doubly robust estimation for correcting position bias in click feedback for
    unbiased learning to rank" (2023); Chernozhukov et al., "Double/debiased machine learning" (2018).
    """
    split, held_out = splits
    shown = ShownDocuments.of(split, statistics[0])
    train, elsewhere = np.empty(split.n_docs), np.zeros(held_out.n_docs)
    guesses = model or TreeGuess()
    for own, scores in _cross_fit(shown, bias, guesses, progress):
        items = np.flatnonzero(own[segment_index(split.offsets)])
        train[items] = relevance_of(scores(split.features[items]))
        elsewhere += relevance_of(scores(held_out.features)) / FOLDS
    found = calibrate(train[statistics[0].displays_by_rank.any(axis=1)], shown.counts, bias)
    return RelevanceGuess(train, elsewhere, str(guesses), found.gain, found)


def cross_fit_relevance(
    features: Float32,
    statistics: Statistics,
    bias: Bias,
    model: GuessModel,
    *,
    progress: Progress | None = None,
) -> tuple[Float64, Calibration]:
    """Guess the relevance of items from features, such that no query's guess depends on its own clicks.

    Args:
        features: items × features; NaN where they are missing.
        statistics: the clicks.
        bias: how users click.
        model: what guesses.
        progress: called before every fold.

    Returns:
        the guesses, and how well they explain the clicks, which they did not see.
    """
    shown = ShownDocuments.of_items(features, statistics)
    result = np.empty(len(features))
    for own, scores in _cross_fit(shown, bias, model, progress):
        items = np.flatnonzero(own[segment_index(statistics.offsets)])
        result[items] = relevance_of(scores(features[items]))
    return result, calibrate(result[statistics.displays_by_rank.any(axis=1)], shown.counts, bias)


def _cross_fit(
    shown: ShownDocuments, bias: Bias, model: GuessModel, progress: Progress | None
) -> Iterator[tuple[NDArray[np.bool_], Scorer]]:
    """The queries of each fold, and a model fitted to three other folds and stopped on the fourth."""
    fold = folds(shown.n_queries)
    # Fewer queries than folds cannot be cross-fitted, and get one relevance for all documents.
    few = shown.n_queries < FOLDS
    for number in range(FOLDS):
        report(progress, "guess relevance", number / FOLDS, f"fold {number + 1} of {FOLDS}")
        stop = (number + 1) % FOLDS
        others, stopping = few | ((fold != number) & (fold != stop)), few | (fold == stop)
        parts = shown.of_queries(others), shown.of_queries(stopping)
        guesses = ConstantGuess() if few else model
        yield fold == number, guesses.fit(parts, bias, np.random.default_rng(number))
    report(progress, "guess relevance", 1.0)


def folds(n_queries: int) -> Int64:
    """The fold of each query: the same for the same number of queries, and not by their order."""
    return np.random.default_rng(0).permutation(n_queries) % FOLDS
