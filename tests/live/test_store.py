"""The store when things go wrong: a full disk, a slow disk, a bad job, another version, old data."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from rankloop import open_log
from rankloop.errors import DataError, RankloopError
from rankloop.live import RankRequest, Service, ServiceSettings, Store, open_store, sealing
from rankloop.live.http.app import build_app
from rankloop.live.learner.retention import drop_parts, forget_rows
from rankloop.live.store.leases import LEASE_SECONDS, Lease
from rankloop.live.store.policies import roll_back
from rankloop.live.store.tables import impressions, logged_problems, problems, query_names, scorings
from tests.live.asgi import send

sqlite_only = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
REQUEST = RankRequest("cat", ("x", "y", "z"), ([1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.5, 0.5]))
BODY = json.dumps(
    {"query": "cat", "candidates": [{"id": one, "features": [1, 2, 3]} for one in "xyz"]}
).encode()


def count(store: Store) -> int:
    with store.engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(impressions)) or 0


@sqlite_only
def test_a_full_disk_refuses_and_loses_nothing(store: Store, service: Service) -> None:
    """The disk is full as far as SQLite is concerned: the database may not grow."""
    app = build_app(service, host="127.0.0.1")

    async def rank() -> int:
        return (await send(app, "POST", "/rank", BODY))[0]

    assert asyncio.run(rank()) == 200
    with store.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    service.writer.submit(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}")).result()
    statuses = []
    for _ in range(400):
        statuses.append(asyncio.run(rank()))
        if statuses[-1] != 200:
            break
    assert statuses[-1] == 503
    assert count(store) == 1 + statuses.count(200)
    assert asyncio.run(send(app, "GET", "/readyz"))[0] == 503
    service.writer.submit(lambda c: c.exec_driver_sql("PRAGMA max_page_count=1000000")).result()
    assert asyncio.run(rank()) == 200


@sqlite_only
def test_a_slow_store_is_not_acknowledged(store: Store) -> None:
    from rankloop.live import prepare

    prepare(store)
    service = Service(store, ServiceSettings(request_seconds=0.3), names=("a", "b", "c"))
    app = build_app(service, host="127.0.0.1")
    service.writer.submit(lambda _: time.sleep(1.0))
    status, answer = asyncio.run(send(app, "POST", "/rank", BODY))
    assert (status, "longer than" in answer.decode()) == (503, True)
    service.close()


def test_a_bad_job_does_not_take_others_with_it(store: Store, service: Service) -> None:
    slow = service.writer.submit(lambda _: time.sleep(0.3))
    good = service.writer.submit(lambda connection: connection.scalar(select(1)))
    bad = service.writer.submit(lambda connection: roll_back(connection, who="a", why="b"))
    after = service.keep(service.serve(service.draft(REQUEST), service.choose()))
    assert (slow.result(), good.result()) == (None, 1)
    with pytest.raises(RankloopError, match="no earlier deployment"):
        bad.result()
    assert after.result().id
    assert count(store) == 1
    assert not service.writer.failing


def test_a_store_of_a_newer_version_is_refused(store: Store, location: str) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO migrations VALUES (99, 0.0)")
    with pytest.raises(DataError, match="version 99"):
        open_store(location, log=store.log)


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="not a store"):
        open_store(tmp_path, create=False)
    with pytest.raises(RankloopError, match="PostgreSQL URL"):
        open_store("mysql://user:secret@host/db")
    with pytest.raises(RankloopError, match="cannot be opened") as caught:
        open_store("postgresql://nobody:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_one_process_at_a_time_holds_a_lease(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, now = Lease(store, "learner"), Lease(store, "learner"), time.time()
    monkeypatch.setattr("rankloop.live.store.leases.time.time", lambda: now)
    assert [first.acquire(), second.acquire()] == [True, False]
    now += LEASE_SECONDS + 0.1
    assert [second.acquire(), first.acquire()] == [True, False]


def test_old_rows_and_old_parts_go_when_they_are_told_to(store: Store, service: Service) -> None:
    service.rank(RankRequest("old", ("x",), ([1.0, 1.0, 1.0],)))
    service.rank(REQUEST)
    sealing.seal(store, time.time() + 1)
    service.rank(REQUEST)
    sealing.seal(store, time.time() + 1)
    assert forget_rows(store, time.time() + 1, counted=1) == 2
    assert count(store) == 1
    drop_parts(store, [1])
    log = open_log(store.log)
    assert log.check().impressions == 1
    for table in ("candidates", "features"):
        queries = pq.read_table(store.log / f"{table}.parquet")["query_id"].to_pylist()
        assert {*queries} == {"cat"}
    with store.engine.connect() as connection:
        assert connection.scalars(select(problems.c.query)).all() == ["cat"]
    # A server remembers for minutes which problems are stored, and retention keeps them for an hour at least.
    later = Service(store)
    later.rank(RankRequest("old", ("x",), ([1.0, 1.0, 1.0],)))
    later.close()
    sealing.seal(store, time.time() + 1)
    assert open_log(store.log).check().impressions == 2


@sqlite_only
def test_an_error_of_the_database_is_reported_to_the_caller(service: Service) -> None:
    failed = service.writer.submit(lambda connection: connection.exec_driver_sql("SELECT * FROM nothing"))
    with pytest.raises(OperationalError):
        failed.result()
    assert service.writer.failing


def test_the_database_keeps_nothing_of_old_pages_but_names(store: Store, service: Service) -> None:
    """Every page is new; what comes again is known by its name, and is in the log once."""
    again = RankRequest("again", ("x",), ([9.0, 9.0, 9.0],))
    for number in range(220):
        features = tuple([float(number), float(place), 0.0] for place in range(3))
        pending = service.keep(
            service.serve(service.draft(RankRequest("cat", ("x", "y", "z"), features)), service.choose())
        )
        if number % 100 == 0:
            service.rank(again)
    pending.result()
    sealing.seal(store, time.time() + 1)
    waiting = service.rank(RankRequest("cat", ("x", "y", "z"), features))
    assert forget_rows(store, time.time() + 1) == 223
    with store.engine.connect() as connection:
        assert connection.scalars(select(problems.c.query)).all() == ["cat"]
        assert connection.scalar(select(func.count()).select_from(scorings)) == 1
        assert connection.scalar(select(func.count()).select_from(logged_problems)) == 221
    assert count(store) == 1
    service.close()
    later = Service(store)
    later.rank(again)
    later.close()
    sealing.seal(store, time.time() + 1)
    log = open_log(store.log)
    assert log.check().impressions == 225
    pairs = [
        (row["query_id"], row["doc_id"]) for row in pq.read_table(store.log / "features.parquet").to_pylist()
    ]
    assert len(pairs) == len({*pairs}) == 220 * 3 + 1
    assert waiting.id in pq.read_table(store.log / "impressions.parquet")["impression_id"].to_pylist()
    # What was shown last in parts that are deleted is forgotten, and what came again is not.
    drop_parts(store, [1])
    with store.engine.connect() as connection:
        names = connection.scalars(select(logged_problems.c.query_id).order_by("query_id")).all()
        assert names == ["again", "cat#220"]
        assert connection.scalars(select(query_names.c.query).order_by("query")).all() == ["again", "cat"]
    assert open_log(store.log).check().impressions == 2
