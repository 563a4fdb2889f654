"""Resampling of queries, and of displays where there are few queries."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import BiasOptions, estimate_bias
from rankloop.bias.resampling import bootstrap, few_clusters
from rankloop.progress import Update
from rankloop.statistics import CellTable
from rankloop.statistics.intervals import FEW_UNITS
from tests.bias.counts_of import counts_of, simulated


def test_resamples_keep_queries_whole_and_their_number() -> None:
    queries = FEW_UNITS
    # The first query has two documents, the last was never shown.
    sizes = [2] + [1] * queries
    displays = np.ones((queries + 2, 2), np.int64)
    displays[-1] = 0
    shown = CellTable.of(counts_of(displays, np.zeros_like(displays), sizes=sizes))
    drawn: list[np.ndarray] = []
    updates: list[Update] = []

    def estimate(counts: CellTable, weights: np.ndarray) -> np.ndarray:
        assert counts is shown
        drawn.append(weights)
        return weights[:1]

    found = bootstrap(estimate, shown, 400, np.random.default_rng(0), updates.append)
    weights = np.array(drawn)
    # Documents 0 and 1 belong to one query. The last document was never shown, so its query is not resampled.
    assert weights.shape == (400, queries + 1)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 1:].sum(axis=1) == queries).all()
    # Each weight has mean 1 and variance 1 − 1/n; six standard errors fail in one of 10⁷ cases.
    assert (np.abs(weights.mean(axis=0) - 1) < 6 * np.sqrt(1 / 400)).all()
    np.testing.assert_array_equal(found[:, 0], weights[:, 0])
    assert updates[-1] == Update("resampling queries", 1.0)
    assert few_clusters(shown) == []


def test_displays_are_resampled_where_queries_are_few() -> None:
    shown = CellTable.of(counts_of([[100, 400]], [[50, 400]]))
    updates: list[Update] = []

    def estimate(counts: CellTable, weights: np.ndarray) -> np.ndarray:
        assert (counts.displays == shown.displays).all()
        assert (weights == 1.0).all()
        return counts.clicks

    found = bootstrap(estimate, shown, 400, np.random.default_rng(0), updates.append)
    # Binomial with mean 50 and variance 25: six standard errors of the mean and of the variance.
    assert abs(found[:, 0].mean() - 50) < 6 * 5 / 20
    assert abs(found[:, 0].var() - 25) < 6 * 25 * np.sqrt(2 / 400)
    assert (found[:, 1] == 400).all()
    assert updates[-1] == Update("resampling displays", 1.0)


@pytest.mark.parametrize("model", ["affine", "position", "harvesting"])
def test_one_query_has_intervals_with_a_width_and_a_note(model: str) -> None:
    """Before, the intervals of a log with one query had width 0 and no note said why.

    Every resample of one query is the log itself. Now its displays are resampled, and a note says so.
    """
    counts = simulated("paper@2", queries=1, impressions=20_000, seed=0, documents=40, follows=0.5)
    found = estimate_bias(
        counts, BiasOptions(model=model, resamples=20, held_out=False), rng=np.random.default_rng(0)
    )
    assert found.alpha is not None
    assert found.alpha.high[1] - found.alpha.low[1] > 0.005
    assert found.examination is not None
    assert found.examination.high[1] - found.examination.low[1] > 0.005
    assert any(note.startswith("Only 1 query is used") for note in found.notes)
