"""What UBI's queries showed: from their ``impression`` events, or from their hits.

Clients reuse query ids: while a user types, filters or turns pages, one ``query_id`` gets several lists of
impression events. Each list is one impression: the first has the query's id, later ones ``id#2``, and
so on. A list ends where a position shows another document, or where the text of the query changes. A click
belongs to the last list before it that shows its document.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from ibis import _

from rankloop.logs.engines import Engine, engine
from rankloop.logs.importers.pipeline import ImportSession
from rankloop.logs.importers.staging import CLICKS, SCHEMAS, TIME, Staging
from rankloop.logs.schema import IMPRESSIONS

EVENTS = "events"
HITS, IMPRESSION_EVENTS, AUTO = "hits", "impressions", "auto"
SHOWN = (AUTO, HITS, IMPRESSION_EVENTS)
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)

_TEXT = pa.string()
RAW_SCHEMAS = {
    # Queries have hits, impression events a position and a document.
    EVENTS: pa.schema(
        [
            ("place", pa.int64()),
            ("impression_id", _TEXT),
            ("timestamp", TIME),
            ("query_id", _TEXT),
            ("policy_id", _TEXT),
            ("application", _TEXT),
            ("hits", pa.list_(_TEXT)),
            ("position", pa.int64()),
            ("doc_id", _TEXT),
        ]
    ),
    CLICKS: SCHEMAS[CLICKS].append(pa.field("application", _TEXT)),
}
RAW_TABLES = tuple(RAW_SCHEMAS)


@dataclass
class Display:
    """A list of results."""

    time: datetime | None
    text: str | None
    policy: str | None
    rows: list[tuple[int, int, str]] = field(default_factory=list)
    at: dict[int, str] = field(default_factory=dict)

    def add(self, place: int, position: int, document: str) -> None:
        """Add a document."""
        self.rows.append((place, position, document))
        self.at[position] = document


class Displays:
    """Makes impressions of queries and their impression events, and hands the clicks on."""

    def __init__(self, session: ImportSession, policy: str | None, shown: str, ranks: int | None) -> None:
        self.session, self.policy, self.shown, self.ranks = session, policy, shown, ranks
        self._bases: dict[str, int] = {}
        self._several: dict[str, list[tuple[str, Display]]] = {}
        self._from_events = 0

    def assemble(self, raw: Staging) -> None:
        """Stage impressions and clicks."""
        with engine() as running:
            events = running.table([raw.path(EVENTS)])
            self._find_bases(events, running)
            ordered = events.order_by("impression_id", "timestamp", "place")
            rows = (row for batch in running.batches(ordered) for row in batch.to_pylist())
            for impression, group in itertools.groupby(rows, key=lambda row: row["impression_id"]):
                self._stage(impression, list(group))
            self._stage_clicks(raw.path(CLICKS), running)
        if self._from_events:
            self.session.hints.append(
                f"What {self._from_events:,} impressions showed is taken from impression events, not hits."
            )
        if self._several:
            self.session.hints.append(
                f"{len(self._several):,} query ids have several lists of results, each of which is an "
                f"impression of its own, as in {next(iter(self._several))}#2."
            )

    def _find_bases(self, events: Any, running: Engine) -> None:
        lowest = events.filter(_.hits.isnull()).group_by("application").agg(low=_.position.min())
        given = self.session.options.position_base
        for batch in running.batches(lowest):
            for row in batch.to_pylist():
                base = given if given is not None else int(row["low"] != 0)
                self._bases[row["application"]] = base

    def _stage(self, impression: str, group: list[dict[str, Any]]) -> None:
        searches = [row for row in group if row["hits"] is not None]
        events = [row for row in group if row["hits"] is None]
        with_hits = [row for row in searches if row["hits"]]
        # Hits are what the engine returned, and not always what the page showed, or in this order.
        use_hits = self.shown == HITS or (self.shown == AUTO and not events)
        if use_hits and events:
            self.session.aside["impression events, because shown is hits"] += len(events)
        displays = [] if use_hits else self._from(events, searches)
        if use_hits and with_hits:
            self._stage_hits(with_hits)
            return
        if not displays:
            for row in searches:
                place = self.session.files.place_name(row["place"])
                self.session.found.add("empty_impressions", f"{place}: query {row['query_id']!r}")
            return
        self._from_events += len(displays)
        named = [
            (impression if number == 1 else f"{impression}#{number}", display)
            for number, display in enumerate(displays, 1)
        ]
        if len(named) > 1:
            self._several[impression] = named
        for name, display in named:
            self._add(name, display)

    def _stage_hits(self, searches: list[dict[str, Any]]) -> None:
        for row in searches:
            display = Display(row["timestamp"], row["query_id"], row["policy_id"])
            for position, document in enumerate(row["hits"][: self.ranks], 1):
                display.add(row["place"], position, document)
            self._add(row["impression_id"], display)

    def _from(self, events: list[dict[str, Any]], searches: list[dict[str, Any]]) -> list[Display]:
        displays: list[Display] = []
        for row in events:
            position = row["position"] - self._bases[row["application"]] + 1
            search, document = _search_before(row["timestamp"], searches), row["doc_id"]
            text = row["query_id"] or (None if search is None else search["query_id"])
            last = displays[-1] if displays else None
            if (
                last is None
                or last.at.get(position, document) != document
                or (text is not None and last.text is not None and text != last.text)
            ):
                policy = self.policy if search is None else search["policy_id"]
                last = Display(row["timestamp"], text, policy)
                displays.append(last)
            last.text = last.text or text
            last.add(row["place"], position, document)
        return displays

    def _add(self, impression: str, display: Display) -> None:
        # Where queries name policies, that of an impression without its query is not known.
        if display.policy is None and not self.session.named:
            display.policy = self.session.unnamed_policy()
        if display.text is None or display.policy is None:
            place = self.session.files.place_name(display.rows[0][0])
            self.session.found.add(
                "unknown_queries", f"{place}: impression {impression!r}", count=len(display.rows)
            )
            return
        time = _microseconds(display.time)
        self.session.staging.add(
            IMPRESSIONS,
            [
                (place, impression, time, display.text, display.policy, position, document, False, None)
                for place, position, document in display.rows
            ],
        )

    def _stage_clicks(self, clicks: Path, running: Engine) -> None:
        for batch in running.batches(running.table([clicks]).order_by("place")):
            self.session.staging.add(CLICKS, [self._click(row) for row in batch.to_pylist()])

    def _click(self, row: dict[str, Any]) -> tuple[Any, ...]:
        position, base = row["position"], self._bases.get(row["application"])
        if position is not None and base is not None:
            position += 1 - base
        return (
            row["place"],
            self._display_of(row),
            row["doc_id"],
            _microseconds(row["timestamp"]),
            position,
            row["action"],
            row["value"],
            row["click"],
        )

    def _display_of(self, click: dict[str, Any]) -> str:
        impression: str = click["impression_id"]
        showing = [
            (name, display)
            for name, display in self._several.get(impression, ())
            if click["doc_id"] in display.at.values()
        ]
        if not showing:
            return impression
        time = click["timestamp"] or EARLIEST
        before = [name for name, display in showing if (display.time or EARLIEST) <= time]
        return before[-1] if before else showing[0][0]


def _search_before(time: datetime | None, searches: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last query before a time; the first one if there is none before it, as clocks differ."""
    before = [row for row in searches if (row["timestamp"] or EARLIEST) <= (time or EARLIEST)]
    return before[-1] if before else next(iter(searches), None)


def _microseconds(time: datetime | None) -> int | None:
    if time is None:
        return None
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
