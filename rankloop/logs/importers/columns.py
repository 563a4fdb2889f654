"""Import tables with arbitrary column names: CSV, JSON lines or Parquet.

A row is a document that was shown, or an impression with a list of documents, or an event.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType

from rankloop.errors import DataError
from rankloop.logs.importers.actions import NO_AMOUNTS, Actions, Events
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import Paths, as_paths
from rankloop.logs.importers.mapping import TableMapping, stored_text
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.proposal import propose_table
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS
from rankloop.logs.importers.tables.feature_columns import TableFeatures
from rankloop.logs.importers.tables.fields import RowFields
from rankloop.logs.importers.tables.readers import CandidateReader, ClickReader, ImpressionReader
from rankloop.logs.importers.tables.session_lists import SessionLists

ALL_ROWS: Mapping[str, str] = MappingProxyType({})
BY_NAME = Events()


def import_columns(
    impressions: Paths,
    out: str | os.PathLike[str],
    *,
    columns: Columns | None = None,
    policy: str | None = None,
    clicks: Paths | None = None,
    candidates: Paths | None = None,
    only: Mapping[str, str] = ALL_ROWS,
    events: Events = BY_NAME,
    amounts: Mapping[str, float] = NO_AMOUNTS,
    feature_columns: Sequence[str] = (),
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import tables with arbitrary column names; names that are not given are guessed, and reported.

    Args:
        impressions: files with one row per shown document, per impression with a list of documents, or per
            event.
        out: the folder of the log.
        columns: the names of the columns.
        policy: the policy of all rows, if there is no column for it; ``production`` by default.
        clicks: files with one row per click: impression, document, and optionally timestamp and position.
            Rows of impressions then need no column for clicks.
        candidates: files with one row per candidate: policy, query, document and score.
        only: a filter on rows of impressions, by column and value; other rows are ignored.
        events: which kinds of events show documents and which are clicks, in tables of events; recognised by
            their names if they are not given.
        amounts: the weights of kinds of events; in tables without events, of columns that are true where
            something happened, such as ``booking_bool``.
        feature_columns: columns of the table that become features, with wildcards; ``("auto",)`` for all
            columns of numbers that are known before a click.
        options: options of all imports.
    """
    given = TableMapping(
        columns=Columns() if columns is None else columns,
        events=events,
        policy=policy,
        clicks=clicks,
        candidates=candidates,
        only=only,
        amounts=amounts,
        features=tuple(feature_columns),
        position_base=options.position_base,
        normalise=options.normalise,
    )
    proposal = propose_table(impressions, given)
    proposal.check(", ".join(map(str, as_paths(impressions))))
    notes = list(proposal.notes)
    if options.features is None and proposal.suggestion is not None:
        notes.append(proposal.suggestion)
    mapping = proposal.mapping
    assert isinstance(mapping, TableMapping)
    return run_table(mapping, impressions, out, notes=notes, options=options)


def run_table(
    mapping: TableMapping,
    impressions: Paths,
    out: str | os.PathLike[str],
    *,
    notes: Sequence[str] = (),
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import a table as a complete mapping says."""
    names, kinds, shape, policy = mapping.columns, mapping.events, mapping.shape, mapping.policy
    assert shape is not None
    if options.normalise and names.query_id is None:
        raise DataError("there is no query to normalise: name its column, as in query_id=NAME")
    mapping = replace(mapping, normalise=options.normalise)
    chosen = list(mapping.features)

    def read(session: ImportSession) -> None:
        session.hints += notes
        shown = names if mapping.clicks is None else replace(names, clicked=None)
        row_amounts = NO_AMOUNTS if names.event is not None else mapping.amounts
        fields = RowFields(shown, shape, row_amounts, mapping.shared, names_document=mapping.names_document)
        everyone = policy
        if names.policy_id is None and policy is None:
            everyone = session.unnamed_policy()
        actions = Actions(kinds.clicks, mapping.amounts if names.event is not None else NO_AMOUNTS)
        with ExitStack() as stack:
            collected = lists = None
            if chosen:
                table_features = TableFeatures(
                    session.staging, chosen, mapping.decimal_commas, mapping.categories
                )
                collected = stack.enter_context(table_features)
            finds = bool(mapping.shared) or names.row_id is not None or not mapping.names_document
            if names.impression_id is not None and (shape.arrays or finds):
                with_clicks = mapping.clicks is None and not kinds.clicks
                lists = stack.enter_context(SessionLists(session.staging.folder, with_clicks=with_clicks))
            reader = ImpressionReader(
                session,
                fields,
                everyone,
                only=mapping.only,
                shown=kinds.shown,
                actions=actions,
                features=collected,
                lists=lists,
                marks=kinds.marks,
            )
            reader.read(impressions)
            if mapping.clicks is not None:
                ClickReader(session, fields, lists).read(mapping.clicks)
        if collected is not None:
            session.feature_files.append(collected.written())
        if lists is not None:
            for table in lists.clicks():
                session.staging.add_batch(CLICKS, table)
            session.hints += [] if lists.note is None else [lists.note]
        if mapping.shared:
            shared = mapping.shared
            session.hints.append(
                f"Clicks do not share {_others(names, shared)} with rows: a click belongs to the last "
                f"impression of its {', '.join(shared)} before it that shows its document."
            )
        if mapping.candidates is not None:
            CandidateReader(session, names, everyone).read(mapping.candidates)

    return run(read, out, options, mapping=stored_text(mapping))


def _others(names: Columns, shared: Sequence[str]) -> str:
    """The columns of an impression that do not tell to which impression a click belongs."""
    return ", ".join(name for name in names.impression_columns if name not in shared)
