"""Sums over impressions by an engine: what plain Python gives, on both engines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rankloop.logs.engines import engine
from rankloop.offline import open_log
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.impression_sums import ImpressionSums, sum_impressions
from rankloop.ragged import segment_sum
from tests.logs.logs_of import Row, write_rows
from tests.offline.brute import shown, sums_of
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated

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


def assert_same(found: ImpressionSums, expected: ImpressionSums) -> None:
    for name in ("first", "squares", "product", "importance", "importance_squares"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_sums_as_python_does(world: Simulated, name: str) -> None:
    rng = np.random.default_rng(1)
    # Some documents count for one of the policies only, some for none.
    factors = rng.normal(size=(world.split.n_docs, 2)) * (rng.random((world.split.n_docs, 2)) < 0.6)
    # Another guess for every document.
    relevance = rng.random(world.split.n_docs)
    counts = world.log.count()
    if name == "spark":
        pytest.importorskip("pyspark")
    with engine(name, master="local[1]" if name == "spark" else None) as running:
        found = sum_impressions(running, world.log, counts, factors, BIAS, relevance)
    happened = [
        (int(query), ranking.tolist(), clicks.tolist())
        for log in world.gathered.values()
        for query, ranking, clicks in zip(log.queries, log.rankings, log.clicks, strict=True)
    ]
    assert_same(found, sums_of(happened, world.split.offsets, factors, BIAS, relevance))


def test_the_first_sums_are_those_of_the_statistics(world: Simulated) -> None:
    """What is estimated from impressions is what the estimators estimate from counts."""
    rng = np.random.default_rng(2)
    statistics = world.log.statistics(BIAS).statistics
    n_queries = world.split.n_queries
    policies = (
        shown(rng.random(world.split.n_docs), n_queries),
        shown(rng.random(world.split.n_docs), n_queries),
    )
    variate = ControlVariate.of(statistics, BIAS, statistics.query_counts > 0)
    factors = variate.factors(policies)
    with engine() as running:
        found = sum_impressions(running, world.log, world.log.count(), factors, BIAS, variate.relevance)
    unexplained = statistics.clicks - statistics.displays_by_rank @ (BIAS.alpha * variate.guess + BIAS.beta)
    np.testing.assert_allclose(
        found.first, segment_sum(factors * unexplained[:, None], statistics.offsets), atol=1e-10
    )


def test_rows_below_the_last_rank_and_other_documents_do_not_count(tmp_path: Path) -> None:
    rows = [
        Row("i", "q", "a", 1, "x", True),
        Row("i", "q", "a", 2, "y", False),
        Row("i", "q", "a", 9, "z", True),
        # An impression of the same name, by another policy.
        Row("i", "q", "b", 1, "y", True),
        Row("j", "r", "a", 1, "x", True),
    ]
    log = open_log(write_rows(tmp_path / "log", rows))
    counts = log.count(BIAS.ranks)
    assert counts.doc_ids.tolist() == ["x", "y", "z", "x"]
    factors = np.array([[2.0, 0.0], [1.0, 1.0], [9.0, 9.0], [0.0, 0.0]])
    with engine() as running:
        found = sum_impressions(running, log, counts, factors, BIAS, np.zeros(counts.n_items))
    first, second = 2 * (1 - BIAS.beta[0]) - BIAS.beta[1], 1 - BIAS.beta[0]
    np.testing.assert_allclose(found.first, [[first + second, -BIAS.beta[1] + second], [0, 0]])
    np.testing.assert_allclose(found.squares[0, 0], first**2 + second**2)
    np.testing.assert_allclose(found.product, [first * -BIAS.beta[1] + second**2, 0])
