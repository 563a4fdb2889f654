"""The training of networks on the likelihood of clicks, with one level of relevance per query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.kernels.click_epoch import levels_of_queries, run_click_epoch
from rankloop.models.mlp import Network, NetworkLearner
from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.progress import Progress
from rankloop.ragged import for_segments, segment_index, segment_sum
from rankloop.training.history import History, Training
from rankloop.training.settings import Settings
from rankloop.training.task import diverged, in_parts
from rankloop.types import Bias, Float32, Float64, Int64, Learner, Model

# Levels of queries are normal around 0 with this precision before any click is seen: queries may differ in
# relevance by a standard deviation of 1.8 on the logistic scale, from 14 % to 86 %.
LEVEL_PRECISION = 0.3
# Newton's method for one number; it nearly always ends before.
NEWTON_STEPS = 30


@dataclass(frozen=True, eq=False)
class ClickTask:
    """Clicks on documents by rank, as something to learn from.

        Σ_q max_b Σ_d∈q log P(clicks on d | α_k σ(s_d + b) + β_k) − ½ · precision · b²

    Attributes:
        features: float32, documents × features.
        offsets: int64, queries + 1.
        counts: displays and clicks of every document by rank.
        bias: α and β by rank.
        precision: of the levels b of queries around 0.
    """

    features: Float32
    offsets: Int64
    counts: ClickCounts
    bias: Bias
    precision: float = LEVEL_PRECISION

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def displays(self) -> Float64:
        """The number of displays per query."""
        return np.diff(np.append(0.0, np.cumsum(self.counts.displays))[self.counts.cells[self.offsets]])

    def levels(self, scores: Float64) -> Float64:
        """Find the most likely level of every query, given scores; 0 for a query without displays."""
        levels = np.zeros(self.n_queries)
        counts, bias = self.counts, self.bias

        def kernel(first: int, last: int, *_: object) -> None:
            levels_of_queries(
                first,
                last,
                self.offsets,
                scores,
                counts.cells,
                counts.ranks,
                counts.displays,
                counts.clicks,
                bias.alpha,
                bias.beta,
                self.precision,
                NEWTON_STEPS,
                levels,
            )

        for_segments(kernel, self.offsets)
        return levels

    def relevance(self, scores: Float64) -> Float64:
        """Turn scores into relevance: ``σ(s_d + b_q)`` with the most likely level of every query."""
        return logistic(scores + self.levels(scores)[segment_index(self.offsets)])

    def values(self, scores: Float64) -> Float64:
        """Compute the objective per query."""
        levels = self.levels(scores)
        found = click_likelihood(scores + levels[segment_index(self.offsets)], self.counts, self.bias)
        result: Float64 = segment_sum(found.values, self.offsets) - 0.5 * self.precision * levels**2
        return result


def train_network_on_clicks(
    start: Model,
    task: ClickTask,
    *,
    held_out: ClickTask | None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Training:
    """Train a model that learns in steps on the likelihood of clicks: relevance is ``σ(score + level)``.

    The epoch with the highest likelihood of the held-out clicks is kept; the start counts as an epoch.

    Args:
        start: the model to start from; it is not changed.
        task: the clicks to learn from.
        held_out: the clicks to stop on; None to keep the last epoch.
        settings: the optimiser, and when to stop; None for the defaults. There is one query per step.
        rng: draws the order of the queries.
        progress: called after every epoch.
    """
    chosen = settings or Settings()
    learner: Learner = start.learner(chosen.optimiser)  # type: ignore[attr-defined]
    history = History(progress, chosen.patience, chosen.least_gain, most=chosen.epochs)
    best = start
    shown = np.flatnonzero(task.displays > 0.0)
    levels = np.zeros(task.n_queries)
    history.add(_value(held_out, start))
    for _ in range(chosen.epochs):
        _run_epoch(learner, task, rng.permutation(shown), levels)
        if history.add(_value(held_out, learner)):
            best = learner.model()
        if history.exhausted:
            break
    return Training(best, tuple(history.epochs))


def logistic(scores: Float64) -> Float64:
    """σ, which neither overflows nor returns 0 or 1."""
    result: Float64 = 1.0 / (1.0 + np.exp(-np.clip(scores, -30.0, 30.0)))
    return result


def _value(held_out: ClickTask | None, scorer: Model | Learner) -> float:
    """The log-likelihood per held-out display."""
    if held_out is None:
        return float("nan")
    displays = max(float(held_out.counts.displays.sum()), 1.0)
    return float(held_out.values(scorer.scores(held_out.features)).sum()) / displays


def _run_epoch(learner: Learner, task: ClickTask, order: Int64, levels: Float64) -> None:
    # Steps do not depend on how often queries came: an average query has a gradient as of one display.
    scale = len(order) / max(float(task.counts.displays.sum()), 1.0)
    if isinstance(learner, NetworkLearner):
        _run_compiled_epoch(learner, task, order, levels, scale)
        return
    for query in order:
        rows = np.arange(task.offsets[query], task.offsets[query + 1])
        features, counts = task.features[rows], task.counts.select(rows)
        part = ClickTask(features, np.array([0, len(rows)]), counts, task.bias, task.precision)
        scores = learner.scores(features)
        found = click_likelihood(scores + part.levels(scores)[0], counts, task.bias)
        learner.update(features, scale * found.gradient)


def _run_compiled_epoch(
    learner: NetworkLearner, task: ClickTask, order: Int64, levels: Float64, scale: float
) -> None:
    network: Network = learner.start
    for part in in_parts(order):
        learner.state.step, finite = run_click_epoch(
            part,
            task.offsets,
            task.features,
            task.counts.cells,
            task.counts.ranks,
            task.counts.displays,
            task.counts.clicks,
            task.bias.alpha,
            task.bias.beta,
            task.precision,
            levels,
            scale,
            network.widths,
            network.activation_code,
            learner.parameters,
            learner.optimiser.code,
            learner.optimiser.constants,
            learner.state.first_moment,
            learner.state.second_moment,
            learner.state.step,
        )
        if not finite:
            raise diverged()
