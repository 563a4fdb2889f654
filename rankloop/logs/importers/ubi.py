"""Import OpenSearch User Behavior Insights: ``ubi_queries`` and ``ubi_events``.

A query is one impression:

    query_id                      the impression
    user_query                    the query
    timestamp                     ISO 8601, or milliseconds since 1970
    query_response_hit_ids        the shown documents, best first
    query_attributes.policy_id    the policy
    query_attributes.scores       its scores: {document: score} of all candidates, or a list, one per hit

An event:

    query_id                                  the impression
    action_name                               ``click`` or ``click_through``; other actions are ignored
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
# The actions of OpenSearch's bulk format, which precede each document on their own line.
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
    """Import UBI queries and events, as JSON lines or Parquet.

    Records may be documents of the indices, search hits with their ``_source``, or in OpenSearch's bulk
    format.

    Args:
        queries: files of ``ubi_queries``.
        events: files of ``ubi_events``.
        out: the folder of the log.
        policy: the policy of queries without one.
        ranks: number of hits that were shown; all if None.
        clicks: the actions that count as clicks.
        options: options of all imports.
    """

    def read(session: ImportSession) -> None:
        session.each(queries, "UBI queries", _Queries(session, policy, ranks))
        session.each(events, "UBI events", _Events(session, frozenset(clicks)))

    return run(read, out, options, counted=True)


class _Queries:
    def __init__(self, session: ImportSession, policy: str | None, ranks: int | None) -> None:
        self.session, self.policy, self.ranks = session, policy, ranks

    def __call__(self, record: Record) -> None:
        query = _document(record, self.session)
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
            place = self.session.files.place_name(record.place)
            self.session.found.add("empty_impressions", f"{place}: query {text!r}")
            return
        self.session.staging.add(
            IMPRESSIONS,
            [(record.place, impression, time, text, policy, i, doc, False) for i, doc in enumerate(shown, 1)],
        )
        self.session.staging.add(SCORES, [(record.place, policy, text, doc, value) for doc, value in scored])


class _Events:
    def __init__(self, session: ImportSession, clicks: frozenset[str]) -> None:
        self.session, self.clicks = session, clicks

    def __call__(self, record: Record) -> None:
        event = _document(record, self.session)
        if event is None:
            return
        action = text_id(event.get("action_name"), "action_name")
        if action not in self.clicks:
            self.session.aside[f"events of action {action!r}"] += 1
            return
        attributes = _object(event.get("event_attributes"), "event_attributes")
        document = text_id(at_path(attributes, "object", "object_id"), "event_attributes.object.object_id")
        time = microseconds(event.get("timestamp"))
        ordinal = at_path(attributes, "position", "ordinal")
        position = None if ordinal is None else whole(ordinal, "event_attributes.position.ordinal")
        impression = event.get("query_id")
        if impression is None or impression == "":
            place = self.session.files.place_name(record.place)
            self.session.found.add(
                "clicks_without_impression", f"{place}: document {document!r}, no query_id"
            )
            return
        impression = text_id(impression, "query_id")
        self.session.staging.add(CLICKS, [(record.place, impression, document, time, position)])


def _document(record: Record, session: ImportSession) -> dict[str, Any] | None:
    """Unwrap a document; None for an action line of the bulk format."""
    values = record.values
    if len(values) == 1 and next(iter(values)) in BULK_ACTIONS:
        session.aside["lines of the bulk format"] += 1
        return None
    source = values.get("_source")
    return source if isinstance(source, dict) else values


def _object(value: Any, name: str) -> dict[str, Any]:
    """Parse an object, which may also be JSON text, as in tables."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadValueError(f"{name} is not JSON ({error})") from error
    if value is None or value == "":
        return {}
    # Maps in Parquet become lists of pairs.
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if not isinstance(value, dict):
        raise BadValueError(f"{name} is not an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    # OpenSearch does not distinguish a list of one element from the element.
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
    # A struct column in Parquet has a field for every document of the file, which is empty for documents of
    # other queries.
    pairs = _object(value, name).items()
    return [(text_id(doc, "a document"), score(number, name)) for doc, number in pairs if number is not None]
