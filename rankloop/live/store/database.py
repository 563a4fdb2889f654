"""The database of a store: SQLite in a folder, or PostgreSQL by its URL."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from rankloop.errors import RankloopError, one_line
from rankloop.live.store.migrations import migrate

DATABASE_FILE, LOG_FOLDER = "store.sqlite", "log"
# How long a writer waits for another one before it fails.
BUSY_SECONDS = 10.0


class StoreLostError(RankloopError):
    """The database was deleted or replaced while it was open: what is written goes nowhere."""


class DatabaseFile:
    """The file of an embedded database, which may be deleted or replaced while it is open.

    The system keeps a deleted file for those who have it open, and SQLite writes to it without an error.

    Args:
        path: the file, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = path.with_name(path.name + "-wal")
        self._opened = self._identity(path)
        self._journal_opened: tuple[int, int] | None = None

    @staticmethod
    def _identity(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def check(self, *, written: bool = False) -> None:
        """Refuse to go on with another file than the one that was opened.

        Args:
            written: whether something was just written: then its journal is there, as long as this process
                has connections.

        Raises:
            StoreLostError: the file or its journal was deleted or replaced.
        """
        journal = self._identity(self._journal)
        if written and self._journal_opened is None:
            self._journal_opened = journal
        for path, opened, now in (
            (self.path, self._opened, self._identity(self.path)),
            (self._journal, self._journal_opened, journal),
        ):
            if opened != now and (path == self.path or opened is not None):
                raise StoreLostError(
                    f"{path} was deleted or replaced while it was in use, so nothing is stored any more: "
                    f"stop the service, restore the store from a backup, and start again"
                )


@dataclass(frozen=True, eq=False)
class Store:
    """An open store: its database, and the folder of its log.

    Attributes:
        engine: connections to the database; every transaction that writes is durable when it ends.
        log: the folder in which parts of the log are sealed.
        location: what was opened, without passwords.
        file: the file of an embedded database; None for PostgreSQL.
    """

    engine: Engine
    log: Path
    location: str
    file: DatabaseFile | None = None

    @property
    def embedded(self) -> bool:
        """Whether the database is SQLite, and so on this machine only."""
        return self.engine.dialect.name == "sqlite"

    def check(self, *, written: bool = False) -> None:
        """Refuse to go on if the database was deleted or replaced; see `DatabaseFile.check`."""
        if self.file is not None:
            self.file.check(written=written)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_store(
    location: str | os.PathLike[str], *, log: str | os.PathLike[str] | None = None, create: bool = True
) -> Store:
    """Open a store, create it if there is none, and bring its tables up to date.

    Args:
        location: a folder, in which the database is SQLite; or the URL of a PostgreSQL database.
        log: the folder of the log; by default ``log`` in the folder of the store. PostgreSQL needs one, and
            only processes that seal or learn must reach it.
        create: whether a folder without a store becomes one.

    Raises:
        RankloopError: the database cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = open_store(folder)
        ...     store.embedded, store.log.name
        ...     store.close()
        (True, 'log')
    """
    text, file = os.fspath(location), None
    if "://" in text:
        try:
            url = make_url(text)
        except ArgumentError as error:
            raise RankloopError(f"{text.partition('@')[2] or 'the store'}: {one_line(error)}") from error
        if url.get_backend_name() != "postgresql":
            raise RankloopError(
                f"{url.render_as_string()}: a store is a folder or a PostgreSQL URL such as "
                f"postgresql://user@host/database"
            )
        engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        shown, folder = url.render_as_string(), Path(log or "rankloop-log")
    else:
        place = Path(text)
        if not create and not (place / DATABASE_FILE).is_file():
            raise RankloopError(f"{place} is not a store: it is not a folder that contains {DATABASE_FILE}")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RankloopError(f"{place}: a store is a folder: {error.strerror or error}") from error
        file = place / DATABASE_FILE
        engine = _sqlite(file)
        shown, folder = str(place), Path(log or place / LOG_FOLDER)
    try:
        migrate(engine)
    except SQLAlchemyError as error:
        engine.dispose()
        raise RankloopError(f"{shown}: the store cannot be opened: {one_line(error)}") from error
    except RankloopError:
        engine.dispose()
        raise
    return Store(engine, folder, shown, None if file is None else DatabaseFile(file))


def insert_new(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, except those whose key is in the table already."""
    if not rows:
        return
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(dialect.insert(table).on_conflict_do_nothing(), rows)


def _sqlite(path: Path) -> Engine:
    # For its owner alone: it holds queries, clicks and hashes of keys. SQLite makes its other files alike.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    engine = create_engine(
        f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # SQLAlchemy begins transactions, not the driver.
        connection.isolation_level = None
        # A commit is on the disk before it returns, also if the machine loses power.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later could not wait for another writer.
        reads = connection.get_execution_options().get("rankloop_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def give_way(store: Store) -> Iterator[Connection]:
    """A short transaction of work that can wait; afterwards, others get as long as it took.

    Whoever waits for a lock of SQLite does not hear when it is free: without a pause, work that consists of
    many transactions would keep requests waiting until all of it is done.
    """
    begun = time.monotonic()
    with store.engine.begin() as connection:
        yield connection
    time.sleep(time.monotonic() - begun)


def read(store: Store) -> Connection:
    """A connection for a transaction that only reads: it sees one state of the store, and blocks nobody."""
    return store.engine.connect().execution_options(rankloop_reads=True)
