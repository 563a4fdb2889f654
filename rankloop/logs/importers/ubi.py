"""OpenSearch User Behavior Insights: ``ubi_queries`` and ``ubi_events``.

Of a query, one an impression:

    query_id                      the impression
    user_query                    the query
    timestamp                     ISO 8601, or milliseconds since 1970
    query_response_hit_ids        what was shown, best first
    query_attributes.policy_id    the policy
    query_attributes.scores       its scores: {document: score} of all candidates, or a list, one a hit

Of an event:

    query_id                                  the impression
    action_name                               ``click`` or ``click_through``; others are set aside
    timestamp                                 ISO 8601, or milliseconds since 1970
    event_attributes.object.object_id         the document
    event_attributes.position.ordinal         its position, compared with its place among the hits

Reference: the UBI specification 1.3.0, https://github.com/o19s/ubi.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

from rankloop.logs.importers.files import Paths, Record
from rankloop.logs.importers.parsing import BadValueError, at_path, microseconds, score, text_id, whole
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES
from rankloop.logs.schema import IMPRESSIONS

CLICK_ACTIONS = ("click", "click_through")
# Lines of OpenSearch's bulk format that say what to do with the next one.
BULK_ACTIONS = ("index", "create")


def import_ubi(
    queries: Paths,
    events: Paths,
    out: str | os.PathLike[str],
    *,
    policy: str | None = None,
    ranks: int | None = None,
    clicks: Collection[str] = CLICK_ACTIONS,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Make a log of UBI's queries and events, as JSON lines or Parquet.

    Records may be documents of the indices, search hits with their ``_source``, or OpenSearch's bulk format.

    Args:
        queries: files of ``ubi_queries``.
        events: files of ``ubi_events``.
        out: the folder of the log.
        policy: the policy of queries that name none.
        ranks: how many of the hits were shown; None: all.
        clicks: the actions that are clicks.
        options: what every import can be told.
    """

    def read(reading: ImportSession) -> None:
        reading.each(queries, "UBI queries", _Queries(reading, policy, ranks))
        reading.each(events, "UBI events", _Events(reading, frozenset(clicks)))

    return run(read, out, options, counted=True)


class _Queries:
    def __init__(self, reading: ImportSession, policy: str | None, ranks: int | None) -> None:
        self.reading, self.policy, self.ranks = reading, policy, ranks

    def __call__(self, record: Record) -> None:
        query = _document(record, self.reading)
        if query is None:
            return
        attributes = _object(query.get("query_attributes"), "query_attributes")
        impression = text_id(query.get("query_id"), "query_id")
        text = text_id(query.get("user_query"), "user_query")
        policy = _policy(attributes.get("policy_id"), self.policy, "query_attributes.policy_id")
        time = microseconds(query.get("timestamp"))
        hits = _list(query.get("query_response_hit_ids"), "query_response_hit_ids")
        documents = [text_id(hit, "a hit's id") for hit in hits]
        scored = _scores(attributes.get("scores"), documents)
        shown = documents[: self.ranks]
        if not shown:
            place = self.reading.files.place_name(record.place)
            self.reading.found.add("empty_impressions", f"{place}: query {text!r}")
            return
        self.reading.staging.add(
            IMPRESSIONS,
            [(record.place, impression, time, text, policy, i, doc, False) for i, doc in enumerate(shown, 1)],
        )
        self.reading.staging.add(SCORES, [(record.place, policy, text, doc, value) for doc, value in scored])


class _Events:
    def __init__(self, reading: ImportSession, clicks: frozenset[str]) -> None:
        self.reading, self.clicks = reading, clicks

    def __call__(self, record: Record) -> None:
        event = _document(record, self.reading)
        if event is None:
            return
        action = text_id(event.get("action_name"), "action_name")
        if action not in self.clicks:
            self.reading.aside[f"events of action {action!r}"] += 1
            return
        attributes = _object(event.get("event_attributes"), "event_attributes")
        document = text_id(at_path(attributes, "object", "object_id"), "event_attributes.object.object_id")
        time = microseconds(event.get("timestamp"))
        ordinal = at_path(attributes, "position", "ordinal")
        position = None if ordinal is None else whole(ordinal, "event_attributes.position.ordinal")
        impression = event.get("query_id")
        if impression is None or impression == "":
            place = self.reading.files.place_name(record.place)
            self.reading.found.add(
                "clicks_without_impression", f"{place}: document {document!r}, no query_id"
            )
            return
        impression = text_id(impression, "query_id")
        self.reading.staging.add(CLICKS, [(record.place, impression, document, time, position)])


def _document(record: Record, reading: ImportSession) -> dict[str, Any] | None:
    """The document itself, whatever it came wrapped in; None for a line that is none."""
    values = record.values
    if len(values) == 1 and next(iter(values)) in BULK_ACTIONS:
        reading.aside["lines of the bulk format"] += 1
        return None
    source = values.get("_source")
    return source if isinstance(source, dict) else values


def _object(value: Any, name: str) -> dict[str, Any]:
    """An object, also as JSON in a text, which is how tables hold it."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadValueError(f"{name} is not JSON ({error})") from error
    if value is None or value == "":
        return {}
    # Parquet's maps are lists of pairs.
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if not isinstance(value, dict):
        raise BadValueError(f"{name} is not an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    # OpenSearch does not tell a list of one from its element.
    if isinstance(value, str | int):
        return [value]
    if not isinstance(value, list):
        raise BadValueError(f"{name} is not a list")
    return value


def _policy(value: Any, default: str | None, name: str) -> str:
    if (value is None or value == "") and default is not None:
        return default
    if value is None or value == "":
        raise BadValueError(f"no {name}, and no policy was given for queries without one")
    return text_id(value, name)


def _scores(value: Any, hits: list[str]) -> list[tuple[str, float]]:
    name = "query_attributes.scores"
    if isinstance(value, list) and not (value and isinstance(value[0], tuple)):
        if len(value) != len(hits):
            raise BadValueError(f"{name} has {len(value)} numbers for {len(hits)} hits")
        return [(hit, score(number, name)) for hit, number in zip(hits, value, strict=True)]
    # A column of structures has every document of the file, empty where it is none of the query's.
    pairs = _object(value, name).items()
    return [(text_id(doc, "a document"), score(number, name)) for doc, number in pairs if number is not None]
