"""Parts of the log in a store: which impressions belong to which part, decided once and for ever.

Sealing has three steps, and may be interrupted between any two of them:

1. one transaction gives impressions that are old enough to a new part; from now on their events are late;
2. the files of the part are written, each whole or not at all; they follow from the store alone;
3. one transaction marks the part as sealed.

A part that was not marked is written again, to the same files with the same content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from rankloop.live.store.tables import impressions, parts, problems, scorings

WRITING, SEALED, DROPPED = "writing", "sealed", "dropped"


def begin_part(connection: Connection, closed: ColumnElement[bool], most: int, now: float) -> int | None:
    """Give impressions to a new part and return its number; None if there are none.

    Args:
        connection: within a transaction.
        closed: the condition that they fulfil.
        most: the largest number of impressions.
        now: the time in seconds since 1970.
    """
    number = (connection.scalar(select(func.max(parts.c.number))) or 0) + 1
    chosen = (
        select(impressions.c.number)
        .where(impressions.c.part.is_(None), closed)
        .order_by(impressions.c.number)
        .limit(most)
    )
    taken = connection.execute(
        update(impressions).where(impressions.c.number.in_(chosen.scalar_subquery())).values(part=number)
    ).rowcount
    if not taken:
        return None
    own = impressions.c.part == number
    name_problems(connection, number)
    for table, match in (
        (problems, problems.c.id.in_(select(impressions.c.problem).where(own))),
        (
            scorings,
            select(impressions.c.number)
            .where(
                own, impressions.c.problem == scorings.c.problem, impressions.c.policy == scorings.c.policy
            )
            .exists(),
        ),
    ):
        connection.execute(update(table).where(table.c.part.is_(None), match).values(part=number))
    connection.execute(
        insert(parts).values(
            number=number, state=WRITING, impressions=taken, rows=0, clicks=0, created_at=now
        )
    )
    return number


def name_problems(connection: Connection, part: int) -> None:
    """Choose query ids for problems that are new in a part.

    The first problem of a query is called like the query. Others of the same query, with other candidates,
    features or rules, are called ``query#2``, ``query#3`` and so on.
    """
    new = connection.execute(
        select(problems.c.id, problems.c.query, func.min(impressions.c.number).label("first"))
        .join(impressions, impressions.c.problem == problems.c.id)
        .where(impressions.c.part == part, problems.c.query_id.is_(None))
        .group_by(problems.c.id, problems.c.query)
        .order_by("first")
    ).all()
    for row in new:
        count = connection.scalar(
            select(func.count()).where(problems.c.query == row.query, problems.c.query_id.is_not(None))
        )
        query_id = row.query if not count else f"{row.query}#{count + 1}"
        while connection.scalar(select(problems.c.id).where(problems.c.query_id == query_id)) is not None:
            # A query whose own text is `query#2` was there first.
            count = (count or 0) + 1
            query_id = f"{row.query}#{count + 1}"
        connection.execute(update(problems).where(problems.c.id == row.id).values(query_id=query_id))


def finish_part(connection: Connection, number: int, numbers: Mapping[str, Any]) -> None:
    """Mark a part as sealed."""
    connection.execute(update(parts).where(parts.c.number == number).values(state=SEALED, **numbers))


def unfinished(connection: Connection) -> list[int]:
    """Parts whose files may be missing."""
    return list(
        connection.scalars(select(parts.c.number).where(parts.c.state == WRITING).order_by(parts.c.number))
    )


def sealed_parts(connection: Connection) -> Iterator[Mapping[str, Any]]:
    """The sealed parts, oldest first."""
    rows = connection.execute(
        select(parts).where(parts.c.state == SEALED).order_by(parts.c.number)
    ).mappings()
    return (dict(row) for row in rows)
