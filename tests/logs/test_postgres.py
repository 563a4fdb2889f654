"""The same log in a table of PostgreSQL: the same answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.offline import Log, open_log
from rankloop.storage.plain import to_plain
from tests.logs.logs_of import BIAS, Row, write_rows
from tests.logs.test_slots import rows_with_gaps
from tests.offline.worlds_of_logs import simulated as world_of
from tests.statistics.equality import assert_same

CREATE = """
CREATE TABLE impressions (
    impression_id {id}, timestamp timestamptz, query_id {id}, policy_id varchar(20),
    position integer, doc_id {id},
    clicked boolean{more}
)
"""
Loaded = Callable[..., Log]


@pytest.fixture
def loaded(postgres: str, tmp_path: Path) -> Loaded:
    """Move the impressions of a log into a table; returns the rest of it, opened with the database."""

    def load(folder: Path, **created: str) -> Log:
        table = pq.read_table(folder / "impressions.parquet")
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS impressions")
            connection.execute(CREATE.format(**{"id": "text", "more": "", **created}))
            names = ", ".join(table.column_names)
            with connection.cursor().copy(f"COPY impressions ({names}) FROM STDIN") as rows:
                for row in table.to_pylist():
                    rows.write_row(list(row.values()))
        rest = tmp_path / "rest"
        rest.mkdir()
        for name in ("candidates", "features"):
            if (folder / f"{name}.parquet").exists():
                shutil.copy(folder / f"{name}.parquet", rest)
        return open_log(rest, engine="postgres", master=postgres)

    return load


def test_a_log_in_a_database_gives_the_same_answers(loaded: Loaded, tmp_path: Path) -> None:
    log = world_of(tmp_path / "log", queries=30, impressions=4_000).log
    there = loaded(tmp_path / "log")
    assert there.fingerprint == log.fingerprint
    assert_same(there.statistics(BIAS).statistics, log.statistics(BIAS).statistics)
    check = there.check()
    assert plain(check) == plain(log.check())
    assert "--engine postgres --master 'postgresql://" in str(check.command)
    assert plain(there.estimate_bias()) == plain(log.estimate_bias())
    first, second = (one.evaluate("later", against="production", bias=BIAS) for one in (there, log))
    assert plain(first) == plain(second)


def test_an_evaluation_without_candidates_is_the_same(loaded: Loaded, tmp_path: Path) -> None:
    world_of(tmp_path / "log", queries=30, impressions=4_000)
    (tmp_path / "log" / "candidates.parquet").unlink()
    (tmp_path / "log" / "checksums.json").unlink()
    log, there = open_log(tmp_path / "log"), loaded(tmp_path / "log")
    first, second = (one.evaluate("later", against="production", bias=BIAS) for one in (there, log))
    assert plain(first) == plain(second)


def plain(answer: Any) -> Any:
    """An answer without the names of folders; engines add numbers in any order."""
    found = to_plain(answer)
    found = {name: part for name, part in found.items() if name not in ("log", "command")}
    return rounded(found)


def rounded(value: Any) -> Any:
    """A value with nine decimals of its numbers."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 9) if isinstance(value, float) else value


def test_odd_rows_are_counted_the_same(loaded: Loaded, tmp_path: Path) -> None:
    rows = [
        Row("1", "é", "b", 2, "10, \"x\"\n", True),
        Row("1", "é", "b", 4, "9\\N", False),
        Row("2", "z", "a", 1, "", False, 7),
        Row("3", "😀", "a", 1, "Z", True, 5),
        Row("3", "￿", "a", 3, "a", True, 5),
    ]  # fmt: skip
    log = open_log(write_rows(tmp_path / "log", rows))
    same_counts(loaded(tmp_path / "log"), log)


def test_ids_may_be_numbers(loaded: Loaded, tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", [Row(n, n % 3, "a", 1, n, n % 2 == 0, n) for n in range(20)]))
    same_counts(loaded(tmp_path / "log", id="bigint"), log)


def same_counts(there: Log, here: Log) -> None:
    first, second = there.count(3), here.count(3)
    assert first.policy_ids == second.policy_ids
    assert first.left_out == second.left_out
    for name in ("query_ids", "doc_ids", "offsets", "impressions_by_policy", "displays_by_position"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_slots_of_pages_with_gaps_are_the_same(loaded: Loaded, tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", rows_with_gaps()))
    assert loaded(tmp_path / "log").slots().gaps == log.slots().gaps


def test_what_the_database_lacks_is_said(loaded: Loaded, postgres: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True)])
    log = loaded(tmp_path / "log")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER TABLE impressions RENAME COLUMN clicked TO click")
        with pytest.raises(
            DataError, match="the table impressions of PostgreSQL: the column 'clicked' is missing"
        ):
            log.count()
        connection.execute("DROP TABLE impressions")
    with pytest.raises(DataError, match="PostgreSQL has no table impressions on its search path"):
        log.count()
    with pytest.raises(RankloopError, match="no connection with PostgreSQL: "):
        open_log(log.folder, engine="postgres", master=f"postgresql://{tmp_path.name}.invalid/x").count()
    with pytest.raises(RankloopError, match="PostgreSQL needs its address"):
        open_log(log.folder, engine="postgres")
    with pytest.raises(DataError, match="is not a log"):
        open_log(log.folder)
    with pytest.raises(DataError, match="has impressions of its own"):
        open_log(tmp_path / "log", engine="postgres", master=postgres)
