"""Trees: which of them are kept."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.models import LightGBMModel
from rankloop.models.specs import LightGBMSpec
from rankloop.training import Task, train, train_trees
from rankloop.types import Dataset
from tests.training.problems import new_rng, opposed


def test_trees_that_never_help_are_not_kept(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    spec = LightGBMSpec(rounds=20, patience=3, min_documents=5)
    result = train_trees(task, spec, held_out=opposed(task), rng=new_rng())
    assert isinstance(result.model, LightGBMModel)
    assert result.best.number == result.model.n_trees == 0
    np.testing.assert_array_equal(result.model.scores(task.features), np.zeros(len(task.features)))


def test_without_held_out_queries_all_trees_are_kept(easy: Dataset) -> None:
    task = Task.supervised(easy.train, "ndcg@5")
    result = train_trees(task, LightGBMSpec(rounds=7, min_documents=5), held_out=None, rng=new_rng())
    assert isinstance(result.model, LightGBMModel)
    assert result.model.n_trees == 7
    assert result.best is result.history[-1]
    assert result.best.number == 7
    assert all(np.isnan(epoch.held_out) for epoch in result.history)


def test_training_cannot_start_from_trees(easy: Dataset) -> None:
    trees = train(easy, "lightgbm(rounds=2)").model
    with pytest.raises(RankloopError, match="lightgbm model does not learn in steps"):
        train(easy, trees)
