"""Import Metarank's ``ranking`` and ``interaction`` events, one JSON object per line.

A ranking is one impression:

    event        ``ranking``
    id           the impression
    timestamp    milliseconds since 1970, as a number or as text, or ISO 8601
    items        the shown documents, best first; ``id`` of each is the document
    fields       a list of {name, value}; ``query`` is the query, ``policy`` the policy

An interaction:

    event        ``interaction``
    ranking      the impression
    item         the document
    type         ``click``; other types are ignored
    timestamp    as above

Events ``item`` and ``user`` are ignored. An item's score is read from the field ``MetarankFields.score`` of
the item itself or of its ``fields``.

Reference: https://docs.metarank.ai, "Supported events".
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rankloop.logs.importers.files import Paths, Record
from rankloop.logs.importers.parsing import BadValueError, microseconds, score, text_id
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES
from rankloop.logs.schema import IMPRESSIONS

CLICK_TYPES = ("click",)


@dataclass(frozen=True)
class MetarankFields:
    """The names of the fields with values that Metarank's own format does not include.

    Attributes:
        query: the field with the query.
        policy: the field with the policy.
        score: the field of an item with the score from which the policy draws rankings, such as
            ``relevancy``; None if there is none.
    """

    query: str = "query"
    policy: str = "policy"
    score: str | None = None


FIELDS = MetarankFields()


def import_metarank(
    events: Paths,
    out: str | os.PathLike[str],
    *,
    policy: str | None = None,
    clicks: Collection[str] = CLICK_TYPES,
    fields: MetarankFields = FIELDS,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import Metarank's events.

    Args:
        events: files of events, of all kinds and in any order.
        out: the folder of the log.
        policy: the policy of rankings without one.
        clicks: the types of interactions that count as clicks.
        fields: the names of the fields with query, policy and scores.
        options: options of all imports.
    """

    def read(session: ImportSession) -> None:
        session.each(events, "Metarank events", _Events(session, policy, frozenset(clicks), fields))

    return run(read, out, options, counted=True)


class _Events:
    def __init__(
        self, session: ImportSession, policy: str | None, clicks: frozenset[str], fields: MetarankFields
    ) -> None:
        self.session, self.policy, self.clicks, self.fields = session, policy, clicks, fields

    def __call__(self, record: Record) -> None:
        event = record.values.get("event")
        if event == "ranking":
            self._ranking(record)
        elif event == "interaction":
            self._interaction(record)
        elif event in ("item", "user"):
            self.session.aside[f"{event} events"] += 1
        else:
            raise BadValueError(f"the event is {event!r}; expected ranking, interaction, item or user")

    def _ranking(self, record: Record) -> None:
        values = record.values
        impression, time = text_id(values.get("id"), "id"), microseconds(values.get("timestamp"))
        fields = _fields(values.get("fields"))
        query = text_id(fields.get(self.fields.query), f"field {self.fields.query!r}")
        policy = fields.get(self.fields.policy, self.policy)
        if policy is None:
            raise BadValueError(
                f"no field {self.fields.policy!r}, and no policy was given for rankings without one"
            )
        items = values.get("items")
        if not isinstance(items, list):
            raise BadValueError("items is not a list")
        policy = text_id(policy, f"field {self.fields.policy!r}")
        shown, scored = [], []
        for position, item in enumerate(items, 1):
            document = text_id(item.get("id") if isinstance(item, dict) else None, "id of an item")
            shown.append((record.place, impression, time, query, policy, position, document, False))
            if self.fields.score is not None:
                given = item.get(self.fields.score, _fields(item.get("fields")).get(self.fields.score))
                value = score(given, f"an item's {self.fields.score!r}")
                scored.append((record.place, policy, query, document, value))
        if not shown:
            place = self.session.files.place_name(record.place)
            self.session.found.add("empty_impressions", f"{place}: query {query!r}")
        self.session.staging.add(IMPRESSIONS, shown)
        self.session.staging.add(SCORES, scored)

    def _interaction(self, record: Record) -> None:
        values = record.values
        kind = text_id(values.get("type"), "type")
        if kind not in self.clicks:
            self.session.aside[f"interactions of type {kind!r}"] += 1
            return
        document, time = text_id(values.get("item"), "item"), microseconds(values.get("timestamp"))
        impression = values.get("ranking")
        if impression is None or impression == "":
            place = self.session.files.place_name(record.place)
            self.session.found.add("clicks_without_impression", f"{place}: document {document!r}, no ranking")
            return
        self.session.staging.add(
            CLICKS, [(record.place, text_id(impression, "ranking"), document, time, None)]
        )


def _fields(value: Any) -> dict[str, Any]:
    """Convert a list of {name, value} to a dictionary."""
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(field, dict) and "name" in field for field in value):
        raise BadValueError("fields is not a list of {name, value}")
    return {str(field["name"]): field.get("value") for field in value}
