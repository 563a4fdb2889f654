"""One way to learn: `learn` chooses the trainer, and everything else is in the problem."""

from __future__ import annotations

import numpy as np

from rankloop.models import Linear
from rankloop.models.specs import LightGBMSpec, LinearSpec
from rankloop.progress import Update
from rankloop.training import LearningProblem, Settings, learn, train_network, train_trees
from rankloop.types import Dataset
from tests.training.problems import N_FEATURES, new_rng, opposed

SETTINGS = Settings(epochs=3)


def test_a_network_is_initialised_and_then_trained_with_the_same_generator(easy: Dataset) -> None:
    problem = LearningProblem.from_labels(easy, "ndcg@5")
    rng = new_rng()
    start = LinearSpec().initialise(N_FEATURES, rng)
    expected = train_network(
        start, problem.train, held_out=problem.held_out, settings=SETTINGS, rng=rng, keep_start=False
    )
    for model in ("linear", LinearSpec()):
        result = learn(model, problem, settings=SETTINGS, rng=new_rng())
        assert result.history == expected.history
        assert result.model.fingerprint == expected.model.fingerprint


def test_a_model_is_the_start(easy: Dataset) -> None:
    problem = LearningProblem.from_labels(easy, "ndcg@5")
    start = Linear.initialise(N_FEATURES, np.random.default_rng(9))
    expected = train_network(
        start, problem.train, held_out=problem.held_out, settings=SETTINGS, rng=new_rng()
    )
    result = learn(start, problem, settings=SETTINGS, rng=new_rng())
    assert result.model.fingerprint == expected.model.fingerprint != start.fingerprint


def test_an_untrained_model_is_never_the_result(easy: Dataset) -> None:
    # Held-out queries that say the opposite: every epoch is worse than the start there.
    problem = LearningProblem.from_labels(easy, "ndcg@5")
    opposed_problem = LearningProblem(problem.train, opposed(problem.train))
    untrained = LinearSpec().initialise(N_FEATURES, new_rng())
    result = learn("linear", opposed_problem, settings=SETTINGS, rng=new_rng())
    assert result.model.fingerprint != untrained.fingerprint
    assert result.best.number >= 1
    # A start that is a model of its own may be kept.
    assert learn(untrained, opposed_problem, settings=SETTINGS, rng=new_rng()).model is untrained


def test_trees_grow_from_nothing(easy: Dataset) -> None:
    problem = LearningProblem.from_labels(easy, "ndcg@5")
    spec = LightGBMSpec(rounds=3, min_documents=5)
    expected = train_trees(problem.train, spec, held_out=problem.held_out, rng=new_rng())
    result = learn(str(spec), problem, rng=new_rng())
    assert result.model.to_bytes() == expected.model.to_bytes()


def test_without_held_out_queries_the_last_epoch_is_kept_and_reported(easy: Dataset) -> None:
    seen: list[Update] = []
    alone = LearningProblem(LearningProblem.from_labels(easy, "ndcg@5").train)
    result = learn("linear", alone, settings=SETTINGS, rng=new_rng(), progress=seen.append)
    assert result.best is result.history[-1]
    assert result.history[-1].number == 3
    assert tuple(update.detail for update in seen) == result.history
