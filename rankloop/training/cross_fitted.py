"""Networks on the likelihood of clicks, each without a fold of the queries: a policy and its evidence.

Five networks start from a policy. Each learns from the clicks on four fifths of the queries and stops on the
rest; the mean of their scores is the new policy. A query's score from the network that did not learn from it
is what clicks on this query can judge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import RankloopError
from rankloop.models import mean_model
from rankloop.models.history import Epoch, Settings
from rankloop.progress import Progress
from rankloop.relevance.click_model import QUERY_VARIANCE
from rankloop.relevance.cross_fit import NETWORK_GUESS, RelevanceGuess, as_logits, each_fold, folds
from rankloop.relevance.guesses import ClickTask, train_network_on_clicks
from rankloop.statistics import Statistics
from rankloop.training._learn import peakedness
from rankloop.types import Bias, Float32, Float64, Model


@dataclass(frozen=True, eq=False)
class CrossFittedPolicy:
    """A policy that was learned from clicks, and what judges it.

    Attributes:
        model: the mean of the networks, as a peaked policy.
        scores: float64, documents; the score of each by the network that did not learn from its query.
        relevance: float64, documents; what these networks guess, with the effects of queries.
        gain: how much more likely the clicks are by these guesses than without scores, in nats per display.
        history: the epochs of all networks, one after the other.
    """

    model: Model
    scores: Float64
    relevance: Float64
    gain: float
    history: tuple[Epoch, ...]

    def guess(self, train: int) -> RelevanceGuess:
        """The guess for the training queries, which own the first documents, and for the others."""
        return RelevanceGuess(self.relevance[:train], self.relevance[train:], NETWORK_GUESS, self.gain)


def learn_cross_fitted(
    start: Model,
    features: Float32,
    statistics: Statistics,
    bias: Bias,
    *,
    settings: Settings,
    seed: int = 0,
    progress: Progress | None = None,
) -> CrossFittedPolicy:
    """Learn a policy from the clicks on all queries.

    Args:
        start: the policy that every network starts from.
        features: documents × features.
        statistics: the clicks on these documents.
        bias: how users click.
        settings: the optimiser of the networks, and when they stop.
        seed: of the order of queries.
        progress: called before every fold.
    """
    if not hasattr(start, "learner"):
        raise RankloopError(
            f"a {start.kind} model does not learn in steps, so a policy cannot be learned from it: choose "
            "another starting policy"
        )
    task = ClickTask.of(features, statistics, bias, variance=QUERY_VARIANCE, shown=False)
    first = as_logits(start, task)
    scores, models = np.zeros(len(task)), list[Model]()
    epochs: list[Epoch] = []
    for turn in each_fold(folds(task.n_queries), stop=False, progress=progress):
        grown, stopped = task.of_queries(turn.grown), task.of_queries(turn.own)
        model = first
        if grown.model.cells.displays.any() and stopped.model.cells.displays.any():
            rng = np.random.default_rng([seed, turn.number])
            trained = train_network_on_clicks(first, grown, held_out=stopped, settings=settings, rng=rng)
            model = trained.model
            epochs += trained.history
        own = turn.own[task.queries]
        scores[own] = model.scores(task.features[own])
        models.append(model)
    mean = mean_model(models)
    factor = peakedness(mean.scores(task.features), statistics.offsets)
    policy = mean.times(factor)  # type: ignore[attr-defined]
    return CrossFittedPolicy(
        policy, factor * scores, task.model.relevance(scores), task.gain(scores), tuple(epochs)
    )
