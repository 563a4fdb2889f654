"""A problem holds one objective for training and one for the held-out queries."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.training import LearningProblem, Task
from rankloop.types import Dataset
from tests.training.problems import DCG_AT_3


def test_labels_of_both_splits_become_tasks(noisy: Dataset) -> None:
    problem = LearningProblem.from_labels(noisy, "ndcg@3")
    assert problem.held_out is not None
    for task, split in ((problem.train, noisy.train), (problem.held_out, noisy.validation)):
        expected = Task.supervised(split, "ndcg@3")
        assert task.features is split.features
        np.testing.assert_array_equal(task.document_weights, expected.document_weights)
        np.testing.assert_array_equal(task.rank_weights, expected.rank_weights)


def test_weights_are_taken_as_they_are(noisy: Dataset) -> None:
    splits = (noisy.train, noisy.validation)
    weights = (np.arange(60.0), -np.arange(60.0))
    problem = LearningProblem.from_weights(splits, weights, DCG_AT_3)
    assert problem.held_out is not None
    for task, split, given in zip((problem.train, problem.held_out), splits, weights, strict=True):
        np.testing.assert_array_equal(task.document_weights, given)
        np.testing.assert_array_equal(task.offsets, split.offsets)
        np.testing.assert_array_equal(task.rank_weights, DCG_AT_3)
    with pytest.raises(DataError, match="60 documents need 60 weights"):
        LearningProblem.from_weights(splits, (weights[0], weights[1][:5]), DCG_AT_3)
