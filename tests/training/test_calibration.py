"""Calibration of scores that rank within queries: expected clicks include the effect of the query."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.objectives import ClickCounts
from rankloop.training.calibration import calibrate, calibrate_with_effects, relevance_of
from rankloop.training.query_effects import relevance_given_others
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float64

QUERIES, SIZE = 1200, 10
RANKS = np.arange(1, SIZE + 1)
BIAS = Bias(alpha=0.9 / RANKS, beta=np.full(SIZE, 0.01), examination=1.0 / RANKS)


def world(deviation: float, *, queries: int = QUERIES, size: int = SIZE) -> tuple[Float64, ShownDocuments]:
    """The true scores of documents, and up to three impressions of queries whose effects have a deviation."""
    rng = np.random.default_rng(5)
    query = np.repeat(np.arange(queries), size)
    scores = -2.0 + 0.7 * rng.normal(size=queries * size)
    relevance = relevance_of(scores + deviation * rng.normal(size=queries)[query])
    ranks = np.concatenate([rng.permutation(size) for _ in range(queries)])
    displays = rng.integers(1, 4, queries)[query]
    clicks = rng.binomial(displays, BIAS.alpha[ranks] * relevance + BIAS.beta[ranks])
    counts = ClickCounts(np.arange(queries * size + 1), ranks, displays, clicks)
    return scores, ShownDocuments(np.zeros((queries * size, 1), np.float32), counts, query, queries)


def test_expected_clicks_include_the_effects_of_queries() -> None:
    """The lowest tenth had twice the expected clicks: those of queries that are clicked whatever they show.

    Clicks of the lowest tenth differ from the expected ones by more than 4.5 standard deviations in one of
    10⁵ cases.
    """
    scores, shown = world(2.0)
    plain = calibrate(relevance_of(scores), shown.counts, BIAS)
    found = calibrate_with_effects(scores, shown, BIAS)
    for lowest, fits in ((plain.rows[0], False), (found.rows[0], True)):
        assert (abs(lowest.expected - lowest.clicks) < 4.5 * np.sqrt(lowest.expected)) == fits
    assert found.error < 0.5 * plain.error
    assert (plain.query_effects, found.query_effects) == (False, True)


def test_without_effects_calibrations_agree() -> None:
    scores, shown = world(0.0)
    plain = calibrate(relevance_of(scores), shown.counts, BIAS)
    found = calibrate_with_effects(scores, shown, BIAS)
    assert found.gain == pytest.approx(plain.gain, abs=0.002)
    assert found.error < plain.error + 0.005


def test_scores_that_tell_nothing_gain_nothing() -> None:
    """Effects alone explain clicks well, but that is not what scores are credited with."""
    scores, shown = world(2.0)
    assert calibrate_with_effects(np.full(len(shown), -1.0), shown, BIAS).gain == pytest.approx(0.0, abs=1e-3)
    assert calibrate_with_effects(scores, shown, BIAS).gain > 0.002


def test_a_relevance_does_not_depend_on_its_own_clicks() -> None:
    scores, shown = world(2.0)
    clicks = shown.counts.clicks.copy()
    clicks[0] = shown.counts.displays[0] - clicks[0]
    counts = ClickCounts(shown.counts.cells, shown.counts.ranks, shown.counts.displays, clicks)
    other = ShownDocuments(shown.features, counts, shown.queries, shown.n_queries)
    change = np.abs(np.subtract(*(relevance_given_others(scores, one, BIAS) for one in (shown, other))))
    # It changes through the distribution of effects alone, for which the query is one of many.
    assert change[0] < 0.1 * change[1:SIZE].min()


def test_a_query_with_one_document_is_like_any_other() -> None:
    """Nothing is known about its effect: equal scores have nearly equal relevances, clicked or not."""
    _, shown = world(2.0, size=1)
    found = relevance_given_others(np.full(len(shown), -1.0), shown, BIAS)
    assert np.ptp(found) < 0.02
    alone = ShownDocuments(shown.features[:1], shown.counts.select(np.array([0])), shown.queries[:1], 1)
    assert 0.0 < relevance_given_others(np.zeros(1), alone, BIAS)[0] < 1.0
