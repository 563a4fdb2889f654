"""Guesses of relevance by networks: cheap enough to be made again at every intervention."""

from __future__ import annotations

import numpy as np

from rankloop.models import Adam
from rankloop.objectives import ClickCounts
from rankloop.progress import Progress, report
from rankloop.ragged import offsets_of, segment_index, segment_std
from rankloop.statistics import Statistics
from rankloop.training.click_network import ClickTask, train_network_on_clicks
from rankloop.training.relevance_guess import FOLDS, RelevanceGuess, folds
from rankloop.training.settings import Settings
from rankloop.types import Bias, Float64, Int64, Model, Split

GUESS_SETTINGS = Settings(Adam(rate=0.003), epochs=15, patience=3)
# Scores of policies are far apart, because policies are peaked. As logits of relevance they start closer.
FIRST_SPREAD = 0.7


def guess_by_network(
    splits: tuple[Split, Split],
    statistics: tuple[Statistics, Statistics],
    bias: Bias,
    start: Model,
    *,
    progress: Progress | None = None,
) -> RelevanceGuess:
    """Guess relevance by networks on the likelihood of clicks, cross-fitted by query.

        m_d = σ(s_d + b_q)

    The scores s of a training query come from a network that never saw its clicks: it was trained on three of
    the other four folds and stopped on the fourth. Held-out queries get the mean of all five scores. The
    level b_q is the exception: one number per query that is fitted to the query's own clicks. Queries differ
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
    tasks = tuple(
        ClickTask(split.features, split.offsets, ClickCounts.of(part), bias)
        for split, part in zip(splits, statistics, strict=True)
    )
    train, held_out = tasks
    first = _as_logits(start, train)
    scores, elsewhere = np.zeros(splits[0].n_docs), np.zeros(splits[1].n_docs)
    fold = folds(train.n_queries)
    for number in range(FOLDS):
        report(progress, "guess relevance", number / FOLDS, f"fold {number + 1} of {FOLDS}")
        stop = (number + 1) % FOLDS
        grown, stopped = (
            _select(train, np.flatnonzero(where))
            for where in ((fold != number) & (fold != stop), fold == stop)
        )
        model = first
        if grown.counts.displays.any() and stopped.counts.displays.any():
            rng = np.random.default_rng(number)
            model = train_network_on_clicks(
                first, grown, held_out=stopped, settings=GUESS_SETTINGS, rng=rng
            ).model
        own = (fold == number)[segment_index(train.offsets)]
        scores[own] = model.scores(train.features[own])
        elsewhere += model.scores(held_out.features) / FOLDS
    report(progress, "guess relevance", 1.0)
    return RelevanceGuess(
        train.relevance(scores), held_out.relevance(elsewhere), "network", _gain(train, scores)
    )


def _as_logits(start: Model, task: ClickTask) -> Model:
    spread = segment_std(start.scores(task.features), task.offsets)
    mean = float(spread.mean())
    return start.times(FIRST_SPREAD / mean) if mean > 0.0 else start  # type: ignore[attr-defined]


def _select(task: ClickTask, queries: Int64) -> ClickTask:
    inside = np.zeros(task.n_queries, np.bool_)
    inside[queries] = True
    items = np.flatnonzero(inside[segment_index(task.offsets)])
    offsets = offsets_of(np.diff(task.offsets)[queries])
    return ClickTask(task.features[items], offsets, task.counts.select(items), task.bias, task.precision)


def _gain(task: ClickTask, scores: Float64) -> float:
    """How much more likely the clicks are than by a level per query alone, in nats per display."""
    displays = max(float(task.counts.displays.sum()), 1.0)
    return float((task.values(scores) - task.values(np.zeros_like(scores))).sum()) / displays
