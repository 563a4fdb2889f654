"""Training within a trust region: networks and trees stay nearer to the policy than without it."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.data import synthetic
from rankloop.evidence import worst_loss
from rankloop.models import Adam, Linear
from rankloop.policies import expected_rank_weights
from rankloop.training import LearningProblem, ProximalTask, Settings, Task, learn, stay_near
from rankloop.types import Model

DATA = synthetic(queries=60, features=8)
START = Linear.initialise(8, np.random.default_rng(0))
PROBLEM = LearningProblem.from_labels(DATA, "dcg@3")
SETTINGS = Settings(Adam(rate=0.02), epochs=6, patience=6)


def loss_of(model: Model, policy: Model) -> float:
    task = PROBLEM.train
    new, old = (
        expected_rank_weights(m.scores(task.features), task.offsets, task.rank_weights)
        for m in (model, policy)
    )
    return float(worst_loss(new, old, task.offsets).mean())


def test_an_infinite_width_is_no_limit() -> None:
    limited = stay_near(PROBLEM, START, np.inf)
    scores = np.random.default_rng(1).normal(size=len(PROBLEM.train.features))
    free, bound = PROBLEM.train.metric(scores), limited.train.metric(scores)
    np.testing.assert_allclose(bound.gradient, free.gradient, atol=1e-12)
    assert limited.train.value(scores) == pytest.approx(PROBLEM.train.value(scores), abs=1e-12)


def test_a_part_has_the_anchor_of_its_documents() -> None:
    task = stay_near(PROBLEM, START, 0.1).train
    assert isinstance(task, ProximalTask)
    queries = np.array([3, 0])
    part = task.part(queries)
    np.testing.assert_array_equal(part.anchor, task.anchor[task.rows(queries)])
    scores = np.random.default_rng(1).normal(size=len(task.features))
    np.testing.assert_allclose(
        part.gradient(scores[task.rows(queries)]), task.gradient(scores)[task.rows(queries)], atol=1e-12
    )


def test_networks_stay_nearer_the_narrower_the_region() -> None:
    losses = []
    for width in (0.05, 0.5, np.inf):
        problem = stay_near(PROBLEM, START, width)
        model = learn(START, problem, settings=SETTINGS, rng=np.random.default_rng(0)).model
        assert problem.train.value(model.scores(DATA.train.features)) > problem.train.value(
            START.scores(DATA.train.features)
        )
        losses.append(loss_of(model, START))
    assert losses[0] < losses[1] < losses[2]


def test_trees_stay_nearer_in_a_trust_region() -> None:
    """Trees start from equal scores, which is the policy that they stay near."""
    equal = Linear(8, np.zeros(9))
    models = [
        learn("lightgbm(objective=expected-metric, rounds=30)", problem, rng=np.random.default_rng(0)).model
        for problem in (stay_near(PROBLEM, equal, 0.1), PROBLEM)
    ]
    losses = [loss_of(model, equal) for model in models]
    assert 0.0 < losses[0] < 0.75 * losses[1]


def test_a_part_of_a_plain_task_is_a_plain_task() -> None:
    part = PROBLEM.train.part(np.array([1, 2]))
    assert type(part) is Task
    assert part.n_queries == 2
