"""Import Metarank's ``ranking``, ``interaction`` and ``item`` events, one JSON object per line.

A ranking is one impression:

    event        ``ranking``
    id           the impression
    timestamp    milliseconds since 1970, as a number or as text, or ISO 8601
    items        the shown documents, best first; ``id`` of each is the document
    fields       a list of {name, value}; ``query`` is the query, ``policy`` the policy
    user         who saw it
    session      in which session

An interaction:

    event        ``interaction``
    ranking      the impression
    item         the document
    type         ``click``; other types count only if they are given a weight
    timestamp    as above

An item:

    event        ``item``
    item         the document
    fields       become features; see `rankloop.logs.importers.item_features`
    timestamp    the latest value of a field counts

Recommendations have no query. A ranking without one is a query of its own: every ranking is judged by
itself, and documents are compared across rankings by their features and ids. `MetarankFields.query` chooses
otherwise. Events ``user`` are ignored. An item's score is read from the field ``MetarankFields.score`` of the
item itself or of its ``fields``.

Reference: https://docs.metarank.ai, "Supported events".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.logs.importers.actions import NO_AMOUNTS, Actions
from rankloop.logs.importers.files import Paths, Record
from rankloop.logs.importers.item_features import ItemFields
from rankloop.logs.importers.mapping import (
    CLICK_TYPES,
    QUERY_AUTO,
    MetarankFields,
    MetarankMapping,
    stored_text,
)
from rankloop.logs.importers.parsing import BadValueError, microseconds, score, text_id
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES
from rankloop.logs.schema import IMPRESSIONS

# Where the query of a ranking comes from, apart from a field: the field ``query`` or else the ranking, the
# ranking, the session, the user, or one query for all rankings.
AUTO, RANKING, SESSION, USER, NONE = QUERY_SOURCES = (QUERY_AUTO, "ranking", "session", "user", "none")
QUERY_FIELD = "query"
# The id of the one query that all rankings share.
BROWSE = "browse"


FIELDS = MetarankFields()


def import_metarank(
    events: Paths,
    out: str | os.PathLike[str],
    *,
    policy: str | None = None,
    clicks: Collection[str] = CLICK_TYPES,
    amounts: Mapping[str, float] = NO_AMOUNTS,
    fields: MetarankFields = FIELDS,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import Metarank's events.

    Args:
        events: files of events, of all kinds and in any order.
        out: the folder of the log.
        policy: the policy of rankings without one; ``production`` by default.
        clicks: the types of interactions that count as clicks.
        amounts: the weights of types of interactions; the log then has a column ``amount``.
        fields: where to find the query, the policy and scores.
        options: options of all imports.
    """
    actions = Actions(clicks, amounts)

    def read(session: ImportSession) -> None:
        reader = _Events(session, policy, actions, fields)
        session.each(events, "Metarank events", reader, command="metarank", kind=_kind)
        reader.finish()

    mapping = MetarankMapping(
        policy=policy, clicks=tuple(clicks), amounts=amounts, fields=fields, normalise=options.normalise
    )
    return run(read, out, options, counted=True, mapping=stored_text(mapping))


def _kind(record: Record) -> str:
    return f"{record.values.get('event')} events"


class _Events:
    def __init__(
        self, session: ImportSession, policy: str | None, actions: Actions, fields: MetarankFields
    ) -> None:
        self.session, self.policy, self.actions, self.fields = session, policy, actions, fields
        self.items = ItemFields()
        self.without_query = 0
        session.amounts = actions.any_amounts

    def __call__(self, record: Record) -> None:
        event = record.values.get("event")
        if event == "ranking":
            self._ranking(record)
        elif event == "interaction":
            self._interaction(record)
        elif event == "item" and self.fields.items:
            self._item(record)
        elif event in ("item", "user"):
            self.session.aside[f"{event} events"] += 1
        else:
            raise BadValueError(f"the event is {event!r}; expected ranking, interaction, item or user")

    def finish(self) -> None:
        """Hand over the features of items, and say how rankings without a query were treated."""
        if self.without_query:
            self.session.hints.append(
                f"{self.without_query:,} rankings have no query: each is a query of its own (--query "
                f"session, user or none makes other queries of them)."
            )
        # Items without any field have no features.
        if len(self.items) and self.session.options.features is None:
            items, columns = self.items.encode()
            if columns:
                self.session.features = lambda ids: _features(ids, items, columns)

    def _ranking(self, record: Record) -> None:
        values = record.values
        impression, time = text_id(values.get("id"), "id"), microseconds(values.get("timestamp"))
        fields = _fields(values.get("fields"))
        query = self._query(values, fields, impression)
        policy = fields.get(self.fields.policy, self.policy)
        if policy is None:
            policy = self.session.unnamed_policy()
        elif self.policy is None:
            self.session.named = True
        items = values.get("items")
        if not isinstance(items, list):
            raise BadValueError("items is not a list")
        policy = text_id(policy, f"field {self.fields.policy!r}")
        shown, scored = [], []
        for position, item in enumerate(items, 1):
            document = text_id(item.get("id") if isinstance(item, dict) else None, "id of an item")
            shown.append((record.place, impression, time, query, policy, position, document, False, None))
            if self.fields.score is not None:
                given = item.get(self.fields.score, _fields(item.get("fields")).get(self.fields.score))
                value = score(given, f"an item's {self.fields.score!r}")
                scored.append((record.place, policy, query, document, value))
        if not shown:
            place = self.session.files.place_name(record.place)
            self.session.found.add("empty_impressions", f"{place}: query {query!r}")
        self.items.latest = max(self.items.latest, time or 0)
        self.session.staging.add(IMPRESSIONS, shown)
        self.session.staging.add(SCORES, scored)

    def _query(self, values: dict[str, Any], fields: dict[str, Any], impression: str) -> str:
        source = self.fields.query
        if source == NONE:
            return BROWSE
        if source == RANKING:
            return impression
        if source in (SESSION, USER):
            return text_id(values.get(source), source)
        if source != AUTO:
            return text_id(fields.get(source), f"field {source!r}")
        query = fields.get(QUERY_FIELD)
        if query is None or query == "":
            self.without_query += 1
            return impression
        return text_id(query, f"field {QUERY_FIELD!r}")

    def _interaction(self, record: Record) -> None:
        values = record.values
        kind = text_id(values.get("type"), "type")
        action = self.actions.of(kind)
        if action is None:
            self.session.aside[f"interactions of type {kind!r}"] += 1
            return
        document, time = text_id(values.get("item"), "item"), microseconds(values.get("timestamp"))
        impression = values.get("ranking")
        if impression is None or impression == "":
            place = self.session.files.place_name(record.place)
            self.session.found.add("clicks_without_impression", f"{place}: document {document!r}, no ranking")
            return
        impression = text_id(impression, "ranking")
        row = (record.place, impression, document, time, None, kind, action.value, action.is_click)
        self.session.staging.add(CLICKS, [row])

    def _item(self, record: Record) -> None:
        values = record.values
        item, time = text_id(values.get("item"), "item"), microseconds(values.get("timestamp"))
        self.items.add(item, time, _fields(values.get("fields")))
        self.items.latest = max(self.items.latest, time or 0)


def _features(
    ids: Iterator[pa.RecordBatch], items: list[str], columns: Mapping[str, np.ndarray]
) -> Iterator[pa.Table]:
    """The features of query–document pairs; documents without item events are left out."""
    known = pa.array(items, pa.string())
    for batch in ids:
        places = pc.index_in(batch.column("doc_id"), value_set=known)
        pairs = batch.filter(places.is_valid())
        rows = places.drop_null().to_numpy()
        features = {name: pa.array(numbers[rows]) for name, numbers in columns.items()}
        pairs = {name: pairs.column(name) for name in ("query_id", "doc_id")}
        yield pa.table(pairs | features)


def _fields(value: Any) -> dict[str, Any]:
    """Convert a list of {name, value} to a dictionary."""
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(field, dict) and "name" in field for field in value):
        raise BadValueError("fields is not a list of {name, value}")
    return {str(field["name"]): field.get("value") for field in value}
