"""Read tables row by row, or as whole columns, into the staged tables of an import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError
from rankloop.logs.importers.actions import Actions
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import (
    PLACE,
    Paths,
    Record,
    as_paths,
    parquet_batches,
    place_of,
    python_rows,
)
from rankloop.logs.importers.formats import JSON, PARQUET, check_importer, detect_format, file_of, recognise
from rankloop.logs.importers.parsing import BadValueError, is_missing, score, text_id, whole
from rankloop.logs.importers.pipeline import ImportSession
from rankloop.logs.importers.staging import CLICKS, SCORES
from rankloop.logs.importers.tables.feature_columns import TableFeatures
from rankloop.logs.importers.tables.fields import RowFields
from rankloop.logs.importers.tables.lists import ColumnPath
from rankloop.logs.importers.tables.select import ColumnSelect, StagedColumns
from rankloop.logs.importers.tables.session_lists import SessionLists
from rankloop.logs.schema import IMPRESSIONS, missing_column

# Added to the name of a policy for rows that were shown in random order.
RANDOMISED = "-randomised"
# Number of rows of a Parquet file to process at a time as columns.
ROWS_PER_BATCH = 500_000
HOW_TO_NAME = "Name columns as in --columns 'doc_id=sku, position=rank'."


class TableReader:
    """Reads one kind of table.

    Args:
        session: the import.
        needed: the columns that every file must have.
    """

    what: str
    # Whether whole columns can be staged.
    takes_columns = False

    def __init__(self, session: ImportSession, needed: Iterable[str | None]) -> None:
        self.session = session
        self.needed = list(dict.fromkeys(column for column in needed if column is not None))
        self._checked = self._lenient = False

    def read(self, sources: Paths) -> None:
        """Read files."""
        for path in as_paths(sources):
            self._checked = False
            if not file_of(path).is_file():
                raise DataError(f"{path} is not a file")
            kind, _ = detect_format(file_of(path), self.what)
            if kind == PARQUET:
                self._parquet(self.session.files.add_file(path, "row"))
            else:
                # JSON objects may have different keys; all lines of a CSV file have the same columns.
                self._lenient = kind == JSON
                reader = self if self.takes_columns else None
                self.session.each(path, self.what, self._record, reader=reader)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return self.needed

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one record."""
        raise NotImplementedError

    def staged(self, _table: pa.Table) -> StagedColumns | None:
        """Prepare whole columns for staging; None if the rows must be processed one by one."""
        return None

    def _record(self, record: Record) -> None:
        if not self._checked and self._lenient:
            self._recognise(self.session.files.place_name(record.place), record.values)
        elif not self._checked:
            self._check(self.session.files.place_name(record.place), record.values)
        self.take(record.place, record.values)

    def _check(self, where: str, there: Collection[str]) -> None:
        for column in self.needed:
            if not ColumnPath(column).is_in(there):
                self._recognise(where, dict.fromkeys(there))
                error = missing_column(where, column, self.needed, there, self.what)
                notes = " ".join([*self.session.files.notes, HOW_TO_NAME])
                raise DataError(f"{error}. {notes}")
        self._checked = True

    def _recognise(self, where: str, values: Mapping[str, Any]) -> None:
        """Refuse the records of another program, unless they have all columns."""
        self._checked = True
        known = all(ColumnPath(column).is_in(values) for column in self.needed)
        if not known and recognise(values) in ("ubi", "metarank"):
            check_importer("columns", values, where)

    def _parquet(self, number: int) -> None:
        row, path = 1, self.session.files.paths[number]
        for batch in parquet_batches(path, ROWS_PER_BATCH, self.session.files.first):
            names = batch.schema.names
            self._check(str(path), names)
            repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
            if repeated:
                raise DataError(f"{path}: there are several columns called {repeated[0]!r}: keep one of them")
            places = place_of(number, row) + np.arange(len(batch))
            table = pa.Table.from_batches([batch]).append_column(PLACE, pa.array(places))
            rest = self._stage(table)
            first = row
            for part in rest.combine_chunks().to_batches():
                columns = part.drop_columns([PLACE])
                found = zip(part.column(PLACE).to_pylist(), python_rows(columns, path, first), strict=True)
                for place, values in found:
                    self.session.take(Record(place, values), self._record, self.what)
            row += len(batch)

    def take_columns(self, table: pa.Table, rows: Sequence[dict[str, Any]] | None = None) -> None:
        """Stage rows with their places; those that need it are read one by one."""
        rest = self._stage(table)
        if not len(rest):
            return
        originals = {} if rows is None else dict(zip(table[PLACE].to_pylist(), rows, strict=True))
        for values in rest.to_pylist():
            place = values.pop(PLACE)
            self.session.take(Record(place, originals.get(place, values)), self._record, self.what)

    def _stage(self, table: pa.Table) -> pa.Table:
        """Stage whole columns; return the rows that must be read one by one."""
        staged = self.staged(table)
        if staged is None:
            return table
        if len(staged.rows):
            self.session.staging.add_batch(IMPRESSIONS, staged.rows)
        self.session.aside.update(staged.aside)
        self.session.count_records(self.what, len(table) - len(staged.rest))
        return staged.rest


class ImpressionReader(TableReader):
    """Reads rows of documents that were shown; in tables of events, clicks and other actions, too.

    Args:
        session: the import.
        fields: reads the values of rows.
        policy: the policy of all rows; None if a column has it.
        only: a filter on rows, by column and value.
        shown: the kinds of events that show documents.
        actions: the kinds of events that count, and their weights.
        features: collects features, if any.
        lists: names lists that share an id; or takes what clicks elsewhere are on.
        marks: the kinds of events that show a document that was clicked.
    """

    what = "impressions"

    def __init__(
        self,
        session: ImportSession,
        fields: RowFields,
        policy: str | None,
        *,
        only: Mapping[str, str],
        shown: Collection[str],
        actions: Actions,
        features: TableFeatures | None,
        lists: SessionLists | None = None,
        marks: Collection[str] = (),
    ) -> None:
        names = fields.names
        columns = [
            value
            for field, value in vars(names).items()
            if field not in ("impression_id", "score") and isinstance(value, str)
        ]
        super().__init__(session, [*names.impression_columns, *columns, *fields.amounts, *only])
        self.fields, self.names, self.policy, self.only = fields, names, policy, only
        self.shown, self.actions, self.features, self.lists = shown, actions, features, lists
        self.marks = marks
        self._clicks = ClickReader(session, fields, lists)
        self._select = ColumnSelect(names, fields.shape, policy, only)
        self.takes_columns = self._has_columns()
        session.amounts |= names.amount is not None or bool(fields.amounts) or actions.any_amounts

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one row, or one event."""
        kind = ""
        for column, wanted in self.only.items():
            if _filter_text(values.get(column)) != wanted:
                self.session.aside[f"rows where {column} is not {wanted!r}"] += 1
                return
        if self.names.event is not None:
            if is_missing(self.fields.get("event", values)):
                self.session.aside["events without a kind"] += 1
                return
            kind = self.fields.text("event", values)
            action = self.actions.of(kind)
            if kind not in self.shown and action is None:
                self.session.aside[f"events of kind {kind!r}"] += 1
                return
            if action is not None:
                self._clicks.take_action(place, values, kind, action.value, is_click=action.is_click)
                return
        impression, time = self.fields.impression(values, place), self.fields.time(values)
        policy = self._policy(values)
        shown, strangers = self.fields.documents(values, impression)
        if self.marks and kind in self.marks:
            shown = [one._replace(clicked=True) for one in shown]
        if self.lists is not None and self.fields.shape.arrays:
            impression = self.lists.name(impression, [one.document for one in shown], time, place)
        elif self.lists is not None:
            key = self.fields.key(values, place)
            for one in shown:
                self.lists.add_row(key, impression, time, place, (one.document, one.position))
        query = self.fields.query(values, impression)
        if not shown:
            where = self.session.files.place_name(place)
            self.session.found.add("empty_impressions", f"{where}: query {query!r}")
        self.session.staging.add(
            IMPRESSIONS,
            [
                (place, impression, time, query, policy, one.position, one.document, one.clicked, one.amount)
                for one in shown
            ],
        )
        self.session.staging.add(
            CLICKS, [(place, impression, name, None, None, "click", 1.0, True) for name in strangers]
        )
        if self.features is not None:
            self.features.add(place, query, [one.document for one in shown], values)

    def _policy(self, values: dict[str, Any]) -> str:
        policy, column = self.policy, self.names.randomised
        if policy is None:
            policy = self.fields.text("policy_id", values)
        if column is None:
            return policy
        if is_missing(self.fields.get("randomised", values)) or not self.fields.flag("randomised", values):
            return policy
        self.session.randomised.add(policy + RANDOMISED)
        return policy + RANDOMISED

    def staged(self, _table: pa.Table) -> StagedColumns | None:
        """Prepare whole columns, if all that is needed is in columns of the right types."""
        if not self.takes_columns:
            return None
        staged = self._select.run(_table)
        if staged is not None and self.features is not None:
            sources = _table.filter(pc.is_in(_table[PLACE], value_set=staged.rows["place"].combine_chunks()))
            if not self.features.add_batch(staged.rows, sources):
                return None
        return staged

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [*self.needed, *(self.features.names if self.features is not None else ())]

    def _has_columns(self) -> bool:
        """Whether each row is a document, so that one SELECT can stage it."""
        names, shape = self.names, self.fields.shape
        by_row = (names.randomised, names.amount, names.event, names.page, self.lists)
        return all(name is None for name in by_row) and not (
            self.fields.amounts or shape.lists or shape.arrays or shape.timed_clicks
        )


class ClickReader(TableReader):
    """Reads a table with one row per click.

    Args:
        session: the import.
        fields: reads the values of rows.
        lists: takes clicks on lists that share an id, if there are any.
    """

    what = "clicks"

    def __init__(self, session: ImportSession, fields: RowFields, lists: SessionLists | None = None) -> None:
        super().__init__(session, fields.needed_by_clicks)
        self.fields, self.lists = fields, lists

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one click."""
        self.take_action(place, values, "click", 1.0, is_click=True)

    def take_action(
        self, place: int, values: dict[str, Any], kind: str, amount: float, *, is_click: bool
    ) -> None:
        """Stage one action."""
        fields, names = self.fields, self.fields.names
        position = fields.get("position", values)
        if names.position is None or isinstance(position, list) or is_missing(position):
            position = None
        else:
            position = whole(position, names.position)
        impression, time = fields.key(values, place), fields.time(values)
        given = fields.get("doc_id", values)
        documents = given if isinstance(given, list) else [given]
        if fields.names_document:
            ids: list[str | None] = [text_id(document, names.doc_id) for document in documents]
        else:
            if names.row_id is None and position is None:
                raise BadValueError(f"no {names.position}")
            ids = [None]
        rows = [(place, impression, one, time, position, kind, amount, is_click) for one in ids]
        if self.lists is None:
            self.session.staging.add(CLICKS, rows)
        else:
            self.lists.add_clicks(rows)


class CandidateReader(TableReader):
    """Reads a table with one row per candidate.

    Args:
        session: the import.
        names: the columns.
        policy: the policy of all rows; None if a column has it.
    """

    what = "candidates"

    def __init__(self, session: ImportSession, names: Columns, policy: str | None) -> None:
        super().__init__(
            session,
            [names.policy_id if policy is None else None, names.query_id, names.doc_id, names.score],
        )
        self.names, self.policy = names, policy

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one score."""
        names, query = self.names, self.names.query_id
        if query is None:
            raise DataError("a table of candidates needs queries: name their column, as in query_id=NAME")
        policy = self.policy
        if policy is None:
            policy = text_id(values.get(str(names.policy_id)), str(names.policy_id))
        document = text_id(values.get(names.doc_id), names.doc_id)
        row = (
            place, policy, text_id(values.get(query), query), document,
            score(values.get(names.score), names.score),
        )  # fmt: skip
        self.session.staging.add(SCORES, [row])


def _filter_text(value: Any) -> str:
    """Format a value for comparison with the text of a filter, as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)
