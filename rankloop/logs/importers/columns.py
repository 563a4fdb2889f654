"""Import tables with arbitrary column names: CSV, JSON lines or Parquet, one row per shown document."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError
from rankloop.logs.importers import parsing as read_value
from rankloop.logs.importers.files import (
    JSON_ENDINGS,
    PARQUET_ENDING,
    Paths,
    Record,
    as_paths,
    ending_of,
    parquet_batches,
    place_of,
    python_rows,
)
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions, ImportSession, run
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import CLICKS, SCORES, TIME
from rankloop.logs.schema import IMPRESSIONS, is_id, missing_column

# Marks a missing column in the text form of `Columns`.
NONE = "-"
ALL_ROWS: Mapping[str, str] = MappingProxyType({})
# Number of rows of a Parquet file to process at a time as columns.
ROWS_PER_BATCH = 500_000


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table; None if there is no such column.

    Attributes:
        impression_id: the impression.
        timestamp: the time: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970.
        query_id: the query.
        policy_id: the policy.
        position: the position of the document, from 0 or from 1.
        doc_id: the document.
        clicked: whether it was clicked: true, false, or the number of clicks.
        score: the policy's score, in a table of candidates.

    Example:
        >>> Columns.parse("impression_id=session, query_id=text, timestamp=-").query_id
        'text'
    """

    impression_id: str = "impression_id"
    timestamp: str | None = "timestamp"
    query_id: str = "query_id"
    policy_id: str | None = "policy_id"
    position: str = "position"
    doc_id: str = "doc_id"
    clicked: str | None = "clicked"
    score: str = "score"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``column=name, …``; the name ``-`` means that there is no such column."""
        known = [field.name for field in fields(cls)]
        named: dict[str, str | None] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            column, equals, name = (word.strip() for word in part.partition("="))
            if not equals or not name or column not in known:
                raise DataError(f"cannot parse {part!r}: expected column=name with one of {', '.join(known)}")
            optional = column in ("timestamp", "policy_id", "clicked")
            if name == NONE and not optional:
                raise DataError(f"the column {column} is required: it cannot be {NONE!r}")
            named[column] = None if name == NONE else name
        return replace(cls(), **named)  # type: ignore[arg-type]


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

    def __init__(self, session: ImportSession, needed: Mapping[str, str | None]) -> None:
        self.session = session
        self.needed = {name: column for name, column in needed.items() if column is not None}

    def read(self, sources: Paths) -> None:
        for path in as_paths(sources):
            self._checked = False
            if ending_of(path) == PARQUET_ENDING:
                self._parquet(self.session.files.add_file(path))
            else:
                # JSON objects may have different keys; all lines of a CSV file have the same columns.
                self._checked = ending_of(path) in JSON_ENDINGS
                self.session.each(path, self.what, self._record)

    def take(self, place: int, values: dict[str, Any]) -> None:
        """Stage one record."""
        raise NotImplementedError

    def staged(self, _batch: pa.Table) -> pa.Table | None:
        """Prepare whole columns for staging; None if the rows must be processed one by one."""
        return None

    def _record(self, record: Record) -> None:
        if not self._checked:
            self._check(self.session.files.place_name(record.place), record.values)
        self.take(record.place, record.values)

    def _check(self, where: str, there: Any) -> None:
        for column in self.needed.values():
            if column not in there:
                raise missing_column(where, column, self.needed.values(), there, self.what)
        self._checked = True

    def _parquet(self, number: int) -> None:
        row = 1
        for batch in parquet_batches(self.session.files.paths[number], ROWS_PER_BATCH):
            self._check(str(self.session.files.paths[number]), batch.schema.names)
            places = place_of(number, row) + np.arange(len(batch))
            table = pa.Table.from_batches([batch]).append_column("place", pa.array(places))
            whole = self.staged(table)
            if whole is not None:
                self.session.staging.add_batch(IMPRESSIONS, whole)
                self.session.count_records(len(batch))
            else:
                rows = python_rows(batch, self.session.files.paths[number], row)
                for place, values in zip(places.tolist(), rows, strict=True):
                    self.session.take(Record(place, values), self._record)
            row += len(batch)


class _Impressions(_Table):
    what = "impressions"

    def __init__(
        self, session: ImportSession, names: Columns, policy: str | None, only: Mapping[str, str]
    ) -> None:
        columns = {field.name: getattr(names, field.name) for field in fields(names) if field.name != "score"}
        super().__init__(session, columns | {f"only {column}": column for column in only})
        self.names, self.policy, self.only = names, policy, only

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
                    read_value.text_id(values.get(names.impression_id), names.impression_id),
                    _time(values, names),
                    read_value.text_id(values.get(names.query_id), names.query_id),
                    _policy(values, names, self.policy),
                    read_value.whole(values.get(names.position), names.position),
                    read_value.text_id(values.get(names.doc_id), names.doc_id),
                    names.clicked is not None
                    and read_value.clicked(values.get(names.clicked), names.clicked),
                )
            ],
        )

    def staged(self, _batch: pa.Table) -> pa.Table | None:
        names, batch, aside = self.names, _batch, {}
        for column, wanted in self.only.items():
            if not is_id(batch[column].type):
                return None
            matching = pc.fill_null(pc.equal(batch[column].cast(pa.string()), wanted), False)
            aside[f"rows where {column} is not {wanted!r}"] = len(batch) - pc.sum(matching).as_py()
            batch = batch.filter(matching)
        if not len(batch):
            return None
        ready = {"place": batch["place"], "position": batch[names.position]}
        for name in ("impression_id", "query_id", "doc_id", "policy_id"):
            column = getattr(names, name)
            ready[name] = pa.repeat(self.policy, len(batch)) if column is None else batch[column]
        ready["timestamp"] = _column(batch, names.timestamp, None)
        ready["clicked"] = _column(batch, names.clicked, False)
        if not _is_plain(ready):
            return None
        if pa.types.is_integer(ready["clicked"].type):
            ready["clicked"] = pc.greater(ready["clicked"], 0)
        # Timestamps are truncated to microseconds.
        ready["timestamp"] = ready["timestamp"].cast(TIME, safe=False)
        self.session.aside.update(aside)
        return pa.table(ready)


class _Clicks(_Table):
    what = "clicks"

    def __init__(self, session: ImportSession, names: Columns) -> None:
        super().__init__(session, {"impression_id": names.impression_id, "doc_id": names.doc_id})
        self.names = names

    def take(self, place: int, values: dict[str, Any]) -> None:
        names = self.names
        position = values.get(names.position)
        self.session.staging.add(
            CLICKS,
            [
                (
                    place,
                    read_value.text_id(values.get(names.impression_id), names.impression_id),
                    read_value.text_id(values.get(names.doc_id), names.doc_id),
                    _time(values, names),
                    None if position in (None, "") else read_value.whole(position, names.position),
                )
            ],
        )


class _Candidates(_Table):
    what = "candidates"

    def __init__(self, session: ImportSession, names: Columns, policy: str | None) -> None:
        needed = {name: getattr(names, name) for name in ("policy_id", "query_id", "doc_id", "score")}
        super().__init__(session, needed)
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
