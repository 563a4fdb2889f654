"""Parts of the log in a store: which impressions belong to which part, decided once and for ever.

Sealing has four steps, and may be interrupted between any two of them:

1. short transactions, each for a few impressions, give those that are old enough to a new part; from now on
   their events are late. Between two of them, requests get their turn;
2. one transaction closes the part: nothing is added to it any more;
3. the files of the part are written, each whole or not at all; they follow from the store alone;
4. one transaction marks the part as sealed.

A part that was interrupted in step 1 is closed with what it has. One that was not marked is written again, to
the same files with the same content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from rankloop.live.store.database import insert_new
from rankloop.live.store.tables import (
    impressions,
    logged_problems,
    logged_scorings,
    parts,
    problems,
    query_names,
)

GATHERING, WRITING, SEALED, DROPPED = "gathering", "writing", "sealed", "dropped"
# Impressions that one transaction gives to a part at most: it holds up requests for some milliseconds.
TAKEN_AT_ONCE = 100


class Unsealed(NamedTuple):
    """An impression that may be sealed.

    Attributes:
        number: its number.
        problem: the id of what was ranked.
        policy: the number of the policy that ranked.
    """

    number: int
    problem: bytes
    policy: int


def find_unsealed(connection: Connection, closed: ColumnElement[bool], most: int) -> list[Unsealed]:
    """The oldest impressions that fulfil a condition and belong to no part, at most so many."""
    columns = (impressions.c.number, impressions.c.problem, impressions.c.policy)
    rows = connection.execute(
        select(*columns)
        .where(impressions.c.part.is_(None), closed)
        .order_by(impressions.c.number)
        .limit(most)
    )
    return [Unsealed(*row) for row in rows]


def begin_part(connection: Connection, first: Sequence[Unsealed], now: float) -> int | None:
    """Begin a part with these impressions and return its number; None if other parts have them all.

    Args:
        connection: within a transaction.
        first: its first impressions.
        now: the time in seconds since 1970.
    """
    number = (connection.scalar(select(func.max(parts.c.number))) or 0) + 1
    connection.execute(
        insert(parts).values(number=number, state=GATHERING, impressions=0, rows=0, clicks=0, created_at=now)
    )
    if add_to_part(connection, number, first):
        return number
    connection.execute(parts.delete().where(parts.c.number == number))
    return None


def add_to_part(connection: Connection, number: int, chosen: Sequence[Unsealed]) -> bool:
    """Give impressions to a part that is being gathered; False if it is closed, or other parts have them.

    Problems and scorings that the log does not know yet get a name, and this part.
    """
    state = connection.scalar(select(parts.c.state).where(parts.c.number == number).with_for_update())
    if state != GATHERING:
        return False
    wanted = impressions.c.number.in_([each.number for each in chosen])
    connection.execute(update(impressions).where(wanted, impressions.c.part.is_(None)).values(part=number))
    taken = {*connection.scalars(select(impressions.c.number).where(wanted, impressions.c.part == number))}
    own = [each for each in chosen if each.number in taken]
    if own:
        name_problems(connection, number, list(dict.fromkeys(each.problem for each in own)))
        pairs = dict.fromkeys((each.problem, each.policy) for each in own)
        insert_new(
            connection,
            logged_scorings,
            [{"problem": problem, "policy": policy, "part": number} for problem, policy in pairs],
        )
    return bool(own)


def close_part(connection: Connection, number: int) -> None:
    """Add nothing to a part any more."""
    connection.execute(
        update(parts).where(parts.c.number == number, parts.c.state == GATHERING).values(state=WRITING)
    )


def name_problems(connection: Connection, part: int, shown: Sequence[bytes]) -> None:
    """Choose query ids for those problems of a part that have none.

    The first problem of a query is called like the query. Others of the same query, with other candidates,
    features or rules, are called ``query#2``, ``query#3`` and so on.
    """
    own = logged_problems.c.problem.in_(shown)
    known = {*connection.scalars(select(logged_problems.c.problem).where(own))}
    connection.execute(update(logged_problems).where(own).values(last=part))
    query_of = {
        row.id: row.query
        for row in connection.execute(select(problems.c.id, problems.c.query).where(problems.c.id.in_(shown)))
    }
    queries = sorted({*query_of.values()})
    counts = dict.fromkeys(queries, 0)
    for row in connection.execute(
        select(query_names.c.query, query_names.c.problems).where(query_names.c.query.in_(queries))
    ):
        counts[row.query] = row.problems
    names: dict[str, bytes] = {}
    nameless = [problem for problem in shown if problem not in known]
    while nameless:
        wanted = []
        for problem in nameless:
            query = query_of[problem]
            counts[query] += 1
            wanted.append((query if counts[query] == 1 else f"{query}#{counts[query]}", problem))
        named = select(logged_problems.c.query_id).where(
            logged_problems.c.query_id.in_([name for name, _ in wanted])
        )
        # A query whose own text is `query#2` may have been there first.
        used, nameless = {*connection.scalars(named), *names}, []
        for name, problem in wanted:
            if name in used:
                nameless.append(problem)
            else:
                names[name] = problem
                used.add(name)
    if names:
        rows = [
            {"problem": problem, "query_id": name, "part": part, "last": part}
            for name, problem in names.items()
        ]
        connection.execute(insert(logged_problems), rows)
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    new = dialect.insert(query_names)
    changed = {"problems": new.excluded.problems, "last": new.excluded.last}
    connection.execute(
        new.on_conflict_do_update(index_elements=["query"], set_=changed),
        [{"query": query, "problems": counts[query], "last": part} for query in queries],
    )


def finish_part(connection: Connection, number: int, numbers: Mapping[str, Any]) -> None:
    """Mark a part as sealed."""
    connection.execute(update(parts).where(parts.c.number == number).values(state=SEALED, **numbers))


def unfinished(connection: Connection) -> list[int]:
    """Parts whose files may be missing."""
    states = parts.c.state.in_([GATHERING, WRITING])
    return list(connection.scalars(select(parts.c.number).where(states).order_by(parts.c.number)))


def sealed_parts(connection: Connection) -> Iterator[Mapping[str, Any]]:
    """The sealed parts, oldest first."""
    rows = connection.execute(
        select(parts).where(parts.c.state == SEALED).order_by(parts.c.number)
    ).mappings()
    return (dict(row) for row in rows)


def count_sealed(connection: Connection, *, held: bool = False) -> int:
    """How many impressions were sealed: ever, or those that the log still holds."""
    states = [SEALED] if held else [SEALED, DROPPED]
    found = connection.scalar(select(func.sum(parts.c.impressions)).where(parts.c.state.in_(states)))
    return int(found or 0)
