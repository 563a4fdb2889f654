"""Retention: how long things are kept, as the settings say, and never shorter than something needs them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import Connection, and_, delete, select, update

from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.sealing import part_name, write_manifest, write_table
from rankloop.live.store.database import Store, read
from rankloop.live.store.parts import DROPPED, SEALED
from rankloop.live.store.tables import events, impressions, parts, problems, scorings
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS

DAY = 86_400.0
# Rows that one transaction deletes at most, so that requests need not wait for long.
ROWS_AT_ONCE = 5_000


def retain(store: Store, settings: LearnerSettings, *, now: float, counted: int | None) -> list[str]:
    """Delete what is older or larger than the settings allow, and say what was deleted.

    Args:
        store: the store.
        settings: how long things are kept.
        now: the time in seconds since 1970, by a clock that does not jump.
        counted: the last part that the trial has counted: later ones stay in the database. None for all.
    """
    done = []
    rows = forget_rows(store, now - settings.keep_seconds, counted)
    if rows:
        done.append(f"removed {rows:,} sealed impressions from the database; they stay in the log")
    old = _old_parts(store, settings, now)
    if old:
        drop_parts(store, old)
        done.append(f"deleted {len(old)} parts of the log, as the settings say")
    return done


def forget_rows(store: Store, before: float, counted: int | None = None) -> int:
    """Delete sealed impressions and their events from the database, and return how many impressions."""
    total = 0
    ready = and_(parts.c.state.in_([SEALED, DROPPED]), parts.c.created_at < before)
    if counted is not None:
        ready = and_(ready, parts.c.number <= counted)
    old = select(impressions.c.number).where(impressions.c.part.in_(select(parts.c.number).where(ready)))
    while True:
        with store.engine.begin() as connection:
            numbers = list(connection.scalars(old.order_by(impressions.c.number).limit(ROWS_AT_ONCE)))
            if not numbers:
                return total
            connection.execute(delete(events).where(events.c.impression.in_(numbers)))
            connection.execute(delete(impressions).where(impressions.c.number.in_(numbers)))
            total += len(numbers)


def drop_parts(store: Store, numbers: Iterable[int]) -> None:
    """Delete impressions of these parts from the log, and candidates and features that nothing refers to."""
    for number in numbers:
        with store.engine.begin() as connection:
            connection.execute(update(parts).where(parts.c.number == number).values(state=DROPPED))
        (store.log / f"{IMPRESSIONS}.parquet" / part_name(number)).unlink(missing_ok=True)
    write_manifest(store)
    queries = _queries(store.log)
    for table in (CANDIDATES, FEATURES):
        for file in sorted((store.log / f"{table}.parquet").glob("part-*.parquet")):
            content = pq.read_table(file)
            kept = content.filter(pc.is_in(content["query_id"].cast(pa.string()), value_set=queries))
            if not len(kept):
                file.unlink()
            elif len(kept) < len(content):
                write_table(store, table, int(file.stem.removeprefix("part-")), kept)
    with store.engine.begin() as connection:
        _forget_problems(connection, queries)


def _queries(log: Path) -> pa.Array:
    files = sorted((log / f"{IMPRESSIONS}.parquet").glob("part-*.parquet"))
    columns = [pq.read_table(file, columns=["query_id"])["query_id"].cast(pa.string()) for file in files]
    chunks = [chunk for column in columns for chunk in column.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string())) if chunks else pa.array([], pa.string())


def _forget_problems(connection: Connection, queries: pa.Array) -> None:
    """Delete problems that neither the log nor the database refers to: their query ids are free again."""
    in_log = {*queries.to_pylist()}
    used = select(impressions.c.problem)
    rows = connection.execute(
        select(problems.c.id, problems.c.query_id).where(
            problems.c.part.is_not(None), problems.c.id.not_in(used)
        )
    ).all()
    for row in rows:
        if row.query_id not in in_log:
            connection.execute(delete(scorings).where(scorings.c.problem == row.id))
            connection.execute(delete(problems).where(problems.c.id == row.id))


def _old_parts(store: Store, settings: LearnerSettings, now: float) -> list[int]:
    with read(store) as connection:
        rows = connection.execute(
            select(parts.c.number, parts.c.last_time).where(parts.c.state == SEALED).order_by(parts.c.number)
        ).all()
    old = []
    if settings.retain_days is not None:
        limit = now - settings.retain_days * DAY
        old = [row.number for row in rows if row.last_time is not None and row.last_time < limit]
    if settings.retain_bytes is not None:
        total = sum(file.stat().st_size for file in store.log.rglob("part-*.parquet"))
        for row in rows:
            if total <= settings.retain_bytes:
                break
            if row.number not in old:
                old.append(row.number)
            total -= sum(file.stat().st_size for file in store.log.glob(f"*/{part_name(row.number)}"))
    return sorted(old)
