"""A training task: what it refuses, and what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.evaluation import policy_metrics
from rankloop.models import Linear
from rankloop.models import history as history_module
from rankloop.training import Settings, Task, train_network
from rankloop.types import Dataset
from tests.training.problems import N_FEATURES, new_rng


@pytest.fixture
def task(rng: np.random.Generator) -> Task:
    features = rng.normal(size=(30, 3)).astype(np.float32)
    return Task(features, np.array([0, 5, 12, 30]), rng.normal(size=30), np.array([1.0, 0.6, 0.5]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(30)}, "documents × features"),
        ({"offsets": np.array([0, 10])}, "end at the number of documents"),
        ({"document_weights": np.zeros(3)}, "30 documents need 30 weights"),
        ({"document_weights": np.full(30, np.nan)}, "the weight of document 0 is nan"),
        ({"rank_weights": np.zeros((2, 3))}, "one vector of rank weights"),
        ({"rank_weights": np.zeros(0)}, "rank weights must be finite"),
    ],
)
def test_a_task_that_does_not_fit_together_is_refused(
    task: Task, change: dict[str, Any], message: str
) -> None:
    given = {
        name: getattr(task, name) for name in ("features", "offsets", "document_weights", "rank_weights")
    }
    with pytest.raises(DataError, match=message):
        Task(**{**given, **change})


def test_a_task_takes_any_array_of_numbers(task: Task) -> None:
    """Kernels want float32 in C order; whoever gives something else gets the same result, not garbage."""
    other = Task(
        np.asfortranarray(task.features, dtype=np.float64),
        task.offsets.astype(np.int32),
        task.document_weights.tolist(),
        task.rank_weights.tolist(),
    )
    start = Linear.initialise(3, np.random.default_rng(0))
    results = [
        train_network(start, t, held_out=None, settings=Settings(epochs=2), rng=np.random.default_rng(0))
        for t in (task, other)
    ]
    assert results[0].model.fingerprint == results[1].model.fingerprint


def test_the_objective_is_the_mean_expected_metric(noisy: Dataset) -> None:
    scores = new_rng().normal(size=noisy.test.n_documents)
    for metric in ["ndcg@3", "dcg", "precision@2", "rctr@4", "nrctr@4"]:
        (expected,) = policy_metrics(scores, noisy.test, [metric]).values()
        assert Task.supervised(noisy.test, metric).value(scores) == pytest.approx(expected, rel=1e-9)


def test_values_by_query_are_those_of_the_metric(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    scores = Linear.initialise(N_FEATURES, new_rng()).scores(task.features)
    np.testing.assert_allclose(task.values(scores), task.metric(scores).values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3, 4, 100])
def test_an_epoch_is_divided_into_whole_batches(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "QUERIES_PER_CALL", 4)
    parts = list(history_module.in_parts(np.arange(31), batch))
    assert np.concatenate(parts).tolist() == list(range(31))
    assert all(len(part) % batch == 0 for part in parts[:-1])
    assert len(parts) == {1: 8, 3: 6, 4: 8, 100: 1}[batch]


def test_documents_with_equal_scores_are_worth_the_same_in_any_order() -> None:
    """Before: ties went by row, and an untrained model won where the rows of a log were in a good order."""
    weights = np.array([3.0, 1.0, 0.0, 2.0])
    task = Task(np.zeros((4, 1), np.float32), np.array([0, 4]), weights, np.array([1.0, 0.5]))
    mean = weights.mean() * 1.5
    assert task.sorted_value(np.zeros(4)) == pytest.approx(mean)
    assert task.sorted_value(np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(1.5 * 1.5)
    assert task.sorted_value(np.array([4.0, 2.0, 1.0, 3.0])) == pytest.approx(3.0 + 0.5 * 2.0)
