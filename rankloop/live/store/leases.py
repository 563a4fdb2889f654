"""Leases: at most one process seals a store, and at most one learns from it."""

from __future__ import annotations

import os
import secrets
import socket
import time

from sqlalchemy import delete, or_, select, update

from rankloop.live.store.database import Store, insert_new
from rankloop.live.store.tables import leases

LEASE_SECONDS = 30.0


class Lease:
    """A right that one process has at a time; it expires unless it is renewed.

    What needs a lease is safe without it too, since parts are numbered in one transaction; the lease only
    keeps two processes from doing the same work.

    Args:
        store: the store.
        name: what the right is for.
        seconds: how long it lasts.

    Example:
        >>> import tempfile
        >>> from rankloop.live.store.database import open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = open_store(folder)
        ...     first, second = Lease(store, "seal"), Lease(store, "seal")
        ...     first.acquire(), second.acquire(), first.acquire()
        ...     first.release()
        ...     second.acquire()
        ...     store.close()
        (True, False, True)
        True
    """

    def __init__(self, store: Store, name: str, *, seconds: float = LEASE_SECONDS) -> None:
        self.store, self._name, self.seconds = store, name, seconds
        self.holder = f"{_process(os.getpid())}{secrets.token_hex(4)}"

    def acquire(self) -> bool:
        """Take or renew the lease; False if another process has it."""
        now = time.time()
        with self.store.engine.begin() as connection:
            insert_new(connection, leases, [{"name": self._name, "holder": self.holder, "expires_at": 0.0}])
            free = or_(
                leases.c.holder == self.holder,
                leases.c.expires_at < now,
                # A clock that was set back would keep the lease for too long.
                leases.c.expires_at > now + 2 * self.seconds,
            )
            connection.execute(
                update(leases)
                .where(leases.c.name == self._name, free)
                .values(holder=self.holder, expires_at=now + self.seconds)
            )
            holder = connection.scalar(select(leases.c.holder).where(leases.c.name == self._name))
        return holder == self.holder

    def release(self) -> None:
        """Give the lease back."""
        with self.store.engine.begin() as connection:
            connection.execute(
                delete(leases).where(leases.c.name == self._name, leases.c.holder == self.holder)
            )


def release_leases(store: Store, process: int) -> None:
    """Give back what a process of this machine held, which died."""
    with store.engine.begin() as connection:
        connection.execute(
            delete(leases).where(leases.c.holder.startswith(_process(process), autoescape=True))
        )


def _process(number: int) -> str:
    return f"{socket.gethostname()}:{number}:"
