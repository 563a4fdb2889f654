"""Calibration of scores that rank within queries: expected clicks include the effect of the query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.relevance.click_model import (
    ClickModel,
    calibrate,
    calibrate_with_effects,
    logistic,
    relevance_given_others,
)
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float64

QUERIES, SIZE = 1200, 10
RANKS = np.arange(1, SIZE + 1)
BIAS = Bias(alpha=0.9 / RANKS, beta=np.full(SIZE, 0.01), examination=1.0 / RANKS)


def world(deviation: float, *, queries: int = QUERIES, size: int = SIZE) -> tuple[Float64, ClickModel]:
    """The true scores of documents, and up to three impressions of queries whose effects have a deviation."""
    rng = np.random.default_rng(5)
    query = np.repeat(np.arange(queries), size)
    scores = -2.0 + 0.7 * rng.normal(size=queries * size)
    relevance = logistic(scores + deviation * rng.normal(size=queries)[query])
    ranks = np.concatenate([rng.permutation(size) for _ in range(queries)])
    displays = rng.integers(1, 4, queries)[query]
    clicks = rng.binomial(displays, BIAS.alpha[ranks] * relevance + BIAS.beta[ranks])
    counts = CellTable.of_cells(np.arange(queries * size + 1), ranks, displays, clicks, query)
    return scores, ClickModel(counts, BIAS)


def test_expected_clicks_include_the_effects_of_queries() -> None:
    """The lowest tenth had twice the expected clicks: those of queries that are clicked whatever they show.

    Clicks of the lowest tenth differ from the expected ones by more than 4.5 standard deviations in one of
    10⁵ cases.
    """
    scores, model = world(2.0)
    plain = calibrate(logistic(scores), model)
    found = calibrate_with_effects(scores, model)
    for lowest, fits in ((plain.rows[0], False), (found.rows[0], True)):
        assert (abs(lowest.expected - lowest.clicks) < 4.5 * np.sqrt(lowest.expected)) == fits
    assert found.error < 0.5 * plain.error
    assert (plain.query_effects, found.query_effects) == (False, True)


def test_without_effects_calibrations_agree() -> None:
    scores, model = world(0.0)
    plain = calibrate(logistic(scores), model)
    found = calibrate_with_effects(scores, model)
    assert found.gain == pytest.approx(plain.gain, abs=0.002)
    assert found.error < plain.error + 0.005


def test_scores_that_tell_nothing_gain_nothing() -> None:
    """Effects alone explain clicks well, but that is not what scores are credited with."""
    scores, model = world(2.0)
    assert calibrate_with_effects(np.full(len(scores), -1.0), model).gain == pytest.approx(0.0, abs=1e-3)
    assert calibrate_with_effects(scores, model).gain > 0.002


def test_a_relevance_does_not_depend_on_its_own_clicks() -> None:
    scores, model = world(2.0)
    clicks = model.cells.clicks.copy()
    clicks[0] = model.cells.displays[0] - clicks[0]
    other = replace(model, cells=replace(model.cells, clicks=clicks))
    change = np.abs(np.subtract(*(relevance_given_others(scores, part) for part in (model, other))))
    # It changes through the distribution of effects alone, for which the query is one of many.
    assert change[0] < 0.1 * change[1:SIZE].min()


def test_a_query_with_one_document_is_like_any_other() -> None:
    """Nothing is known about its effect: equal scores have nearly equal relevances, clicked or not."""
    _, model = world(2.0, size=1)
    found = relevance_given_others(np.full(model.cells.n_documents, -1.0), model)
    assert np.ptp(found) < 0.02
    alone = replace(model, cells=replace(model.cells.select(np.array([0])), n_queries=1))
    assert 0.0 < relevance_given_others(np.zeros(1), alone)[0] < 1.0
