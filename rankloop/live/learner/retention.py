"""Retention: how long things are kept, as the settings say, and never shorter than something needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import Connection, delete, func, or_, select, update

from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.sealing import part_files, part_name, write_manifest, write_table
from rankloop.live.store.database import Store, give_way, read
from rankloop.live.store.parts import DROPPED, SEALED
from rankloop.live.store.tables import (
    events,
    impressions,
    logged_problems,
    logged_scorings,
    parts,
    problems,
    query_names,
    scorings,
)
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS

DAY = 86_400.0
# Rows that one transaction deletes at most, so that requests need not wait for long.
ROWS_AT_ONCE = 200
# Names that are in memory at once while they are forgotten.
NAMES_AT_ONCE = 100_000


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
    """Delete sealed impressions and their events from the database, and return how many impressions.

    What was ranked goes with the last impression of it; the log has it, and the store remembers its name.
    """
    total = 0
    needed = or_(parts.c.state.not_in([SEALED, DROPPED]), parts.c.created_at >= before)
    if counted is not None:
        needed = or_(needed, parts.c.number > counted)
    with read(store) as connection:
        kept = connection.scalar(select(func.min(parts.c.number)).where(needed))
    own = impressions.c.part.is_not(None) if kept is None else impressions.c.part < kept
    while True:
        with read(store) as connection:
            part = connection.scalar(select(func.min(impressions.c.part)).where(own))
            rows = connection.execute(
                select(impressions.c.number, impressions.c.problem)
                .where(impressions.c.part == part)
                .order_by(impressions.c.problem)
            ).all()
        if part is None:
            return total
        for first in range(0, len(rows), ROWS_AT_ONCE):
            chosen, following = rows[first : first + ROWS_AT_ONCE], rows[first + ROWS_AT_ONCE :]
            complete = {row.problem for row in chosen} - {row.problem for row in following[:1]}
            numbers = [row.number for row in chosen]
            with give_way(store) as connection:
                connection.execute(delete(events).where(events.c.impression.in_(numbers)))
                connection.execute(delete(impressions).where(impressions.c.number.in_(numbers)))
                _forget_problems(connection, sorted(complete), part)
        total += len(rows)


def _forget_problems(connection: Connection, chosen: Sequence[bytes], part: int) -> None:
    """Delete those of some problems that no impression after a part has."""
    locked = select(problems.c.id).where(problems.c.id.in_(chosen)).order_by(problems.c.id)
    # A request that needs one of them is stored before this, and found below, or stores it again.
    connection.execute(locked.with_for_update()).all()
    later = select(logged_problems.c.problem).where(
        logged_problems.c.problem.in_(chosen), logged_problems.c.last > part
    )
    unsealed = select(impressions.c.problem).where(
        impressions.c.problem.in_(chosen), impressions.c.part.is_(None)
    )
    used = {*connection.scalars(later), *connection.scalars(unsealed)}
    gone = [problem for problem in chosen if problem not in used]
    connection.execute(delete(scorings).where(scorings.c.problem.in_(gone)))
    connection.execute(delete(problems).where(problems.c.id.in_(gone)))


def drop_parts(store: Store, numbers: Iterable[int]) -> None:
    """Delete impressions of these parts from the log, and candidates and features that nothing refers to."""
    for number in numbers:
        with store.engine.begin() as connection:
            connection.execute(update(parts).where(parts.c.number == number).values(state=DROPPED))
        (store.log / f"{IMPRESSIONS}.parquet" / part_name(number)).unlink(missing_ok=True)
    write_manifest(store)
    with read(store) as connection:
        # Before this part, neither the log nor the database has any impression.
        first = connection.scalar(select(func.min(parts.c.number)).where(parts.c.state != DROPPED))
        rows = connection.scalar(select(func.min(impressions.c.part)))
        newest = connection.scalar(select(func.max(parts.c.number))) or 0
        floor = min(newest + 1 if each is None else each for each in (first, rows))
        kept = connection.scalars(
            select(logged_problems.c.query_id).where(
                logged_problems.c.part < floor, logged_problems.c.last >= floor
            )
        )
        queries = pa.array(kept.all(), pa.string())
    for table in (CANDIDATES, FEATURES):
        for number, file in part_files(store.log, table):
            if number < floor:
                content = pq.read_table(file)
                used = content.filter(pc.is_in(content["query_id"].cast(pa.string()), value_set=queries))
                if not len(used):
                    file.unlink()
                elif len(used) < len(content):
                    write_table(store, table, number, used)
    _forget_names(store, floor)


def _forget_names(store: Store, floor: int) -> None:
    """Forget the names of problems that were last shown before a part: they are not in the log any more."""
    while True:
        with read(store) as connection:
            old = select(logged_problems.c.problem).where(logged_problems.c.last < floor)
            chosen = connection.scalars(old.limit(NAMES_AT_ONCE)).all()
        for first in range(0, len(chosen), ROWS_AT_ONCE):
            own = chosen[first : first + ROWS_AT_ONCE]
            with give_way(store) as connection:
                connection.execute(delete(logged_scorings).where(logged_scorings.c.problem.in_(own)))
                connection.execute(delete(logged_problems).where(logged_problems.c.problem.in_(own)))
        if len(chosen) < NAMES_AT_ONCE:
            break
    with give_way(store) as connection:
        connection.execute(delete(query_names).where(query_names.c.last < floor))


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
