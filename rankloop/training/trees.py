"""The training of boosted trees: on pairs of documents, on the exact expected reward, or on clicks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankloop import rank_weights
from rankloop.errors import RankloopError
from rankloop.models.lightgbm import Derivatives, EarlyStopping, boost
from rankloop.models.specs import LightGBMSpec
from rankloop.objectives import ClickCounts, click_likelihood, lambda_rank
from rankloop.objectives.click_likelihood import mean_score
from rankloop.progress import Progress
from rankloop.training.history import History, Training
from rankloop.training.task import Task
from rankloop.types import Bias, Float32, Float64

# The curvature is 0 for a document whose rank changes nothing; LightGBM divides by sums of curvatures.
LEAST_CURVATURE = 1e-4
# Pairs count down to this rank, whatever the measure that is reported: what lower ranks teach helps the top.
# It is where LightGBM's own lambdarank stops.
TRAINED_RANKS = 30


def train_trees(
    task: Task,
    spec: LightGBMSpec,
    *,
    held_out: Task | None,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow boosted trees on weighted documents.

    Args:
        task: the objective to maximise.
        spec: the number and the size of the trees, what they are grown on, and when to stop.
        held_out: the objective to stop on; None to keep all trees.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    if spec.objective == "click-likelihood":
        raise RankloopError(
            "lightgbm(objective=click-likelihood) is grown on the clicks of a log by rank, which "
            "`rankloop.fit` has: choose lambdarank or expected-reward"
        )
    pairs = spec.objective == "lambdarank"
    deep = rank_weights.dcg(max(len(task.rank_weights), TRAINED_RANKS))

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        found = lambda_rank(scores, task.offsets, task.doc_weights, deep) if pairs else task.reward(scores)
        return found.gradient, found.curvature + LEAST_CURVATURE

    stopping = None
    if held_out is not None:
        value = held_out.sorted_value if pairs else held_out.value
        stopping = EarlyStopping(held_out.features, value, spec.patience)
    return _grow(task.features, derivatives, spec, stopping, rng, progress, keep=keep_if_interrupted)


def train_trees_on_clicks(
    parts: tuple[tuple[Float32, ClickCounts], tuple[Float32, ClickCounts]],
    bias: Bias,
    spec: LightGBMSpec,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow boosted trees on the likelihood of clicks by rank: the logistic function of a score is relevance.

    Args:
        parts: features and counts of the documents to train on, and of those to stop on.
        bias: how users click.
        spec: the number and the size of the trees, and when to stop.
        rng: draws the seed of LightGBM.
        progress: told of every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    (features, counts), (held_out, held_out_counts) = parts
    displays = max(float(held_out_counts.displays.sum()), 1.0)

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        found = click_likelihood(scores, counts, bias)
        return found.gradient, found.curvature + LEAST_CURVATURE

    stopping = EarlyStopping(
        held_out,
        lambda scores: click_likelihood(scores, held_out_counts, bias).value / displays,
        spec.patience,
    )
    start = mean_score(counts, bias)
    return _grow(features, derivatives, spec, stopping, rng, progress, keep=keep_if_interrupted, start=start)


def _grow(
    features: Float32,
    derivatives: Derivatives,
    spec: LightGBMSpec,
    stopping: EarlyStopping | None,
    rng: np.random.Generator,
    progress: Progress | None,
    *,
    keep: bool,
    start: float = 0.0,
) -> Training:
    history = History(progress, patience=spec.rounds, unit="tree", most=spec.rounds)
    history.add(
        stopping.value(np.full(len(stopping.features), start)) if stopping is not None else float("nan")
    )
    interruptions: list[bool] = []
    on_interrupt: Callable[[], object] | None = (lambda: interruptions.append(True)) if keep else None
    model = boost(
        features,
        derivatives,
        rounds=spec.rounds,
        held_out=stopping,
        parameters=spec.parameters,
        seed=int(rng.integers(2**31)),
        watch=history.add,
        start=start,
        on_interrupt=on_interrupt,
    )
    return Training(model, tuple(history.epochs), interrupted=bool(interruptions))
