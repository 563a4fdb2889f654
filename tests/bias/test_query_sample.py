"""Large logs: a random sample of queries, with all their documents."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import BiasOptions, estimate_bias, moved_documents, resampling
from rankloop.bias.movement import count_movement
from rankloop.bias.resampling import QuerySample, sample_queries
from rankloop.statistics import CellTable
from rankloop.statistics.tables import CellTable as Table
from tests.bias.counts_of import simulated


def sampled(table: Table, cells: int) -> QuerySample:
    return sample_queries(table, count_movement(table), np.random.default_rng(0), most_cells=cells)


def test_whole_queries_are_drawn() -> None:
    table = CellTable.of(simulated("paper@3", queries=200, impressions=20_000, seed=0))
    sample = sampled(table, len(table.position) // 4)
    assert 0 < sample.queries < 60
    assert sample.of == 200
    assert len(sample.table.position) <= len(table.position) // 4
    for query in np.unique(sample.table.queries):
        own, drawn = (part.queries == query for part in (table, sample.table))
        assert table.documents[own].tolist() == sample.table.documents[drawn].tolist()
    assert sample.notes[0].startswith(f"Estimated from {sample.queries} of 200 queries, drawn at random")


def test_a_small_log_is_used_whole() -> None:
    table = CellTable.of(simulated("paper@3", queries=20, impressions=2_000, seed=0))
    sample = sampled(table, len(table.position))
    assert sample.table is table
    assert (sample.share, sample.notes) == (1.0, ())


def test_a_sample_compares_all_ranks_that_the_log_compares() -> None:
    table = CellTable.of(simulated("paper@3", queries=200, impressions=6_000, seed=0))
    assert count_movement(table).positions == 3
    assert count_movement(sampled(table, 50).table).positions == 3


def test_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        moved_documents, "sample_queries", lambda *given: sample_queries(*given, most_cells=900)
    )
    counts = simulated("paper@2", queries=200, impressions=20_000, seed=0)
    options = BiasOptions(resamples=20, held_out=False)
    found = estimate_bias(counts, options, rng=np.random.default_rng(0))
    assert 0.0 < found.query_share < 0.5
    assert "drawn at random" in found.notes[0]
    # The sample was drawn before the resamples, so these cannot be drawn again from a seed.
    assert found.resample_seed is None
    assert found.to_dict()["query_share"] == found.query_share
    assert resampling.MOST_CELLS > 100_000
