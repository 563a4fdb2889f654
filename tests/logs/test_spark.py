"""The same log through Spark: the same statistics, to the last bit."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.logs import ImportOptions, import_columns, write_simulated
from rankloop.offline import open_log
from rankloop.types import Bias
from tests.attack.accounting import HEADER, as_line, clean, random_rows, unlike
from tests.logs.logs_of import BIAS, Row, simulated, write_rows
from tests.logs.test_slots import VECTORS, rows_with_gaps
from tests.offline.test_never_a_false_decision import assert_same as assert_same_value
from tests.offline.test_never_a_false_decision import by_candidates, by_rows, traffic, write_table
from tests.statistics.equality import assert_same

# Spark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
extras = pytest.mark.extras


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session on this machine, for all tests: starting one takes longer than they do."""
    sql = pytest.importorskip("pyspark.sql", reason='Spark is not installed: pip install "rankloop[spark]"')
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


@extras
@pytest.mark.parametrize("exposure", ["candidates", "displays"])
def test_statistics_are_the_same(spark: Any, tmp_path: Path, exposure: Any) -> None:
    split, gathered = simulated(queries=12, impressions=300)
    log = open_log(write_simulated(tmp_path / "log", split, gathered))
    there = replace(log, exposure=exposure, engine="spark").statistics(BIAS)
    here = replace(log, exposure=exposure).statistics(BIAS)
    assert_same(there.statistics, here.statistics)
    assert there.doc_ids.tolist() == here.doc_ids.tolist()
    assert there.notes == here.notes
    assert spark.catalog.listTables() == []


@extras
@pytest.mark.usefixtures("spark")
def test_counts_of_odd_rows_are_the_same(tmp_path: Path) -> None:
    """Gaps, no first position, ids that are numbers or not ASCII, no times."""
    rows = [
        Row(1, "é", "b", 2, 10, True),
        Row(1, "é", "b", 4, 9, False),
        Row(2, "z", "a", 1, 9, False, 7),
        Row(3, "😀", "a", 1, 9, True, 5),
        Row(3, "￿", "a", 3, 9, True, 5),
    ]
    log = open_log(write_rows(tmp_path / "log", rows))
    there, here = replace(log, engine="spark").count(3), log.count(3)
    assert there.policy_ids == here.policy_ids == ("a", "b")
    assert there.left_out == here.left_out == 1
    for name in (
        "query_ids",
        "doc_ids",
        "offsets",
        "impressions_by_policy",
        "displays_by_position",
        "clicks_by_position",
    ):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


@extras
@pytest.mark.usefixtures("spark")
def test_slots_of_pages_with_gaps_are_the_same(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", rows_with_gaps()))
    there, here = replace(log, engine="spark"), log
    assert there.slots().gaps == here.slots().gaps
    weights = [one.slots().rank_weights(one.count(3), VECTORS) for one in (there, here)]
    np.testing.assert_array_equal(*weights)


@extras
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("importer", [by_rows, by_candidates])
@pytest.mark.parametrize("kind", ["advertisements", "second_pages"])
def test_a_copy_of_the_displayed_order_is_the_same_policy(kind: str, importer: Any, tmp_path: Path) -> None:
    """Positions with gaps made a copy of production `better` before slots were compared with slots."""
    made = traffic(kind, seed=1)
    log = replace(open_log(importer(made, tmp_path)), engine="spark")
    copied = {
        (query, document): -float(place)
        for (policy, query), order in made.orders.items()
        if policy == "production"
        for place, document in enumerate(order)
    }
    assert_same_value(log, write_table(tmp_path / "copy.parquet", copied), "production")


@extras
@pytest.mark.usefixtures("spark")
def test_checks_are_the_same(tmp_path: Path) -> None:
    split, gathered = simulated()
    log = open_log(write_simulated(tmp_path / "log", split, gathered))
    there, here = replace(log, engine="spark").check(), log.check()
    assert " --engine spark " in str(there.command)
    assert there.to_dict() == {**here.to_dict(), "command": there.command}


@extras
@pytest.mark.usefixtures("spark")
def test_checks_of_a_messy_log_are_the_same(tmp_path: Path) -> None:
    """Problems with their examples, times before 1970 and none, candidates of some, features of some."""
    hour = 3_600 * 10**6
    rows = [
        Row("i", "q", "b", 1, "x", True, -hour),
        Row("i", "q", "b", 1, "x", True, -hour),
        Row("j", "q", "b", 1, "x", False, 1),
        Row("j", "q", "b", 1, "y", False, 1),
        Row("k", "q", "b", 2, "y", False, 9 * hour),
        Row("l", "r", "a", 1, "x", False, None),
        Row("m", "r", "a", 1, "x", True, 3 * hour),
        Row("m", "q", "a", 2, "x", False, 3 * hour),
    ]
    scores = {"policy_id": ["b"] * 3, "query_id": ["q"] * 3, "doc_id": ["x", "y", "z"]}
    scores["score"] = [0.5, 0.0, float("-inf")]  # type: ignore[list-document]
    folder = write_rows(tmp_path / "a[b] {c}", rows, scores)
    features = pa.table({"query_id": ["q", "q"], "doc_id": ["x", "y"], "f": [1.0, 2.0]})
    pq.write_table(features, folder / "features.parquet")
    log = open_log(folder)
    there, here = replace(log, engine="spark").check(), log.check()
    assert there.to_dict() == {**here.to_dict(), "command": there.command}
    assert {problem.name for problem in here.problems} >= {"duplicate_rows", "mixed_impressions"}
    assert (here.without_features, here.period_seconds) == (2, 3_600)


@extras
@pytest.mark.usefixtures("spark")
def test_counts_and_exposures_of_a_table_in_many_files_are_the_same(tmp_path: Path) -> None:
    split, gathered = simulated(queries=8, impressions=100)
    whole = write_simulated(tmp_path / "whole", split, gathered)
    for table in ("impressions", "candidates"):
        (tmp_path / "parts" / f"{table}.parquet").mkdir(parents=True)
        rows = pq.read_table(whole / f"{table}.parquet")
        for number, part in enumerate((rows[:7], rows[7:20], rows[20:])):
            pq.write_table(part, tmp_path / "parts" / f"{table}.parquet" / f"{number}.parquet")
    log = open_log(tmp_path / "parts")
    on_spark = replace(log, engine="spark")
    assert on_spark.count(3).rows == open_log(whole).count(3).rows
    there = on_spark.statistics(BIAS)  # with the counts of before
    assert_same(there.statistics, open_log(whole).statistics(BIAS).statistics)


@extras
@pytest.mark.usefixtures("spark")
def test_what_spark_cannot_do_is_said_in_one_line(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", [Row(i, "q", "a", 1, "x", True) for i in range(500)])
    log, path = open_log(folder), folder / "impressions.parquet"
    data = bytearray(path.read_bytes())
    data[10:200] = bytes(190)
    path.write_bytes(bytes(data))
    with pytest.raises(RankloopError, match=r"^Spark failed: .*") as raised:
        replace(log, engine="spark").count()
    assert "\n" not in str(raised.value)


@extras
@pytest.mark.usefixtures("spark")
def test_bad_candidates_are_refused_alike(tmp_path: Path) -> None:
    candidates = {"policy_id": ["a"], "query_id": ["q"], "doc_id": ["x"], "score": [float("nan")]}
    log = open_log(write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True)], candidates))
    with pytest.raises(DataError, match="document 'x': the score is nan"):
        replace(log, engine="spark").statistics(Bias(np.ones(1), np.zeros(1), np.ones(1)))


@extras
@pytest.mark.usefixtures("spark")
def test_another_master_than_the_active_one_is_refused(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True)]))
    with pytest.raises(RankloopError, match=r"a Spark session with master 'local\[1\]' is active"):
        replace(log, engine="spark", master="local[7]").count()
    assert replace(log, engine="spark", master="local[1]").count().rows == 1


def test_without_spark_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True)]))
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(RankloopError, match=r'pip install "rankloop\[spark\]"'):
        replace(log, engine="spark").count()


@extras
@pytest.mark.usefixtures("spark")
def test_random_logs_with_planted_defects_are_counted_the_same(tmp_path: Path) -> None:
    """What an import kept of a damaged table is what both engines count."""
    for seed in range(5):
        rows = random_rows(random.Random(seed))
        table = tmp_path / "rows.csv"
        table.write_text("\n".join([HEADER, *map(as_line, rows)]) + "\n")
        options = ImportOptions(max_loss=1.0, position_base=1, overwrite=True)
        report = import_columns(table, tmp_path / "log", options=options)
        assert unlike(report, clean(rows, [])) is None
        log = open_log(tmp_path / "log")
        here, there = log.count(), replace(log, engine="spark").count()
        assert (there.rows, there.fingerprint) == (here.rows, here.fingerprint)
        assert there.rows == report.rows
