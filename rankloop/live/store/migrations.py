"""Migrations of a store: numbered, applied once each, in order, every one in its own transaction."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    Table,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
)

from rankloop.errors import DataError
from rankloop.live.store.tables import METADATA, deployments, impressions, notebook, policies, problems

_APPLIED = Table(
    "migrations",
    MetaData(),
    Column("number", Integer, primary_key=True),
    Column("applied_at", Float(53), nullable=False),
)


def _create_tables(connection: Connection) -> None:
    METADATA.create_all(connection)


def _rename_diary(connection: Connection) -> None:
    # `_create_tables` makes the tables of today: a new store has a diary, and nothing to rename.
    if inspect(connection).has_table("verdicts"):
        connection.execute(text("ALTER TABLE verdicts RENAME TO diary"))


def _separate_names(connection: Connection) -> None:
    """Move what the log knows of problems and scorings from their rows into tables of its own."""
    if "query_id" not in {column["name"] for column in inspect(connection).get_columns("problems")}:
        return
    METADATA.create_all(connection)
    for index in impressions.indexes:
        index.create(connection, checkfirst=True)
    # In which part a problem was shown last is not known any more: it is kept as long as the newest part.
    newest = "(SELECT coalesce(max(number), 0) FROM parts)"
    sealed = "FROM problems WHERE query_id IS NOT NULL"
    for statement in (
        "INSERT INTO logged_problems (problem, query_id, part, last) "
        f"SELECT id, query_id, part, {newest} {sealed}",
        "INSERT INTO logged_scorings (problem, policy, part) "
        "SELECT problem, policy, part FROM scorings WHERE part IS NOT NULL",
        "INSERT INTO query_names (query, problems, last) "
        f"SELECT query, count(*), {newest} {sealed} GROUP BY query",
        "ALTER TABLE scorings DROP COLUMN part",
    ):
        connection.execute(text(statement))
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE problems DROP COLUMN query_id, DROP COLUMN part"))
        return
    # SQLite drops no column that is unique.
    connection.execute(text("ALTER TABLE problems RENAME TO earlier_problems"))
    problems.create(connection)
    names = ", ".join(column.name for column in problems.c)
    connection.execute(text(f"INSERT INTO problems ({names}) SELECT {names} FROM earlier_problems"))
    connection.execute(text("DROP TABLE earlier_problems"))


def _note_deployed_features(connection: Connection) -> None:
    """Note which features requests may give: named ones, and those of policies that were deployed."""
    row = connection.execute(select(notebook.c.content).where(notebook.c.name == "features")).scalar()
    names = dict.fromkeys(json.loads(row or "[]"))
    details = {each.name: each.details for each in connection.execute(select(policies))}
    for shares in connection.scalars(select(deployments.c.shares).order_by(deployments.c.number)):
        for share in json.loads(shares):
            names |= dict.fromkeys(json.loads(details[share["policy"]])["feature_names"])
    if names:
        connection.execute(delete(notebook).where(notebook.c.name == "features"))
        connection.execute(insert(notebook).values(name="features", content=json.dumps([*names])))


def _name_store(connection: Connection) -> None:
    """Give the store a name of its own, which the manifest of its log repeats."""
    connection.execute(delete(notebook).where(notebook.c.name == "store"))
    connection.execute(insert(notebook).values(name="store", content=json.dumps(secrets.token_hex(8))))


# A migration that was released is never changed: a change of the tables appends one that alters them.
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _create_tables,
    _rename_diary,
    _separate_names,
    _note_deployed_features,
    _name_store,
)


def migrate(engine: Engine) -> int:
    """Bring the tables of a database up to date and return their version.

    Several processes may start at once: one of them applies a migration, the others find it applied.

    Raises:
        DataError: a newer version of this program made the tables.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Two replicas that start on an empty database create the tables one after the other.
            connection.execute(select(func.pg_advisory_xact_lock(0x72616E6B)))
        _APPLIED.create(connection, checkfirst=True)
        version = connection.scalar(select(func.max(_APPLIED.c.number))) or 0
        if version > len(MIGRATIONS):
            raise DataError(
                f"the store has version {version}, but this program knows versions up to {len(MIGRATIONS)}: "
                f"update rankloop"
            )
        for number, step in enumerate(MIGRATIONS[version:], version + 1):
            step(connection)
            connection.execute(insert(_APPLIED).values(number=number, applied_at=time.time()))
    return len(MIGRATIONS)
