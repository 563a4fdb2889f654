"""Stores of earlier versions are brought up to date."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
from sqlalchemy import create_engine, text

from rankloop.live import RankRequest, Service, open_store, seal
from rankloop.live.learner.notes import add_entry
from rankloop.live.overview import read_diary
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.store.database import read
from tests.live.conftest import put


def test_the_diary_of_an_earlier_store_is_kept(tmp_path: Path) -> None:
    """It was called `verdicts`."""
    with closing(open_store(str(tmp_path / "store"))) as store, store.engine.begin() as connection:
        add_entry(connection, "learned", "something was learned", {})
    engine = create_engine(f"sqlite:///{tmp_path / 'store' / 'store.sqlite'}")
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE diary RENAME TO verdicts"))
        connection.execute(text("DELETE FROM migrations WHERE number > 1"))
    engine.dispose()
    with closing(open_store(str(tmp_path / "store"))) as store, read(store) as connection:
        assert [one["text"] for one in read_diary(connection)] == ["something was learned"]


def test_names_in_the_log_of_an_earlier_store_are_kept(location: str, tmp_path: Path) -> None:
    """They were columns of problems and scorings."""
    with closing(open_store(location, log=tmp_path / "log")) as store:
        put(store, LivePolicy("shuffle", "uniform"))
        service = Service(store, names=("a",))
        page = RankRequest("cat", ("x", "y"), ([1.0], [2.0]))
        service.rank(page)
        service.close()
        seal(store, time.time() + 1)
        with store.engine.begin() as connection:
            for statement in EARLIER:
                connection.execute(text(statement))
    with closing(open_store(location, log=tmp_path / "log")) as store:
        service = Service(store, names=("a",))
        service.rank(RankRequest("cat", ("x", "y"), ([1.0], [3.0])))
        service.rank(page)
        service.close()
        seal(store, time.time() + 1)
        rows = pq.read_table(tmp_path / "log" / "impressions.parquet").to_pylist()
        assert [row["query_id"] for row in rows[::2]] == ["cat", "cat#2", "cat"]
        assert len(pq.read_table(tmp_path / "log" / "features.parquet")) == 4
        assert len(pq.read_table(tmp_path / "log" / "candidates.parquet")) == 4


# What the tables were like before the third migration.
EARLIER = (
    "ALTER TABLE problems ADD COLUMN query_id TEXT",
    "ALTER TABLE problems ADD COLUMN part INTEGER",
    "ALTER TABLE scorings ADD COLUMN part INTEGER",
    "UPDATE problems SET query_id = (SELECT query_id FROM logged_problems WHERE problem = id), part = 1",
    "UPDATE scorings SET part = 1",
    "DROP TABLE logged_problems",
    "DROP TABLE logged_scorings",
    "DROP TABLE query_names",
    "DROP INDEX impressions_unsealed_problem",
    "DELETE FROM migrations WHERE number > 2",
)
