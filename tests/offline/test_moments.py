"""Sums over impressions by an engine: what plain Python gives, on both engines."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rankloop.logs.engines import whole_groups
from rankloop.offline import open_log
from rankloop.offline.log_sums import sum_moments
from rankloop.value.uncertainty import Moments
from rankloop.value.valuation import LoggedMetric, Valuation
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated
from tests.value.brute import shown, terms

# Spark leaves sockets to the garbage collector.
SPARK = (
    pytest.mark.extras,
    pytest.mark.skipif(
        not os.environ.get("JAVA_HOME") and shutil.which("java") is None, reason="Spark needs Java"
    ),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)
ENGINES = ["duckdb", pytest.param("spark", marks=SPARK)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("sums") / "log")


def valuation_of(world: Simulated, queries: np.ndarray) -> Valuation:
    """Two policies that show documents at random, on some queries; a guess that is wrong everywhere."""
    rng = np.random.default_rng(1)
    statistics = world.log.statistics(BIAS).statistics.select(np.flatnonzero(queries))
    n_documents, n_queries = statistics.n_documents, statistics.n_queries
    # Some documents count for one of the policies only, some for none.
    weights = rng.normal(size=(n_documents, 2)) * (rng.random((n_documents, 2)) < 0.6)
    policies = shown(weights[:, 0], n_queries), shown(weights[:, 1], n_queries)
    metric = LoggedMetric.of("dcg", BIAS)
    return Valuation(statistics, BIAS, metric, policies, 0.0, guesses=rng.random(n_documents))


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_sums_as_python_does(world: Simulated, name: str) -> None:
    if name == "spark":
        pytest.importorskip("pyspark")
    log = replace(world.log, engine=name, master="local[1]" if name == "spark" else None)
    used = np.arange(world.split.n_queries) != 3
    valuation = valuation_of(world, used)
    moments = sum_moments(log, log.count(BIAS.positions), used, valuation)
    contribution, number = valuation.contribution, np.cumsum(used) - 1
    factors = contribution.factors(valuation.lambdas)
    table = np.zeros((int(used.sum()), len(Moments.COLUMNS)))
    for part in world.gathered.values():
        for query, ranking, clicks in zip(part.queries, part.rankings, part.clicks, strict=True):
            if used[query]:
                impression = (int(number[query]), ranking.tolist(), clicks.tolist())
                own, e, w = terms(impression, contribution.offsets, factors, BIAS, contribution.guess)
                table[own] += [*e**2, e[0] * e[1], *w, *w**2]
    expected = Moments.of_table(table)
    for field in ("squares", "product", "importance", "importance_squares"):
        np.testing.assert_allclose(
            getattr(moments, field), getattr(expected, field), atol=1e-9, err_msg=field
        )


def test_rows_below_the_last_rank_and_other_queries_do_not_count(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "a", 1, "x", True),
        Row("i", "q", "a", 2, "y", False),
        Row("i", "q", "a", 9, "z", True),
        # An impression of the same name, by another policy.
        Row("i", "q", "b", 1, "y", True),
        Row("j", "r", "a", 1, "x", True),
    ]
    log = open_log(write_rows(tmp_path / "log", rows))
    counts = log.count(BIAS.positions)
    assert counts.doc_ids.tolist() == ["x", "y", "z", "x"]
    used = np.array([True, False])
    statistics = log.statistics(BIAS).statistics.select([0])
    policies = shown([1.0, 0.4, 9.0], 1), shown([0.0, 0.4, 9.0], 1)
    nobody = np.zeros(3)
    valuation = Valuation(statistics, BIAS, LoggedMetric.of("dcg", BIAS), policies, 0.0, guesses=nobody)
    g = valuation.contribution.factors(valuation.lambdas)
    moments = sum_moments(log, counts, used, valuation)
    first = g[0] * (1 - BIAS.beta[0]) - g[1] * BIAS.beta[1]
    second = g[1] * (1 - BIAS.beta[0])
    np.testing.assert_allclose(moments.squares, [first**2 + second**2])
    np.testing.assert_allclose(moments.product, [first[0] * first[1] + second[0] * second[1]])


def test_batches_do_not_cut_groups() -> None:
    """Groups that go on in the next batch, groups over three batches, and empty batches."""
    keys = [1, 1, 2, 2, 2, 2, 2, 3, 4, 4]
    table = pa.table({"a": keys, "b": [key % 2 for key in keys], "row": range(len(keys))})
    for size in (1, 2, 3, 10):
        batches = [table.slice(0, 0).to_batches() or [], table.to_batches(size)]
        parts = list(whole_groups(iter([batch for part in batches for batch in part]), ["a", "b"]))
        assert [row for part in parts for row in part["row"].to_pylist()] == list(range(len(keys)))
        seen = [set(part["a"].to_pylist()) for part in parts]
        assert sum(map(len, seen)) == len(set().union(*seen)) == 4
