"""Keys of a store: shown once when they are made, stored as hashes, each with its scopes.

A store that ever had a key needs one from then on: removing the last one locks it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable

from sqlalchemy import Connection, delete, select

from rankloop.errors import RankloopError
from rankloop.live.store.database import insert_new
from rankloop.live.store.tables import keys, notebook

RANK, EVENTS, ADMIN = "rank", "events", "admin"
SCOPES = (RANK, EVENTS, ADMIN)
KEY_BYTES = 32
# Where it is kept that the store had a key once.
LOCKED_NOTE, FIRST_KEY_NOTE = "needs keys", "first key"


def add_key(connection: Connection, name: str, scopes: Iterable[str]) -> str:
    """Make a key and return it: only its hash is stored, so it cannot be shown again.

    Raises:
        RankloopError: a scope does not exist, or another key has the name.
    """
    wanted = check_scopes(scopes)
    if name in {*connection.scalars(select(keys.c.name))}:
        raise RankloopError(f"there is a key {name!r} already: choose another name, or remove it first")
    key = secrets.token_urlsafe(KEY_BYTES)
    values = {"hash": hash_key(key), "name": name, "scopes": ",".join(wanted), "created_at": time.time()}
    insert_new(connection, keys, [values])
    insert_new(connection, notebook, [{"name": LOCKED_NOTE, "content": "true"}])
    return key


def add_first_key(connection: Connection, name: str, scopes: Iterable[str]) -> str | None:
    """Make the first key of a store and return it; None if the store has or had one already.

    Of several processes that start on a new store, one makes the key.
    """
    # Others that insert the same row wait for the end of this transaction.
    insert_new(connection, notebook, [{"name": FIRST_KEY_NOTE, "content": "true"}])
    return None if needs_keys(connection) else add_key(connection, name, scopes)


def needs_keys(connection: Connection) -> bool:
    """Whether only clients with a key are let in: the store has one, or had one."""
    noted = select(notebook.c.name).where(notebook.c.name == LOCKED_NOTE)
    return connection.scalar(noted) is not None or connection.scalar(select(keys.c.name).limit(1)) is not None


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once.

    Raises:
        RankloopError: there are none, or one does not exist.
    """
    wanted = tuple(dict.fromkeys(scopes))
    strange = [scope for scope in wanted if scope not in SCOPES]
    if strange or not wanted:
        raise RankloopError(
            f"the scopes of a key are {', '.join(SCOPES)}; got {', '.join(strange) or 'none'}"
        )
    return wanted


def remove_key(connection: Connection, name: str) -> None:
    """Remove a key: requests with it are refused within a second. Without any, all requests are refused."""
    insert_new(connection, notebook, [{"name": LOCKED_NOTE, "content": "true"}])
    if not connection.execute(delete(keys).where(keys.c.name == name)).rowcount:
        known = connection.execute(select(keys.c.name).order_by(keys.c.name)).scalars().all()
        raise RankloopError(f"there is no key {name!r}; the keys are: {', '.join(known) or 'none'}")


def load_keys(connection: Connection) -> dict[str, tuple[str, frozenset[str]]]:
    """By hash, the name and the scopes of every key."""
    return {
        row.hash: (row.name, frozenset(row.scopes.split(","))) for row in connection.execute(select(keys))
    }


def hash_key(key: str) -> str:
    """The hash under which a key is stored; keys are long and random, so that one round is enough."""
    return hashlib.sha256(key.encode()).hexdigest()
