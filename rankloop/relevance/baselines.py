"""Baselines: what a team would train on clicks first. Each is biased in a known way."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from rankloop.models.history import History, Settings, Training
from rankloop.models.lightgbm import EarlyStopping, grow
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress
from rankloop.relevance.guesses import ClickTask
from rankloop.relevance.newton import Look, maximise
from rankloop.types import Float64, Int64, Learner, Model

# Examination below this is not divided by: a click that is worth a hundred says more about chance.
LEAST_EXAMINATION = 0.01
# Queries per step of the relevance tower.
BATCH = 8
# The precision of the position tower's prior; without one, a position without clicks has no maximum.
RIDGE = 1e-3
STEPS, CLOSE = 25, 1e-9


def train_trees_on_rates(
    task: ClickTask,
    held_out: ClickTask,
    spec: LightGBMSpec,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Grow pointwise trees on clicks per display, by squared error; every display counts the same.

    With the objective ``click-rates`` clicks are taken as they are: what stood high looks relevant. With
    ``ips`` a click at rank k counts 1 / P(E | k): that removes position bias, not trust in high ranks.

    Args:
        task: the documents to train on.
        held_out: the documents to stop on.
        spec: the number and the size of the trees, the objective, and when to stop.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep_if_interrupted: whether Ctrl-C ends training with the best trees so far.
    """
    corrected = spec.objective == "ips"
    (weights, rates), (other_weights, other_rates) = (_rates(each, corrected) for each in (task, held_out))

    def derivatives(scores: Float64) -> tuple[Float64, Float64]:
        return weights * (rates - scores), weights

    def value(scores: Float64) -> float:
        return -float(other_weights @ (other_rates - scores) ** 2) / max(float(other_weights.sum()), 1.0)

    return grow(
        task.features,
        derivatives,
        spec,
        EarlyStopping(held_out.features, value, spec.patience),
        rng,
        progress,
        keep=keep_if_interrupted,
        start=float(np.average(rates, weights=weights)),
        categorical=task.categorical,
    )


def _rates(task: ClickTask, corrected: bool) -> tuple[Float64, Float64]:
    """Displays, and clicks per display, of each document; corrected for examination or as they are."""
    cells = task.model.cells
    examination = task.model.bias.examination[cells.position] if corrected else np.ones(len(cells.position))
    displays = cells.by_document(cells.displays)
    return displays, cells.by_document(cells.clicks / np.maximum(examination, LEAST_EXAMINATION)) / displays


def train_two_towers(
    start: Model,
    task: ClickTask,
    *,
    held_out: ClickTask,
    settings: Settings,
    rng: np.random.Generator,
    progress: Progress | None = None,
    keep_if_interrupted: bool = False,
) -> Training:
    """Train an additive two-tower model, which needs no bias: it learns a number per position beside scores.

        P(click on d at k) = σ(s_d + t_k)

    The relevance tower is the model; the position tower is at its maximum, given the scores, after every
    epoch. What the ranker that logged knew and the features do not say ends up in t: where good documents
    stand high, the towers share what both could explain, and the scores are confounded.

    Reference:
        P. Hager, O. Zoeter, M. de Rijke, "Unidentified and confounded? Understanding two-tower models for
        unbiased learning to rank", ICTIR 2025.

    Args:
        start: the network to start from; it is not changed.
        task: the clicks to learn from.
        held_out: the clicks to stop on.
        settings: the optimiser, and when to stop.
        rng: draws the order of the queries.
        progress: called after every epoch.
        keep_if_interrupted: whether Ctrl-C ends training with the best epoch so far.
    """
    learner: Learner = start.learner(settings.optimiser)  # type: ignore[attr-defined]
    history = History(progress, settings.patience, settings.least_gain, most=settings.epochs)
    queries = np.unique(task.model.cells.queries)
    positions = np.zeros(task.model.cells.positions)
    passes, best = settings.passes(len(queries) // BATCH), start

    def value() -> float:
        scores = learner.scores(held_out.features)
        return float(_likelihood(held_out, scores, positions)) / held_out.model.displays

    history.add(value(), convincing=False)
    try:
        for _ in range(settings.epochs):
            positions = position_tower(task, learner.scores(task.features), positions)
            for _ in range(passes):
                _run_epoch(learner, task, rng.permutation(queries), positions)
            if history.add(value()):
                best = learner.model()
            if history.exhausted:
                break
    except KeyboardInterrupt:
        if not keep_if_interrupted or best is start:
            raise
        return Training(best, tuple(history.epochs), interrupted=True)
    return Training(best, tuple(history.epochs))


def _run_epoch(learner: Learner, task: ClickTask, order: Int64, positions: Float64) -> None:
    cells, offsets = task.model.cells, task.model.cells.query_offsets
    scale = len(order) / (task.model.displays * BATCH)
    for first in range(0, len(order), BATCH):
        queries = order[first : first + BATCH]
        rows = np.concatenate([np.arange(offsets[query], offsets[query + 1]) for query in queries])
        part, features = cells.select(rows), task.features[rows]
        chances = expit(learner.scores(features)[part.document_of] + positions[part.position])
        learner.update(features, scale * part.by_document(part.clicks - part.displays * chances))


def _likelihood(task: ClickTask, scores: Float64, positions: Float64) -> float:
    cells = task.model.cells
    logits = scores[cells.document_of] + positions[cells.position]
    return float((cells.clicks * logits - cells.displays * np.logaddexp(0.0, logits)).sum())


def position_tower(task: ClickTask, scores: Float64, positions: Float64) -> Float64:
    """The position tower that explains the clicks best, given the scores, from the last one."""
    cells = task.model.cells

    def look(at: Float64) -> Look[Float64]:
        chances = expit(scores[cells.document_of] + at[cells.position])
        gradient = cells.by_rank(cells.clicks - cells.displays * chances) - RIDGE * at
        information = cells.by_rank(cells.displays * chances * (1.0 - chances)) + RIDGE
        value = _likelihood(task, scores, at) - 0.5 * RIDGE * float(at @ at)
        return Look(value, lambda length: at + length * gradient / information)

    return maximise(positions, look, steps=STEPS, tolerance=CLOSE).at
