"""Baselines are what they say: biased where they are, and right where nothing is biased."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop.models import Adam, LightGBMModel, Linear
from rankloop.models.specs import LightGBMSpec, TreeObjective
from rankloop.relevance import ClickModel, ClickTask
from rankloop.relevance.baselines import position_tower, train_trees_on_rates, train_two_towers
from rankloop.statistics import CellTable
from rankloop.training import Settings
from rankloop.types import Bias, Float64

POSITION_BIAS = Bias(alpha=[0.8, 0.2], beta=[0.0, 0.0], examination=[0.8, 0.2])
GROUPS, COPIES, SHOWN = 4, 30, 100.0


def grouped(relevance: Float64, position: Any) -> ClickTask:
    """Thirty documents per group, whose only feature is their group, shown at one position of the group.

    Clicks are as often as expected: only the biases of a learner remain.
    """
    group = np.repeat(np.arange(GROUPS), COPIES)
    at = np.asarray(position)[group]
    clicks = SHOWN * POSITION_BIAS.alpha[at] * relevance[group]
    cells = CellTable.of_cells(
        np.arange(len(group) + 1), at, np.full(len(group), SHOWN), clicks, np.arange(len(group)) // 4
    )
    return ClickTask(group[:, None].astype(np.float32), ClickModel(cells, POSITION_BIAS))


@pytest.mark.parametrize("objective", ["click-rates", "ips"])
def test_trees_on_rates_learn_clicks_and_with_ips_relevance(objective: TreeObjective) -> None:
    relevance, position = np.array([0.2, 0.4, 0.6, 0.8]), [0, 1, 0, 1]
    task = grouped(relevance, position)
    spec = LightGBMSpec(rounds=150, rate=0.2, min_documents=5, subsample=1.0, objective=objective)
    model = train_trees_on_rates(task, task, spec, rng=np.random.default_rng(0)).model
    assert isinstance(model, LightGBMModel)
    rates = relevance * POSITION_BIAS.alpha[position]
    expected = relevance if objective == "ips" else rates
    found = model.scores(np.arange(GROUPS, dtype=np.float32)[:, None])
    # Scores are relative to the mean, from which trees start.
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=0.01)


def tower_task(seed: int, *, known: float) -> ClickTask:
    """Clicks by σ(s + t): the higher `known`, the more the position follows what no feature says."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(2_000, 3)).astype(np.float32)
    hidden = rng.normal(size=2_000)
    order = known * hidden + rng.normal(size=2_000)
    position = (order < 0).astype(np.int64)
    logits = features @ np.array([1.0, -1.0, 0.0]) + known * hidden + np.array([0.5, -1.0])[position]
    clicks = rng.binomial(20, 1.0 / (1.0 + np.exp(-logits)))
    cells = CellTable.of_cells(
        np.arange(2_001), position, np.full(2_000, 20.0), clicks.astype(np.float64), np.arange(2_000) // 5
    )
    return ClickTask(features, ClickModel(cells, POSITION_BIAS))


def test_two_towers_find_scores_where_positions_say_nothing_else() -> None:
    settings = Settings(Adam(rate=0.02), epochs=15)
    start = Linear(3, np.zeros(4, np.float32))
    result = train_two_towers(
        start,
        tower_task(0, known=0.0),
        held_out=tower_task(1, known=0.0),
        settings=settings,
        rng=np.random.default_rng(0),
    )
    assert isinstance(result.model, Linear)
    # The standard error of each is about 0.02, and Adam stays within its rate.
    np.testing.assert_allclose(result.model.parameters[:3], [1.0, -1.0, 0.0], atol=0.12)
    assert result.best.number > 0


def test_what_the_ranker_knew_is_confounded_with_the_position() -> None:
    """Relevance that no feature says, and that decided the position, looks like an effect of the position."""
    effects = []
    for known in (0.0, 1.0):
        task = tower_task(0, known=known)
        scores = task.features @ np.array([1.0, -1.0, 0.0])
        tower = position_tower(task, scores, np.zeros(2))
        effects.append(tower[0] - tower[1])
    assert effects[0] == pytest.approx(1.5, abs=0.15)
    assert effects[1] > 1.5 + 0.5
