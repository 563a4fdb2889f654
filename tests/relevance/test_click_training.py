"""Networks on the likelihood of clicks: the effect of a query, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop.models import Adam, Linear
from rankloop.relevance import ClickModel, ClickTask, train_network_on_clicks
from rankloop.relevance.click_model import QUERY_VARIANCE
from rankloop.statistics import CellTable
from rankloop.training import Settings
from rankloop.types import Bias, Float64, Model

BIAS = Bias(alpha=[0.7, 0.5], beta=[0.2, 0.1], examination=[1.0, 0.8])
QUERIES, DOCS, SHOWN = 150, 5, 30
TEACHER = np.array([2.0, -1.0, 0.0])


def drawn(seed: int) -> tuple[ClickTask, Float64, Float64]:
    """Clicks on documents whose relevance is ``σ(teacher · features + effect of the query)``."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(QUERIES * DOCS, 3)).astype(np.float32)
    queries = np.repeat(np.arange(QUERIES), DOCS)
    effects = 1.5 * rng.normal(size=QUERIES)
    relevance = 1.0 / (1.0 + np.exp(-(features @ TEACHER + effects[queries])))
    displays = np.full((len(features), 2), SHOWN)
    clicks = rng.binomial(displays, np.outer(relevance, BIAS.alpha) + BIAS.beta)
    counts = CellTable.of_cells(
        2 * np.arange(len(features) + 1),
        np.tile([0, 1], len(features)),
        displays.ravel().astype(np.float64),
        clicks.ravel().astype(np.float64),
        queries,
    )
    return ClickTask(features, ClickModel(counts, BIAS, QUERY_VARIANCE)), relevance, effects


class Stepping:
    """A model whose learner is not a `NetworkLearner`: training takes its steps from Python."""

    def __init__(self, model: Any) -> None:
        self.model_ = model

    def learner(self, optimiser: Adam) -> Any:
        inner = self.model_.learner(optimiser)

        class Learner:
            scores, update, model = inner.scores, inner.update, inner.model

        return Learner()

    def scores(self, features: Any) -> Any:
        return self.model_.scores(features)


def test_effects_make_relevance_comparable_between_queries() -> None:
    """Scores alone cannot know the effect of a query: with it, relevance is known far better."""
    task, relevance, effects = drawn(0)
    scores = task.features @ TEACHER
    assert np.corrcoef(task.model.effects(scores), effects)[0, 1] > 0.95
    without = 1.0 / (1.0 + np.exp(-scores))
    better = np.mean((task.model.relevance(scores) - relevance) ** 2)
    assert better < 0.1 * np.mean((without - relevance) ** 2)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_teacher_is_found(compiled: bool) -> None:
    task, _, _ = drawn(0)
    held_out, _, _ = drawn(1)
    start: Model = Linear(3, np.zeros(4, np.float32))
    given: Any = start if compiled else Stepping(start)
    settings = Settings(Adam(rate=0.02), epochs=20 if compiled else 6)
    result = train_network_on_clicks(
        given, task, held_out=held_out, settings=settings, rng=np.random.default_rng(0)
    )
    assert result.best.held_out > result.history[0].held_out
    weights = result.model.parameters[:3]  # type: ignore[attr-defined]
    # The standard error of each is below 0.1, and Adam stays within its rate.
    np.testing.assert_allclose(weights, TEACHER, atol=0.3)


def test_a_start_that_cannot_be_beaten_is_kept() -> None:
    task, _, _ = drawn(0)
    start = Linear(3, np.append(TEACHER, 0.0).astype(np.float32))
    settings = Settings(Adam(rate=0.5), epochs=2)  # far too fast
    result = train_network_on_clicks(
        start, task, held_out=drawn(1)[0], settings=settings, rng=np.random.default_rng(0)
    )
    assert result.model is start
