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
    action_name                               ``click``, ``click_through``; ``impression`` if the document
                                              was shown; other actions count only if they are given a weight
    timestamp                                 ISO 8601, or milliseconds since 1970
    user_query                                the query, in impression events
    event_attributes.object.object_id         the document
    event_attributes.position.ordinal         its position: that of impression events counts, that of clicks
                                              is compared with it
    event_attributes.dwell_time               seconds, if dwell times are given a weight

A query shows what its impression events say, or its hits if it has none. Both kinds of documents may be in
one file or in many, as JSON lines, search hits, responses of ``_search``, JSON arrays, the bulk format, CSV
or Parquet.

Reference: the UBI specification 1.3.0, https://github.com/o19s/ubi.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from rankloop.errors import DataError
from rankloop.logs.importers.actions import DWELL, NO_AMOUNTS, Actions
from rankloop.logs.importers.files import Paths, Record
from rankloop.logs.importers.mapping import CLICK_ACTIONS, UbiMapping, stored_text
from rankloop.logs.importers.parsing import BadValueError, at_path, microseconds, score, text_id
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES, Staging
from rankloop.logs.importers.ubi_displays import AUTO, EVENTS, RAW_SCHEMAS, RAW_TABLES, SHOWN, Displays
from rankloop.logs.importers.ubi_documents import (
    QUERY,
    UbiDocument,
    Unwrapping,
    is_bulk_action,
    read_ids,
    read_object,
    read_policy,
    read_position,
    read_scores,
)

IMPRESSION_ACTION = "impression"


def import_ubi(
    sources: Paths,
    out: str | os.PathLike[str],
    *,
    policy: str | None = None,
    ranks: int | None = None,
    clicks: Collection[str] = CLICK_ACTIONS,
    amounts: Mapping[str, float] = NO_AMOUNTS,
    shown: str = AUTO,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import UBI queries and events.

    Args:
        sources: files of ``ubi_queries`` and ``ubi_events``, in any order, or both in one file.
        out: the folder of the log.
        policy: the policy of queries without one; ``production`` by default.
        ranks: number of hits that were shown; all if None.
        clicks: the actions that count as clicks.
        amounts: the weights of actions; the log then has a column ``amount``.
        shown: what the record of shown documents is: ``hits``, ``impressions`` (events), or ``auto``:
            impression events for queries that have them, and otherwise hits.
        options: options of all imports.
    """
    if shown not in SHOWN:
        raise DataError(f"what was shown is taken from {', '.join(SHOWN)}, not from {shown!r}")

    actions = Actions(clicks, amounts)

    def read(session: ImportSession) -> None:
        folder = session.staging.folder / "ubi"
        folder.mkdir()
        session.amounts = actions.any_amounts
        with Staging(folder, RAW_TABLES, RAW_SCHEMAS) as raw:
            reader = _Documents(session, raw, policy, actions)
            session.each(sources, "UBI queries and events", reader, command="ubi", kind=_kind)
        _check_actions(session, raw, clicks)
        Displays(session, policy, shown, ranks).assemble(raw)

    mapping = UbiMapping(
        policy=policy, ranks=ranks, clicks=tuple(clicks), amounts=amounts, shown=shown,
        normalise=options.normalise,
    )  # fmt: skip
    return run(read, out, options, counted=True, mapping=stored_text(mapping))


def _check_actions(session: ImportSession, raw: Staging, clicks: Collection[str]) -> None:
    """Refuse events without clicks if an action that was set aside speaks of them."""
    aside = [kind for kind in session.aside if kind.startswith("events of action") and "click" in kind]
    if aside and not raw.rows[CLICKS]:
        raise DataError(
            f"no event is a click: the actions that count are {', '.join(clicks)}, but there are "
            f"{', '.join(f'{session.aside[kind]:,} {kind}' for kind in aside)}: name those that are clicks "
            f"(--clicks ACTION)"
        )


def _kind(record: Record) -> str:
    source = record.values.get("_source")
    action = (source if isinstance(source, dict) else record.values).get("action_name")
    if action is not None:
        return f"{action} events"
    return "lines of the bulk format" if is_bulk_action(record) else "queries"


class _Documents:
    def __init__(self, session: ImportSession, raw: Staging, policy: str | None, actions: Actions) -> None:
        self.session, self.raw, self.policy, self.actions = session, raw, policy, actions
        self.unwrap = Unwrapping()

    def __call__(self, record: Record) -> None:
        document = self.unwrap(record)
        if document is None:
            self.session.aside["lines of the bulk format"] += 1
        elif document.kind == QUERY:
            self._query(record.place, document)
        else:
            self._event(record.place, document)

    def _query(self, place: int, document: UbiDocument) -> None:
        query = document.values
        attributes = read_object(query.get("query_attributes"), "query_attributes")
        impression = text_id(query.get("query_id"), "query_id")
        text = text_id(query.get("user_query"), "user_query")
        policy = read_policy(attributes.get("policy_id"), self.policy)
        if policy is None:
            policy = self.session.unnamed_policy()
        else:
            self.session.named = True
        time = microseconds(query.get("timestamp"))
        hits = read_ids(
            query.get("query_response_hit_ids"), "query_response_hit_ids", is_text=document.is_text
        )
        scored = read_scores(attributes.get("scores"), hits)
        application = str(query.get("application") or "")
        self.raw.add(EVENTS, [(place, impression, time, text, policy, application, hits, None, None)])
        self.session.staging.add(SCORES, [(place, policy, text, doc, value) for doc, value in scored])

    def _event(self, place: int, document: UbiDocument) -> None:
        event = document.values
        name = text_id(event.get("action_name"), "action_name")
        action = self.actions.of(name)
        if action is None and name != IMPRESSION_ACTION:
            self.session.aside[f"events of action {name!r}"] += 1
            return
        attributes = read_object(event.get("event_attributes"), "event_attributes")
        item = text_id(at_path(attributes, "object", "object_id"), "event_attributes.object.object_id")
        time, position = microseconds(event.get("timestamp")), read_position(attributes)
        application = str(event.get("application") or "")
        impression = event.get("query_id")
        if impression is None or impression == "":
            where = f"{self.session.files.place_name(place)}: document {item!r}, no query_id"
            problem = "unknown_queries" if name == IMPRESSION_ACTION else "clicks_without_impression"
            self.session.found.add(problem, where)
            return
        impression = text_id(impression, "query_id")
        if action is None:
            if position is None:
                raise BadValueError("no event_attributes.position.ordinal, which says where the document was")
            text = event.get("user_query") or None
            text = None if text is None else text_id(text, "user_query")
            self.raw.add(EVENTS, [(place, impression, time, text, None, application, None, position, item)])
            return
        row = (place, impression, item, time, position)
        self.raw.add(CLICKS, [(*row, name, action.value, action.is_click, application)])
        seconds = attributes.get("dwell_time")
        if self.actions.dwell is not None and seconds not in (None, ""):
            value = self.actions.dwell.value * max(0.0, score(seconds, "event_attributes.dwell_time"))
            self.raw.add(CLICKS, [(*row, DWELL, value, False, application)])
