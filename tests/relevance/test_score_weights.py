"""Weights of scores: those with which clicks are most likely."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from rankloop.relevance import ClickModel, ClickTask
from rankloop.relevance.logged_order import weigh_scores
from rankloop.statistics import CellTable
from rankloop.types import Bias

BIAS = Bias(alpha=[0.8, 0.5], beta=[0.1, 0.1], examination=[1.0, 0.7])
QUERIES, DOCS, VARIANCE = 30, 4, 4.0


@pytest.fixture(scope="module")
def shown() -> ClickTask:
    """Documents that came 40 times at one rank; relevance follows the first feature only."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(QUERIES * DOCS, 2)).astype(np.float32)
    ranks = np.arange(len(features)) % 2
    queries = np.repeat(np.arange(QUERIES), DOCS)
    level = rng.normal(size=QUERIES)[queries]
    relevance = 1.0 / (1.0 + np.exp(-(1.5 * features[:, 0] + level)))
    displays = np.full(len(features), 40.0)
    clicks = rng.binomial(40, BIAS.alpha[ranks] * relevance + BIAS.beta[ranks]).astype(np.float64)
    counts = CellTable.of_cells(np.arange(len(features) + 1), ranks, displays, clicks, queries)
    return ClickTask(features, ClickModel(counts, BIAS, VARIANCE))


def test_weights_maximise_the_likelihood_together_with_the_effects(shown: ClickTask) -> None:
    scores = shown.features.T.astype(np.float64)
    found = weigh_scores(scores, shown.model)

    def negative(values: np.ndarray) -> float:
        weights, offset, effects = values[:2], values[2], values[3:]
        clicks = shown.model.at(weights @ scores + offset, effects)
        return -clicks.value + float(effects @ effects) / (2 * VARIANCE)

    expected = minimize(negative, np.zeros(3 + QUERIES), method="BFGS", options={"gtol": 1e-4}).x
    np.testing.assert_allclose([*found.weights, found.offset], expected[:3], atol=2e-3)


def test_only_what_explains_clicks_has_weight(shown: ClickTask) -> None:
    found = weigh_scores(shown.features.T, shown.model)
    # The standard error of each weight is about 0.06.
    assert found.weights[0] == pytest.approx(1.5, abs=0.25)
    assert found.weights[1] == pytest.approx(0.0, abs=0.25)
    alone = weigh_scores(shown.features.T[:1], shown.model)
    nothing = weigh_scores([], shown.model)
    assert nothing.weights == ()
    # A weight that does not matter is worth half a squared standard normal number.
    assert found.value - alone.value < 5.0 < 100.0 < alone.value - nothing.value


def test_repeated_scores_share_their_weight(shown: ClickTask) -> None:
    once = weigh_scores(shown.features.T[:1], shown.model)
    twice = weigh_scores(shown.features.T[[0, 0]], shown.model)
    assert sum(twice.weights) == pytest.approx(once.weights[0], abs=1e-3)
    assert twice.value == pytest.approx(once.value, abs=1e-3)
