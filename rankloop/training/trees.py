"""The training of boosted trees: on pairs of documents, on the exact expected reward, or on clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rankloop import rank_weights
from rankloop.errors import RankloopError
from rankloop.models.lightgbm import Derivatives, EarlyStopping, boost
from rankloop.models.specs import LightGBMSpec
from rankloop.objectives import lambda_rank
from rankloop.objectives.click_likelihood import mean_score
from rankloop.progress import Progress
from rankloop.training.history import History, Training
from rankloop.training.query_effects import ClicksWithQueryEffects
from rankloop.training.shown_documents import ShownDocuments
from rankloop.training.task import Task
from rankloop.types import Bias, Float32, Float64

# The curvature is 0 for a document whose rank changes nothing; LightGBM divides by sums of curvatures.
LEAST_CURVATURE = 1e-4
# The variance of the effects of queries on the log-odds of relevance, if trees only rank within queries: a
# wide prior. 0.25, 1, 4 and 16 were tried on a log of 5,000 queries that came once; 4 was the best.
QUERY_VARIANCE = 4.0
# The information about its score that a leaf needs for half a step: leaves with few clicks move little. On
# three logs of 3,000 queries that came once, NDCG rose steadily from 0 to 50 and hardly beyond.
LEAF_INFORMATION = 50.0
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
    parts: tuple[ShownDocuments, ShownDocuments],
    bias: Bias,
    spec: LightGBMSpec,
    *,
    query_variance: float = 0.0,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow boosted trees on the likelihood of clicks by rank: the logistic function of a score is relevance.

    Args:
        parts: the documents to train on, and those to stop on.
        bias: how users click.
        spec: the number and the size of the trees, and when to stop.
        query_variance: the variance of effects of queries, which are part of the likelihood but not of the
            model (`ClicksWithQueryEffects`): for trees that only rank within queries. 0 for no effects.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    clicks, held_out = (ClicksWithQueryEffects(part, bias, query_variance) for part in parts)

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        gradient, curvature = clicks.derivatives(scores)
        return gradient, curvature + LEAST_CURVATURE

    stopping = EarlyStopping(parts[1].features, held_out.value, spec.patience)
    start = mean_score(parts[0].counts, bias)
    return _grow(
        parts[0].features,
        derivatives,
        spec,
        stopping,
        rng,
        progress,
        keep=keep_if_interrupted,
        start=start,
        parameters={"lambda_l2": LEAF_INFORMATION},
    )


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
    parameters: Mapping[str, float] | None = None,
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
        parameters={**spec.parameters, **(parameters or {})},
        seed=int(rng.integers(2**31)),
        watch=history.add,
        start=start,
        on_interrupt=on_interrupt,
    )
    return Training(model, tuple(history.epochs), interrupted=bool(interruptions))
