"""Networks on the likelihood of clicks: the level of a query, the gradient, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop.models import Adam, Linear
from rankloop.objectives import ClickCounts, click_likelihood
from rankloop.ragged import offsets_of, segment_index, segment_sum
from rankloop.training import ClickTask, Settings, train_network_on_clicks
from rankloop.types import Bias, Float64, Model

BIAS = Bias(alpha=[0.7, 0.5], beta=[0.2, 0.1], examination=[1.0, 0.8])
QUERIES, DOCS, SHOWN = 150, 5, 30
TEACHER = np.array([2.0, -1.0, 0.0])


def drawn(seed: int) -> tuple[ClickTask, Float64, Float64]:
    """Clicks on documents whose relevance is ``σ(teacher · features + level of the query)``."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(QUERIES * DOCS, 3)).astype(np.float32)
    offsets = offsets_of(np.full(QUERIES, DOCS))
    levels = 1.5 * rng.normal(size=QUERIES)
    relevance = 1.0 / (1.0 + np.exp(-(features @ TEACHER + levels[segment_index(offsets)])))
    displays = np.full((len(features), 2), SHOWN)
    clicks = rng.binomial(displays, np.outer(relevance, BIAS.alpha) + BIAS.beta)
    counts = ClickCounts(
        2 * np.arange(len(features) + 1),
        np.tile([0, 1], len(features)),
        displays.ravel().astype(np.float64),
        clicks.ravel().astype(np.float64),
    )
    return ClickTask(features, offsets, counts, BIAS), relevance, levels


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


def test_levels_are_the_most_likely_ones() -> None:
    task, _, _ = drawn(0)
    scores = task.features @ TEACHER
    levels = task.levels(scores)
    found = click_likelihood(scores + levels[segment_index(task.offsets)], task.counts, BIAS)
    slopes = segment_sum(found.gradient, task.offsets) - task.precision * levels
    np.testing.assert_allclose(slopes, 0.0, atol=1e-4)


def test_a_query_without_displays_has_level_zero() -> None:
    counts = ClickCounts(np.array([0, 0, 0]), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    task = ClickTask(np.zeros((2, 3), np.float32), np.array([0, 2]), counts, BIAS)
    np.testing.assert_array_equal(task.levels(np.array([1.0, 2.0])), [0.0])
    np.testing.assert_array_equal(task.displays, [0.0])


def test_levels_make_relevance_comparable_between_queries() -> None:
    """Scores alone cannot know the level of a query: with it, relevance is known far better."""
    task, relevance, levels = drawn(0)
    scores = task.features @ TEACHER
    assert np.corrcoef(task.levels(scores), levels)[0, 1] > 0.95
    without = 1.0 / (1.0 + np.exp(-scores))
    assert np.mean((task.relevance(scores) - relevance) ** 2) < 0.1 * np.mean((without - relevance) ** 2)


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
