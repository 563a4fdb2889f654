"""What policies score, expose and are worth, computed once per policy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from rankloop.data import synthetic
from rankloop.evaluation import policy_metrics
from rankloop.loop.policy_values import KEPT, PolicyValues
from rankloop.models import MLP
from rankloop.statistics import Exposure
from rankloop.types import Bias, Float32, Float64, Model

BIAS = Bias(alpha=[0.4, 0.5], beta=[0.6, 0.2], examination=[1.0, 0.7])
DATASET = synthetic(queries=20, features=4, seed=1)


@dataclass
class CountedModel:
    """A model that counts how often it is asked for scores."""

    model: Model
    calls: list[int] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    def scores(self, features: Float32) -> Float64:
        self.calls.append(len(features))
        return self.model.scores(features)


def counted(seed: int) -> CountedModel:
    return CountedModel(MLP.initialise(4, np.random.default_rng(seed)))


@pytest.fixture
def values() -> PolicyValues:
    return PolicyValues(DATASET, BIAS, "ndcg@2")


def test_values_are_those_of_the_scaled_policy(values: PolicyValues) -> None:
    model = MLP.initialise(4, np.random.default_rng(0))
    scores = 3.0 * values.queries.scores(model)
    expected = Exposure.of_scores(scores, values.queries.offsets, BIAS)
    alone = values.expected_alpha(model, 3.0)
    exposure = values.exposure(model, 3.0)
    np.testing.assert_array_equal(exposure.beta, expected.beta)
    # Alone or as a part of the exposure, to the bit: a resumed run has only one of the two at hand.
    np.testing.assert_array_equal(alone, exposure.alpha)
    np.testing.assert_array_equal(values.expected_alpha(model, 3.0), exposure.alpha)
    test = DATASET.test
    direct = policy_metrics(3.0 * model.scores(test.features), test, ["ndcg@2"])["ndcg@2"]
    assert values.test_value(model, 3.0) == direct
    assert values.test_value(model, 0.1) != direct


def test_a_policy_is_scored_once(values: PolicyValues) -> None:
    model = counted(0)
    for scale in (1.0, 0.5, 1.0):
        values.exposure(model, scale)
        values.expected_alpha(model, scale)
        values.scores(model)
    # One call per split that impressions come from.
    assert sorted(model.calls) == sorted([DATASET.train.n_documents, DATASET.validation.n_documents])
    values.test_value(model, 1.0)
    values.test_value(model, 1.0)
    assert len(model.calls) == 3


def test_policies_of_long_ago_are_forgotten(values: PolicyValues) -> None:
    first = counted(0)
    values.scores(first)
    for seed in range(1, KEPT + 1):
        values.scores(counted(seed))
    values.scores(first)
    assert len(first.calls) == 4
