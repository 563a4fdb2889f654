"""Events in a store: attributed to impressions, each counted once, the others tallied by what is wrong."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from rankloop.live.ranking.rules import place
from rankloop.live.store.database import insert_new
from rankloop.live.store.impressions import read_drawn, read_pins
from rankloop.live.store.tables import events, impressions, problems, tallies
from rankloop.logs.problems import KINDS as IMPORT_KINDS

CLICK = "click"
ACCEPTED = "accepted"
NO_WEIGHTS: Mapping[str, float] = MappingProxyType({})
# Early clicks are kept, and so are those that say another position than the document's, as in imports.
EARLY, WITHOUT, NOT_SHOWN = "early_clicks", "clicks_without_impression", "clicks_not_shown"
AGAIN, MOVED = "repeated_clicks", "disagreeing_positions"
REPEATED, LATE, UNUSED = "repeated_events", "late_events", "unused_events"
KINDS: Mapping[str, str] = MappingProxyType(
    {
        **{name: IMPORT_KINDS[name].what for name in (EARLY, WITHOUT, NOT_SHOWN, AGAIN, MOVED)},
        REPEATED: "events whose id was received before: counted once",
        LATE: "events on impressions that were sealed already: left out",
        UNUSED: "events that are not about a document of a page: left out",
    }
)


@dataclass(frozen=True)
class UserEvent:
    """Something that a user did with a document that was shown.

    Attributes:
        impression: the id of the impression.
        document: the id of the document.
        kind: ``click``, or another action.
        id: identifies the event among those of its impression; None for one that is derived from its content.
        value: what it is worth, if that is known.
        time: when it happened, in seconds since 1970, if that is known.
        position: where the client saw the document, from 1, if it says so.
    """

    impression: str
    document: str
    kind: str = CLICK
    id: str | None = None
    value: float | None = None
    time: float | None = None
    position: int | None = None

    @property
    def key(self) -> str:
        """Identifies it in the store: the same event sent twice has the same one.

        Clients count their events per page: an id says nothing about events on other impressions.
        """
        own = [self.id] if self.id is not None else [self.document, self.kind, self.value, self.time]
        content = json.dumps([self.impression, *own])
        return "=" + hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


class Reaction(NamedTuple):
    """What a user did with a document on a page.

    Attributes:
        clicked: whether it was clicked.
        amount: what the best action on it was worth: the value that the action has, or else 1 for a click.
    """

    clicked: bool = False
    amount: float = 0.0


class Recorded(NamedTuple):
    """What became of a batch of events.

    Attributes:
        counts: how many were accepted, and how many had which problem.
        clicked: the positions of the documents that were clicked for the first time.
    """

    counts: Counter[str]
    clicked: list[int]


@dataclass(frozen=True)
class _Shown:
    number: int
    time: float
    sealed: bool
    positions: Mapping[str, int]


def record_events(
    connection: Connection, batch: Sequence[UserEvent], received_at: float, unused: int = 0
) -> Recorded:
    """Store a batch of events and return what became of them.

    An event that cannot be attributed is counted and left out; it never fails the others.

    Args:
        connection: within a transaction.
        batch: the events.
        received_at: the server's time, in seconds since 1970.
        unused: events that came with them and say nothing about a document; they are only counted.
    """
    counts: Counter[str] = Counter({UNUSED: unused})
    shown = _impressions(connection, {event.impression for event in batch})
    known = {*connection.scalars(select(events.c.id).where(events.c.id.in_([event.key for event in batch])))}
    clicked = _clicked(connection, [one.number for one in shown.values()])
    rows: dict[str, dict[str, Any]] = {}
    positions: list[int] = []
    for event in batch:
        one = shown.get(event.impression)
        if event.key in known or event.key in rows:
            counts[REPEATED] += 1
        elif one is None:
            counts[WITHOUT] += 1
        elif event.document not in one.positions:
            counts[NOT_SHOWN] += 1
        elif one.sealed:
            counts[LATE] += 1
        else:
            counts[ACCEPTED] += 1
            position = one.positions[event.document]
            if event.time is not None and event.time < one.time:
                counts[EARLY] += 1
            if event.position is not None and event.position != position:
                counts[MOVED] += 1
            if event.kind == CLICK:
                if (one.number, event.document) in clicked:
                    counts[AGAIN] += 1
                else:
                    positions.append(position)
                clicked.add((one.number, event.document))
            rows[event.key] = {
                "id": event.key,
                "impression": one.number,
                "document": event.document,
                "position": position,
                "kind": event.kind,
                "value": event.value,
                "time": event.time,
                "received_at": received_at,
            }
    insert_new(connection, events, list(rows.values()))
    add_tallies(connection, counts)
    return Recorded(+counts, positions)


def add_tallies(connection: Connection, counts: Mapping[str, int]) -> None:
    """Add to the tallies of the store."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    # Always in the same order: two transactions then never wait for each other.
    for name in sorted(counts):
        if counts[name]:
            new = dialect.insert(tallies).values(name=name, count=counts[name])
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=["name"], set_={"count": tallies.c.count + counts[name]}
                )
            )


def read_tallies(connection: Connection) -> dict[str, int]:
    """How many events were accepted, and how many had which problem, since the store was made."""
    return {row.name: int(row[1]) for row in connection.execute(select(tallies))}


def read_reactions(
    connection: Connection, part: int, weights: Mapping[str, float] = NO_WEIGHTS
) -> dict[tuple[int, str], Reaction]:
    """What users did with the documents of a part, by impression and document.

    Args:
        connection: within a transaction.
        part: the number of the part.
        weights: what actions are worth that have no value of their own, by kind; a click is worth 1, and
            others nothing.
    """
    found: dict[tuple[int, str], Reaction] = {}
    kinds = {CLICK: 1.0, **weights}
    for row in connection.execute(
        select(events.c.impression, events.c.document, events.c.kind, events.c.value)
        .join(impressions, impressions.c.number == events.c.impression)
        .where(impressions.c.part == part)
    ):
        key = (row.impression, row.document)
        before = found.get(key, Reaction())
        amount = kinds.get(row.kind, 0.0) if row.value is None else row.value
        found[key] = Reaction(before.clicked or row.kind == CLICK, max(before.amount, amount))
    return found


def _impressions(connection: Connection, ids: set[str]) -> dict[str, _Shown]:
    wanted = select(
        impressions.c.id,
        impressions.c.number,
        impressions.c.time,
        impressions.c.drawn,
        impressions.c.rules,
        impressions.c.part,
        problems.c.documents,
    ).join(problems, problems.c.id == impressions.c.problem)
    # A part that is sealed at this moment either waits for these events or is seen here.
    rows = connection.execute(
        wanted.where(impressions.c.id.in_(ids)).with_for_update(read=True, of=impressions)
    )
    return {row.id: _Shown(row.number, row.time, row.part is not None, _positions(row)) for row in rows}


def _positions(row: Any) -> dict[str, int]:
    documents = msgspec.msgpack.decode(row.documents)
    rules = json.loads(row.rules)
    drawn = [documents[number] for number in read_drawn(row.drawn)]
    return {document: position for position, document in place(drawn, read_pins(rules), rules["top"]).items()}


def _clicked(connection: Connection, numbers: Sequence[int]) -> set[tuple[int, str]]:
    found = select(events.c.impression, events.c.document).where(
        events.c.impression.in_(numbers), events.c.kind == CLICK
    )
    return {(row.impression, row.document) for row in connection.execute(found)}
