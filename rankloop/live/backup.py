"""Backups of a store, and what to do with a log that does not fit its database.

The database says which parts the log has. After a database or a log was restored from a backup, one is older
than the other: parts that the database does not know are put aside, and parts whose files are missing are
written again, or given up.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import select, update

from rankloop.errors import RankloopError
from rankloop.live.sealing import MANIFEST, part_files, part_name, store_name, write_manifest, write_part
from rankloop.live.store.database import DATABASE_FILE, Store, open_store, read
from rankloop.live.store.parts import DROPPED, SEALED
from rankloop.live.store.tables import impressions, parts
from rankloop.logs.schema import IMPRESSIONS, TABLES
from rankloop.storage.files import check_folder, replace_folder


def back_up(store: Store, folder: str | os.PathLike[str]) -> Path:
    """Copy a store into a folder, which is a store then; servers and learners may run meanwhile.

    The copy is the store at one moment, with everything that was acknowledged before this was called.

    Args:
        store: a store in a folder.
        folder: where the copy goes; it does not exist yet, or is empty.

    Raises:
        RankloopError: the database is PostgreSQL, or the folder has other content.
    """
    if store.file is None:
        raise RankloopError(
            f"{store.location}: PostgreSQL has backups of its own: dump the database first (pg_dump), then "
            f"copy the folder of the log"
        )
    store.check()
    target = Path(folder)
    check_folder(target)
    with replace_folder(target, check=lambda: check_folder(target)) as filled:
        # One transaction that reads: writers go on. It is copied before the log, whose parts never change.
        with closing(sqlite3.connect(store.file.path, isolation_level=None)) as plain:
            plain.execute("VACUUM INTO ?", (str(filled / DATABASE_FILE),))
        (filled / DATABASE_FILE).chmod(0o600)
        copy = open_store(filled)
        try:
            with read(copy) as connection:
                known = {*connection.scalars(select(parts.c.number))}
            for table in TABLES:
                for number, file in part_files(store.log, table):
                    if number in known:
                        (copy.log / file.parent.name).mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(file, copy.log / file.parent.name / file.name)
            if copy.log.is_dir():
                write_manifest(copy)
        finally:
            copy.close()
    return target


def reconcile(store: Store) -> list[str]:
    """Make the log fit the database, and say what was done.

    Only the process that seals may call this.

    Raises:
        RankloopError: the folder is the log of another store.
    """
    _refuse_other_log(store)
    # Files first: a part is in the database before its files are.
    files = {table: part_files(store.log, table) for table in TABLES}
    with read(store) as connection:
        known = {row.number: row for row in connection.execute(select(parts))}
    done = _put_aside(store, [file for own in files.values() for number, file in own if number not in known])
    for number, part in known.items():
        path = store.log / f"{IMPRESSIONS}.parquet" / part_name(number)
        if part.state == SEALED and part.rows and not path.exists():
            done.append(_restore(store, number))
    if done:
        write_manifest(store)
    return done


def _refuse_other_log(store: Store) -> None:
    try:
        manifest = json.loads((store.log / MANIFEST).read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        # Damaged; it is written again with the next part.
        return
    if not isinstance(manifest, dict):
        return
    with read(store) as connection:
        name = store_name(connection)
    if manifest.get("store", name) != name:
        raise RankloopError(
            f"{store.log} is the log of another store than {store.location}: choose another folder with --log"
        )


def _put_aside(store: Store, files: list[Path]) -> list[str]:
    if not files:
        return []
    aside = store.log.with_name(f"{store.log.name}-unknown-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    for file in files:
        place = aside / file.parent.name
        place.mkdir(parents=True, exist_ok=True)
        file.rename(place / file.name)
    count = len({file.name for file in files})
    return [f"{count} parts of the log that the database does not know were moved to {aside}"]


def _restore(store: Store, number: int) -> str:
    with read(store) as connection:
        kept = connection.scalar(select(impressions.c.number).where(impressions.c.part == number).limit(1))
    if kept is not None:
        write_part(store, number, {})
        return f"part {number} of the log was missing and was written again"
    with store.engine.begin() as connection:
        connection.execute(update(parts).where(parts.c.number == number).values(state=DROPPED))
    return f"part {number} of the log is missing, and so are its pages in the database: it is given up"
