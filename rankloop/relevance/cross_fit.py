"""Cross-fitting: guesses of relevance that have not seen the clicks of the query that they are about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.models import Adam
from rankloop.models.history import Settings
from rankloop.models.storage import pack, unpack
from rankloop.progress import Progress, report
from rankloop.ragged import segment_std
from rankloop.relevance.click_model import QUERY_VARIANCE, Calibration, calibrate, logistic
from rankloop.relevance.guesses import (
    ClickTask,
    ConstantGuess,
    GuessModel,
    Scorer,
    TreeGuess,
    train_network_on_clicks,
)
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float32, Float64, Int64, Model, Split

FOLDS = 5
NETWORK_GUESS = "network"
GUESS_KIND = "relevance-guess"
TASK = "guess relevance"
GUESS_SETTINGS = Settings(Adam(rate=0.003), epochs=15, patience=3)
# Scores of policies are far apart, because policies are peaked. As logits of relevance they start closer.
FIRST_SPREAD = 0.7


def folds(number: int, count: int = FOLDS, rng: np.random.Generator | None = None) -> Int64:
    """The fold of each of a number of queries, not by their order: int64, queries.

    Args:
        number: of queries.
        count: of folds.
        rng: draws the folds; None for the same ones for the same number of queries.
    """
    return (np.random.default_rng(0) if rng is None else rng).permutation(number) % count


class Fold(NamedTuple):
    """One turn of cross-fitting: bool, queries each.

    Attributes:
        number: the number of the fold.
        own: the queries of the fold, which the model never sees.
        grown: those that it is trained on.
        stopped: those that its training is stopped on.
    """

    number: int
    own: NDArray[np.bool_]
    grown: NDArray[np.bool_]
    stopped: NDArray[np.bool_]


def each_fold(
    fold: Int64, count: int = FOLDS, *, stop: bool = True, progress: Progress | None = None
) -> Iterator[Fold]:
    """Every fold in turn, with those that a model for it is trained and stopped on.

    Args:
        fold: the fold of each query.
        count: of folds.
        stop: whether one of the other folds is kept to stop training on; if not, all others are trained on.
        progress: called before every fold.

    Example:
        >>> for turn in each_fold(np.array([0, 1, 2]), 3):
        ...     print(turn.own.nonzero()[0], turn.grown.nonzero()[0], turn.stopped.nonzero()[0])
        [0] [2] [1]
        [1] [0] [2]
        [2] [1] [0]
    """
    for number in range(count):
        report(progress, TASK, number / count, f"fold {number + 1} of {count}")
        stopped = (fold == (number + 1) % count) if stop else np.zeros(len(fold), np.bool_)
        yield Fold(number, fold == number, (fold != number) & ~stopped, stopped)
    report(progress, TASK, 1.0)


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
    guesses, features = model or TreeGuess(), splits[0].features
    task = ClickTask.of(features, statistics[0], bias, categorical=splits[0].categorical)
    train, elsewhere = np.empty(len(features)), np.zeros(splits[1].n_documents)
    for own, scores in _cross_fit(task, guesses, progress):
        documents = np.flatnonzero(statistics[0].per_document(own))
        train[documents] = logistic(scores(features[documents]))
        elsewhere += logistic(scores(splits[1].features)) / FOLDS
    quality = calibrate(train[task.model.cells.documents], task.model)
    return RelevanceGuess(train, elsewhere, str(guesses), quality.gain, quality)


def cross_fit_relevance(
    features: Float32,
    statistics: Statistics,
    bias: Bias,
    model: GuessModel,
    *,
    categorical: tuple[int, ...] = (),
    progress: Progress | None = None,
) -> tuple[Float64, Calibration]:
    """Guess the relevance of documents from features, such that no query's guess depends on its own clicks.

    Args:
        features: documents × features; NaN where they are missing.
        statistics: the clicks.
        bias: how users click.
        model: what guesses.
        categorical: the features that are categories; see `Split`.
        progress: called before every fold.

    Returns:
        the guesses, and how well they explain the clicks, which they did not see.
    """
    task = ClickTask.of(features, statistics, bias, categorical=categorical)
    result = np.empty(len(features))
    for own, scores in _cross_fit(task, model, progress):
        documents = np.flatnonzero(statistics.per_document(own))
        result[documents] = logistic(scores(features[documents]))
    return result, calibrate(result[task.model.cells.documents], task.model)


def _cross_fit(
    task: ClickTask, model: GuessModel, progress: Progress | None
) -> Iterator[tuple[NDArray[np.bool_], Scorer]]:
    """The queries of each fold, and a model fitted to three other folds and stopped on the fourth."""
    # Fewer queries than folds cannot be cross-fitted, and get one relevance for all documents.
    few = task.n_queries < FOLDS
    fold = folds(task.n_queries)
    for number in range(FOLDS) if few else ():
        yield fold == number, ConstantGuess().fit(task, task, np.random.default_rng(number))
    for turn in () if few else each_fold(fold, progress=progress):
        parts = task.of_queries(turn.grown), task.of_queries(turn.stopped)
        yield turn.own, model.fit(*parts, np.random.default_rng(turn.number))


def guess_by_network(
    splits: tuple[Split, Split],
    statistics: tuple[Statistics, Statistics],
    bias: Bias,
    start: Model,
    *,
    progress: Progress | None = None,
) -> RelevanceGuess:
    """Guess relevance by networks on the likelihood of clicks, cross-fitted by query.

        m_d = σ(s_d + u_q)

    The scores s of a training query come from a network that never saw its clicks: it was trained on three of
    the other four folds and stopped on the fourth. Held-out queries get the mean of all five scores. The
    effect u_q is the exception: one number per query that is fitted to the query's own clicks. Queries differ
    in how relevant their documents are, and a guess without it would let documents of a poor query that were
    never shown look better than those that were. It costs the exact unbiasedness of weights: their bias is of
    the order of one over the number of times that the query came.

    Args:
        splits: training and held-out queries; their labels are not read.
        statistics: the clicks on each split.
        bias: how users click.
        start: the model to start from; it has the features of the documents, and learns in steps.
        progress: called before every fold.
    """
    train, held_out = (
        ClickTask.of(split.features, part, bias, variance=QUERY_VARIANCE, shown=False)
        for split, part in zip(splits, statistics, strict=True)
    )
    first = as_logits(start, train)
    scores, elsewhere = np.zeros(len(train)), np.zeros(len(held_out))
    for turn in each_fold(folds(train.n_queries), progress=progress):
        grown, stopped = train.of_queries(turn.grown), train.of_queries(turn.stopped)
        model = first
        if grown.model.cells.displays.any() and stopped.model.cells.displays.any():
            rng = np.random.default_rng(turn.number)
            model = train_network_on_clicks(
                first, grown, held_out=stopped, settings=GUESS_SETTINGS, rng=rng
            ).model
        own = turn.own[train.queries]
        scores[own] = model.scores(train.features[own])
        elsewhere += model.scores(held_out.features) / FOLDS
    return RelevanceGuess(
        train.model.relevance(scores),
        held_out.model.relevance(elsewhere),
        NETWORK_GUESS,
        train.gain(scores),
    )


def as_logits(start: Model, task: ClickTask) -> Model:
    """A policy as a first guess of relevance: its order, with scores that are close to each other."""
    spread = segment_std(start.scores(task.features), task.model.cells.query_offsets)
    mean = float(spread.mean())
    return start.times(FIRST_SPREAD / mean) if mean > 0.0 else start  # type: ignore[attr-defined]
