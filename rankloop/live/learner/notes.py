"""What the learner notes in the store: its trial, its settings, and a diary of what it and people did."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sqlalchemy import Connection, insert, select

from rankloop.errors import DataError
from rankloop.live.learner.monitor import Monitor
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.store.database import insert_new
from rankloop.live.store.tables import diary, notebook

Note = TypeVar("Note", LiveTrial, Trust, Monitor)
TRIAL, TRIALS, TRUST, LEARNED, SETTINGS = "trial", "trials", "trust", "learned", "learner settings"
MONITOR, CONTROL, WARNINGS, HEARTBEAT = "monitor", "control", "warnings", "heartbeat"


def load_trial(connection: Connection) -> LiveTrial | None:
    """The trial that is going on; None if there is none that this version can read."""
    return _read(LiveTrial.from_dict, load_note(connection, TRIAL))


def has_old_trial(connection: Connection) -> bool:
    """Whether a trial is stored in a form that this version does not read."""
    return load_note(connection, TRIAL) is not None and load_trial(connection) is None


def load_trust(connection: Connection) -> Trust | None:
    """The policy that a person deployed last, and whether clicks agree with it; None before any trial."""
    return _read(Trust.from_dict, load_note(connection, TRUST))


def load_monitor(connection: Connection) -> Monitor:
    """What is known about the policies that have traffic; nothing if this version cannot read it."""
    return _read(Monitor.from_dict, load_note(connection, MONITOR)) or Monitor()


def load_warnings(connection: Connection, current: LiveDeployment | None) -> list[dict[str, Any]]:
    """What people were warned about that is live now."""
    known = load_note(connection, WARNINGS) or []
    return [each for each in known if current is not None and each["deployment"] == current.number]


def _read(reader: Callable[[Mapping[str, Any]], Note], state: Any) -> Note | None:
    try:
        return None if state is None else reader(state)
    except (DataError, KeyError, TypeError):
        return None


def load_note(connection: Connection, name: str) -> Any:
    """What the learner noted under a name; None if nothing."""
    return json.loads(connection.scalar(select(notebook.c.content).where(notebook.c.name == name)) or "null")


def lock_note(connection: Connection, name: str) -> None:
    """Keep other transactions that lock the same note waiting until this one ends."""
    insert_new(connection, notebook, [{"name": name, "content": "null"}])
    connection.execute(select(notebook.c.name).where(notebook.c.name == name).with_for_update())


def save_note(connection: Connection, name: str, content: Any) -> None:
    """Note something under a name."""
    insert_new(connection, notebook, [{"name": name, "content": "null"}])
    connection.execute(notebook.update().where(notebook.c.name == name).values(content=json.dumps(content)))


def add_entry(connection: Connection, kind: str, text: str, numbers: dict[str, Any]) -> None:
    """Append to the learner's diary."""
    connection.execute(
        insert(diary).values(created_at=time.time(), kind=kind, text=text, numbers=json.dumps(numbers))
    )
