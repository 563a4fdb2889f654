"""Whole columns of Parquet files as rows of impressions, without a loop over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.parsing import DIGITS
from rankloop.logs.importers.staging import TIME
from rankloop.logs.importers.tables.fields import SEPARATOR
from rankloop.logs.importers.times import EARLIEST, LATEST
from rankloop.logs.schema import is_id

# The column of places in a batch; a source may have a column of any other name.
PLACE = "\0place"


def whole_columns(batch: pa.Table, names: Columns, policy: str | None) -> pa.Table | None:
    """Rows of impressions from columns of the right types; None if rows must be read one by one.

    Args:
        batch: the columns, and `PLACE`.
        names: their names.
        policy: the policy of all rows; None if a column has it.
    """
    ready = {"place": batch[PLACE]}
    impressions = _composed(batch, names.impression_columns)
    if impressions is None or names.position not in batch.column_names:
        return None
    ready |= {"position": batch[names.position], "impression_id": impressions}
    for name in ("query_id", "doc_id", "policy_id"):
        column = getattr(names, name)
        if name == "query_id" and column is None:
            ready[name] = impressions
        elif name == "policy_id" and policy is not None:
            ready[name] = pa.repeat(policy, len(batch))
        elif column not in batch.column_names:
            return None
        else:
            ready[name] = batch[column]
    for name, constant in (("timestamp", None), ("clicked", False)):
        column = getattr(names, name)
        if column is not None and column not in batch.column_names:
            return None
        ready[name] = _column(batch, column, constant)
    if not _is_plain(ready):
        return None
    if pa.types.is_integer(ready["clicked"].type):
        ready["clicked"] = pc.greater(ready["clicked"], pa.scalar(0, ready["clicked"].type))
    # Timestamps are truncated to microseconds.
    ready["timestamp"] = ready["timestamp"].cast(TIME, safe=False)
    ready["amount"] = pa.nulls(len(batch), pa.float64())
    return pa.table(ready)


def _composed(batch: pa.Table, columns: tuple[str, ...]) -> Any:
    """The ids of impressions as a column; None if they must be made one by one."""
    if not columns or any(name not in batch.column_names for name in columns):
        return None
    if len(columns) == 1:
        return batch[columns[0]]
    parts = [batch[name].cast(pa.string()) for name in columns if is_id(batch[name].type)]
    if len(parts) < len(columns) or any(part.null_count or _has_empty(part) for part in parts):
        return None
    for character in ("\\", SEPARATOR):
        parts = [pc.replace_substring(part, character, "\\" + character) for part in parts]
    return pc.binary_join_element_wise(*parts, SEPARATOR)


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
        and furthest < 10**DIGITS
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
    return all(end is None or EARLIEST <= end / per_microsecond <= LATEST for end in ends)
