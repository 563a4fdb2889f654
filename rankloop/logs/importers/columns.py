"""Import tables with arbitrary column names: CSV, JSON lines or Parquet, one row per shown document."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import date
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError
from rankloop.logs.importers import parsing as read_value
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import (
    Paths,
    Record,
    as_paths,
    parquet_batches,
    place_of,
    python_rows,
)
from rankloop.logs.importers.formats import JSON, PARQUET, check_importer, detect_format, recognise
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES, TIME
from rankloop.logs.schema import IMPRESSIONS, is_id, missing_column

# Added to the name of a policy for rows that were shown in random order.
RANDOMISED = "-randomised"
# Between the parts of an id of several columns.
SEPARATOR = "|"
ALL_ROWS: Mapping[str, str] = MappingProxyType({})
# Number of rows of a Parquet file to process at a time as columns.
ROWS_PER_BATCH = 500_000
# The column of places in a batch; a source may have a column of any other name.
PLACE = "\0place"


def import_columns(
    impressions: Paths,
    out: str | os.PathLike[str],
    *,
    columns: Columns | None = None,
    policy: str | None = None,
    clicks: Paths | None = None,
    candidates: Paths | None = None,
    only: Mapping[str, str] = ALL_ROWS,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import tables with arbitrary column names.

    Args:
        impressions: files with one row per shown document.
        out: the folder of the log.
        columns: the names of the columns.
        policy: the policy of all rows, if there is no column for it.
        clicks: files with one row per click: impression, document, and optionally timestamp and position.
            Rows of impressions then need no column for clicks.
        candidates: files with one row per candidate: policy, query, document and score.
        only: a filter on rows of impressions, by column and value; other rows are ignored.
        options: options of all imports.
    """
    names = Columns() if columns is None else columns
    if policy is not None:
        names = replace(names, policy_id=None)
    elif names.policy_id is None:
        raise DataError(
            "the rows have no policy: name the column that contains it, or give the policy of all rows"
        )

    def read(session: ImportSession) -> None:
        shown = names if clicks is None else replace(names, clicked=None)
        if clicks is None and names.clicked is None:
            raise DataError(
                "the rows have no clicks: name the column that contains them, or give a table of clicks"
            )
        _Impressions(session, shown, policy, only).read(impressions)
        if clicks is not None:
            _Clicks(session, names).read(clicks)
        if candidates is not None:
            _Candidates(session, names, policy).read(candidates)

    return run(read, out, options)


class _Table:
    """Reads one kind of table."""

    what: str

    def __init__(self, session: ImportSession, needed: Iterable[str | None]) -> None:
        self.session = session
        self.needed = list(dict.fromkeys(column for column in needed if column is not None))

    def read(self, sources: Paths) -> None:
        for path in as_paths(sources):
            self._checked = False
            if not path.is_file():
                raise DataError(f"{path} is not a file")
            kind, _ = detect_format(path, self.what)
            if kind == PARQUET:
                self._parquet(self.session.files.add_file(path, "row"))
            else:
                # JSON objects may have different keys; all lines of a CSV file have the same columns.
                self._lenient = kind == JSON
                self.session.each(path, self.what, self._record)

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one record."""
        raise NotImplementedError

    def staged(self, _batch: pa.Table) -> pa.Table | None:
        """Prepare whole columns for staging; None if the rows must be processed one by one."""
        return None

    def _record(self, record: Record) -> None:
        if not self._checked and self._lenient:
            self._recognise(self.session.files.place_name(record.place), record.values)
        elif not self._checked:
            self._check(self.session.files.place_name(record.place), record.values)
        self.take(record.place, record.values)

    def _check(self, where: str, there: Any) -> None:
        for column in self.needed:
            if column not in there:
                self._recognise(where, dict.fromkeys(there))
                raise missing_column(where, column, self.needed, there, self.what)
        self._checked = True

    def _recognise(self, where: str, values: Mapping[str, Any]) -> None:
        """Refuse the records of another program, unless they have all columns."""
        self._checked = True
        if not all(column in values for column in self.needed) and recognise(values) in ("ubi", "metarank"):
            check_importer("columns", values, where)

    def _parquet(self, number: int) -> None:
        row, path = 1, self.session.files.paths[number]
        for batch in parquet_batches(path, ROWS_PER_BATCH):
            names = batch.schema.names
            self._check(str(path), names)
            repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
            if repeated:
                raise DataError(f"{path}: there are several columns called {repeated[0]!r}: keep one of them")
            places = place_of(number, row) + np.arange(len(batch))
            table = pa.Table.from_batches([batch]).append_column(PLACE, pa.array(places))
            whole = self.staged(table)
            if whole is not None:
                self.session.staging.add_batch(IMPRESSIONS, whole)
                self.session.count_records(self.what, len(batch))
            else:
                rows = python_rows(batch, self.session.files.paths[number], row)
                for place, values in zip(places.tolist(), rows, strict=True):
                    self.session.take(Record(place, values), self._record, self.what)
            row += len(batch)


class _Impressions(_Table):
    what = "impressions"

    def __init__(
        self, session: ImportSession, names: Columns, policy: str | None, only: Mapping[str, str]
    ) -> None:
        columns = [
            getattr(names, field.name)
            for field in fields(names)
            if field.name not in ("impression_id", "score")
        ]
        super().__init__(session, [*names.impression_columns, *columns, *only])
        self.names, self.policy, self.only = names, policy, only
        session.signals |= names.signal is not None

    def take(self, place: int, values: dict[str, Any]) -> None:
        names = self.names
        for column, wanted in self.only.items():
            if _filter_text(values.get(column)) != wanted:
                self.session.aside[f"rows where {column} is not {wanted!r}"] += 1
                return
        self.session.staging.add(
            IMPRESSIONS,
            [
                (
                    place,
                    _impression(values, names),
                    _time(values, names),
                    read_value.text_id(values.get(names.query_id), names.query_id),
                    self._policy(values),
                    read_value.whole(values.get(names.position), names.position),
                    read_value.text_id(values.get(names.doc_id), names.doc_id),
                    names.clicked is not None
                    and read_value.clicked(values.get(names.clicked), names.clicked),
                    None if names.signal is None else _signal(values.get(names.signal), names.signal),
                )
            ],
        )

    def _policy(self, values: dict[str, Any]) -> str:
        policy, column = _policy(values, self.names, self.policy), self.names.randomised
        if column is None or not read_value.clicked(values.get(column), column):
            return policy
        self.session.randomised.add(policy + RANDOMISED)
        return policy + RANDOMISED

    def staged(self, _batch: pa.Table) -> pa.Table | None:
        names, batch, aside = self.names, _batch, {}
        if names.randomised is not None or names.signal is not None:
            return None
        for column, wanted in self.only.items():
            if not is_id(batch[column].type):
                return None
            matching = pc.fill_null(pc.equal(batch[column].cast(pa.string()), wanted), False)
            aside[f"rows where {column} is not {wanted!r}"] = len(batch) - pc.sum(matching).as_py()
            batch = batch.filter(matching)
        if not len(batch):
            return None
        ready = {"place": batch[PLACE], "position": batch[names.position]}
        ready["impression_id"] = _composed(batch, names.impression_columns)
        if ready["impression_id"] is None:
            return None
        for name in ("query_id", "doc_id", "policy_id"):
            column = getattr(names, name)
            ready[name] = pa.repeat(self.policy, len(batch)) if column is None else batch[column]
        ready["timestamp"] = _column(batch, names.timestamp, None)
        ready["clicked"] = _column(batch, names.clicked, False)
        if not _is_plain(ready):
            return None
        if pa.types.is_integer(ready["clicked"].type):
            ready["clicked"] = pc.greater(ready["clicked"], pa.scalar(0, ready["clicked"].type))
        # Timestamps are truncated to microseconds.
        ready["timestamp"] = ready["timestamp"].cast(TIME, safe=False)
        ready["signal"] = pa.nulls(len(batch), pa.float64())
        self.session.aside.update(aside)
        return pa.table(ready)


class _Clicks(_Table):
    what = "clicks"

    def __init__(self, session: ImportSession, names: Columns) -> None:
        super().__init__(session, [*names.impression_columns, names.doc_id])
        self.names = names

    def take(self, place: int, values: dict[str, Any]) -> None:
        names = self.names
        position = values.get(names.position)
        self.session.staging.add(
            CLICKS,
            [
                (
                    place,
                    _impression(values, names),
                    read_value.text_id(values.get(names.doc_id), names.doc_id),
                    _time(values, names),
                    None if position in (None, "") else read_value.whole(position, names.position),
                    "click",
                    1.0,
                    True,
                )
            ],
        )


class _Candidates(_Table):
    what = "candidates"

    def __init__(self, session: ImportSession, names: Columns, policy: str | None) -> None:
        super().__init__(session, [names.policy_id, names.query_id, names.doc_id, names.score])
        self.names, self.policy = names, policy

    def take(self, place: int, values: dict[str, Any]) -> None:
        names = self.names
        row = (
            place,
            _policy(values, names, self.policy),
            read_value.text_id(values.get(names.query_id), names.query_id),
            read_value.text_id(values.get(names.doc_id), names.doc_id),
            read_value.score(values.get(names.score), names.score),
        )
        self.session.staging.add(SCORES, [row])


def _impression(values: dict[str, Any], names: Columns) -> str:
    """The id of the impression; values of several columns are joined so that they can be told apart."""
    columns = names.impression_columns
    if len(columns) == 1:
        return read_value.text_id(values.get(columns[0]), columns[0])
    return SEPARATOR.join(_escape(read_value.text_id(_plain(values.get(name)), name)) for name in columns)


def _plain(value: Any) -> Any:
    """A time or a number as text, as it takes part in an id."""
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else value


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)


def _composed(batch: pa.Table, columns: tuple[str, ...]) -> Any:
    """The ids of impressions as a column; None if they must be made one by one."""
    if len(columns) == 1:
        return batch[columns[0]]
    parts = [batch[name].cast(pa.string()) for name in columns if is_id(batch[name].type)]
    if len(parts) < len(columns) or any(part.null_count or _has_empty(part) for part in parts):
        return None
    for character in ("\\", SEPARATOR):
        parts = [pc.replace_substring(part, character, "\\" + character) for part in parts]
    return pc.binary_join_element_wise(*parts, SEPARATOR)


def _signal(value: Any, name: str) -> float:
    """Parse what a display was worth; nothing if it is empty."""
    if value is None or value == "":
        return 0.0
    number = read_value.score(value, name)
    if number < 0:
        raise read_value.BadValueError(f"{name} is {value!r}; expected a number from 0 on")
    return number


def _time(values: dict[str, Any], names: Columns) -> int | None:
    if names.timestamp is None:
        return None
    return read_value.microseconds(values.get(names.timestamp), names.timestamp)


def _policy(values: dict[str, Any], names: Columns, policy: str | None) -> str:
    if names.policy_id is None:
        assert policy is not None
        return policy
    return read_value.text_id(values.get(names.policy_id), names.policy_id)


def _column(batch: pa.Table, name: str | None, constant: bool | None) -> Any:
    if name is not None:
        return batch[name]
    return pa.nulls(len(batch), TIME) if constant is None else pa.repeat(constant, len(batch))


def _is_plain(columns: Mapping[str, Any]) -> bool:
    """Whether columns can be staged without conversion: valid types, no missing values, none out of range."""
    ids = ("impression_id", "query_id", "doc_id", "policy_id")
    complete = not any(column.null_count for name, column in columns.items() if name != "timestamp")
    position, clicked = columns["position"], columns["clicked"]
    whole = all(pa.types.is_integer(c.type) for c in (position, clicked) if not pa.types.is_boolean(c.type))
    if not (complete and whole and not pa.types.is_boolean(position.type)):
        return False
    furthest = max(map(abs, pc.min_max(position).as_py().values()))
    return bool(
        all(is_id(columns[name].type) and not _has_empty(columns[name]) for name in ids)
        and _are_times(columns["timestamp"])
        and furthest < 10**read_value.DIGITS
        and (pa.types.is_boolean(clicked.type) or pc.min(clicked).as_py() >= 0)
    )


def _has_empty(column: Any) -> bool:
    return bool(pc.any(pc.equal(column.cast(pa.string()), "")).as_py())


def _are_times(column: Any) -> bool:
    """Whether these are timestamps between the years 1 and 9999, or missing."""
    if not pa.types.is_timestamp(column.type):
        return False
    per_microsecond = {"s": 1e-6, "ms": 1e-3, "us": 1.0, "ns": 1e3}[column.type.unit]
    ends = pc.min_max(column.cast(pa.int64())).as_py().values()
    return all(
        end is None or read_value.EARLIEST <= end / per_microsecond <= read_value.LATEST for end in ends
    )


def _filter_text(value: Any) -> str:
    """Format a value for comparison with the text of a filter, as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)
