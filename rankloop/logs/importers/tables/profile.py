"""The first rows of a table, what kinds of values its columns hold, and how columns relate.

Nested values are columns of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankloop.logs.importers.actions import Events
from rankloop.logs.importers.files import SourceFiles
from rankloop.logs.importers.parsing import (
    CLICKED,
    BadValueError,
    clicked,
    is_day_first,
    is_missing,
    is_no_time,
    microseconds,
    whole,
)
from rankloop.logs.importers.tables.lists import STEP, ColumnPath, as_list, as_object, parsed
from rankloop.logs.problems import ProblemCounter

ROWS = 5_000
# Objects in objects in objects and so on: deeper fields are not looked at.
DEPTH = 5
_MADE_UP = re.compile(r"[ch]\d+$")


class Sample:
    """The first rows of a table.

    Attributes:
        rows: the rows.
        columns: the names of all columns, and of fields of objects in them, such as ``payload.query``.
    """

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows = list(rows)
        names: dict[str, None] = {}
        for row in self.rows:
            for name, value in row.items():
                names.update(dict.fromkeys(_paths(name, value, DEPTH)))
        self.columns = tuple(names)
        self._values: dict[str, list[Any]] = {}
        self._lists: dict[str, list[list[Any]]] = {}

    @classmethod
    def read(cls, paths: Sequence[Path], what: str) -> Sample:
        """Read the first rows of the first file; what is wrong with them is left to the import."""
        files = SourceFiles(ProblemCounter())
        return cls(record.values for record in islice(files.records(paths[:1], what), ROWS))

    @property
    def is_unnamed(self) -> bool:
        """Whether the table has no names of columns, so that c1, c2 and so on were made up."""
        return bool(self.columns) and all(_MADE_UP.match(name) for name in self.columns)

    def values(self, column: str) -> list[Any]:
        """The values of a column, one per row; None where it has none."""
        if column not in self._values:
            path = ColumnPath(column)
            self._values[column] = [path.of(row) for row in self.rows]
        return self._values[column]

    def lists(self, column: str) -> list[list[Any]]:
        """The values of a column as lists, one per row; empty ones where they cannot be read."""
        if column not in self._lists:
            self._lists[column] = [_elements(value, column) for value in self.values(column)]
        return self._lists[column]

    def present(self, column: str | None) -> list[Any]:
        """The values of a column that are there; none if there is no column."""
        if column is None:
            return []
        return [value for value in self.values(column) if value is not None and value != ""]

    def __len__(self) -> int:
        return len(self.rows)


def _elements(value: Any, column: str) -> list[Any]:
    try:
        return as_list(value, column)
    except BadValueError:
        return []


def _paths(name: str, value: Any, depth: int) -> Iterable[str]:
    """A column, or the fields of the objects in it."""
    value = as_object(parsed(value) if isinstance(value, str) else value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if not isinstance(value, dict) or not depth:
        return [name]
    return [path for key, inner in value.items() for path in _paths(f"{name}{STEP}{key}", inner, depth - 1)]


# Share of the values of a column that must be of the expected kind.
MOST = 0.9
HALF = 0.5
# Of more values than this, about as many are examined first.
PROBES = 100
# A column with more different values than this does not hold policies or kinds of events.
KINDS = 50
# Numbers from this size on are times since 1970, in microseconds: 1973. Smaller ones count from a session's
# beginning, or are hours.
FIRST_TIME = 10**14
DEEPEST_POSITION = 1_000


def share(values: Sequence[Any], accept: Callable[[Any], bool], least: float = MOST) -> bool:
    """Whether a share of the values is accepted; values that cannot be read are not.

    Some of many values are examined first: reading times takes long, and most columns have none.
    """
    some = values[:: max(len(values) // PROBES, 1)]
    if least >= HALF and len(some) < len(values) and _accepted(some, accept) < least / 2 * len(some):
        return False
    return _accepted(values, accept) >= least * len(values)


def _accepted(values: Sequence[Any], accept: Callable[[Any], bool]) -> int:
    right = 0
    for value in values:
        try:
            right += accept(value)
        except BadValueError:
            continue
    return right


def are_positions(values: Sequence[Any]) -> bool:
    """Whether most values are small whole numbers; or all are lists of them."""
    if any(isinstance(value, list) for value in values):
        lists = [value for value in values if isinstance(value, list) and value]
        parts = [part for value in lists for part in value]
        return len(lists) == len(values) and share(parts, _is_position, 1.0)
    return share(values, _is_position)


def _is_position(value: Any) -> bool:
    return 0 <= whole(value, "") <= DEEPEST_POSITION


def are_flags(values: Sequence[Any]) -> bool:
    """Whether most values are true, false, or numbers of clicks."""
    return share(values, lambda value: clicked(value) in (True, False))


def are_marks(values: Sequence[Any]) -> bool:
    """Whether all values are true, false, 0 or 1, not numbers of clicks.

    >>> are_marks(["0", "1.0"]), are_marks([0, 1, 7])
    (True, False)
    """
    return all(str(value).strip().lower().removesuffix(".0") in CLICKED for value in values)


def are_times(values: Sequence[Any]) -> bool:
    """Whether at least half of the values are times; the others are reported when they are imported."""
    day_first = is_day_first(values)
    return share(values, lambda value: abs(microseconds(value, day_first=day_first) or 0) >= FIRST_TIME, HALF)


def are_dates(values: Sequence[Any]) -> bool:
    """Whether the values are times that no number can be mistaken for."""
    text = [value for value in values if not isinstance(value, int | float)]
    return (
        len(text) == len(values)
        and not share(text, lambda value: str(value).strip().isdecimal(), 0.01)
        and are_times(values)
    )


def are_kinds(values: Sequence[Any]) -> bool:
    """Whether the values are few different names or numbers."""
    return all(isinstance(value, str | int) for value in values) and len(set(values)) <= KINDS


def are_events(values: Sequence[Any]) -> bool:
    """Whether the values are kinds of events, of which some show documents and some are clicks."""
    if not are_kinds(values):
        return False
    found = Events().completed(dict.fromkeys(map(str, values)))
    return bool(found.shown and found.clicks)


def are_counts(values: Sequence[Any]) -> bool:
    """Whether the values are whole numbers, of which some are above 1."""
    if any(isinstance(value, bool | list | dict) for value in values):
        return False
    return share(values, lambda value: whole(value, "") >= 0, 1.0) and share(
        values, lambda value: whole(value, "") > 1, 0.01
    )


Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# Rows in groups of several that it takes to say that a value follows from another.
ENOUGH = 20
# Share of the groups that must agree.
AGREE = 0.95


class Relations:
    """Relations between columns of the first rows of a table.

    Args:
        sample: the first rows.

    Example:
        >>> rows = [{"s": i // 3, "p": i % 3, "d": f"d{i % 5}", "kind": (i % 5) // 2} for i in range(60)]
        >>> table = Relations(Sample(rows))
        >>> search = table.groups(["s"])
        >>> table.differs(search, "p"), table.is_constant(search, "p"), table.determines("d", "kind")
        (1.0, 0.0, True)
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._codes: dict[str, Codes] = {}

    def codes(self, column: str) -> Codes:
        """A number for each value; -1 where there is none."""
        if column not in self._codes:
            numbers: dict[str, int] = {}
            codes = [
                -1 if value is None or value == "" else numbers.setdefault(str(value), len(numbers))
                for value in self.sample.values(column)
            ]
            self._codes[column] = np.array(codes, np.int64)
        return self._codes[column]

    def groups(self, columns: Sequence[str]) -> Codes:
        """A number for each combination of values."""
        groups = np.zeros(len(self.sample), np.int64)
        for column in columns:
            groups = self.combined(groups, self.codes(column))
        return groups

    @staticmethod
    def combined(groups: Codes, codes: Codes) -> Codes:
        """Groups divided by another column."""
        if not len(groups):
            return groups
        pairs = groups * (codes.max() + 2) + codes + 1
        return np.unique(pairs, return_inverse=True)[1].astype(np.int64)

    def distinct(self, groups: Codes, codes: Codes) -> tuple[Codes, Codes]:
        """For each group, its rows and its different values."""
        sizes = np.bincount(groups)
        pairs = np.unique(groups * (codes.max(initial=0) + 2) + codes + 1)
        return sizes, np.bincount(pairs // (codes.max(initial=0) + 2), minlength=len(sizes))

    def is_constant(self, groups: Codes, column: str) -> float:
        """Share of the groups of several rows in which a column stays the same."""
        sizes, values = self.distinct(groups, self.codes(column))
        return _share(values[sizes > 1] == 1)

    def differs(self, groups: Codes, column: str) -> float:
        """Share of the groups of several rows in which a column is never the same."""
        sizes, values = self.distinct(groups, self.codes(column))
        return _share((values == sizes)[sizes > 1])

    def determines(self, column: str, other: str) -> bool:
        """Whether a column has several rows per value, and another is the same in each of them."""
        groups, codes = self.codes(column) + 1, self.codes(other)
        sizes, values = self.distinct(groups, codes)
        several = sizes > 1
        if len(np.unique(codes)) < 2:
            return False
        return bool(sizes[several].sum() >= ENOUGH and _share(values[several] == 1) >= AGREE)

    def are_same(self, column: str, other: str) -> bool:
        """Whether two columns are two names of the same things."""
        pairs = len(np.unique(self.combined(self.codes(column) + 1, self.codes(other))))
        return pairs == len(np.unique(self.codes(column))) == len(np.unique(self.codes(other)))

    def comes_again(self, groups: Codes, column: str) -> float:
        """Share of the groups whose first value is that of another group, too."""
        first = self.codes(column)[first_rows(groups)]
        first = first[first >= 0]
        if not len(first):
            return 0.0
        _, inverse, counts = np.unique(first, return_inverse=True, return_counts=True)
        return float((counts[inverse] > 1).mean())

    def overlap(self, firsts: Codes, column: str, shown: Sequence[set[str]]) -> float:
        """How many documents impressions of one value share, as a multiple of those that any two share.

        Queries have documents of their own; users, countries and days have not.

        Args:
            firsts: the first row of each impression.
            column: the column.
            shown: the documents of each impression.
        """
        by_value: dict[int, list[set[str]]] = {}
        for value, documents in zip(self.codes(column)[firsts].tolist(), shown, strict=True):
            by_value.setdefault(value, []).append(documents)
        inside = [_jaccard(a, b) for sets in by_value.values() for a, b in pairwise(sets)]
        half = max(len(shown) // 2, 1)
        across = [_jaccard(a, b) for a, b in zip(shown, shown[half:], strict=False)]
        if not inside or not across:
            return 0.0
        return float(np.mean(inside) / max(float(np.mean(across)), 0.01))

    def whole_numbers(self, column: str) -> Codes | None:
        """Whole numbers from 0 on; None if the column holds anything else."""
        try:
            numbers = [whole(value, column) for value in self.sample.values(column)]
        except BadValueError:
            return None
        return np.array(numbers, np.int64) if numbers and min(numbers) >= 0 else None

    def marks(self, column: str) -> Flags | None:
        """Which rows a column marks: by 0 and 1, by a count, or by a time or an id that other rows lack."""
        values = self.sample.values(column)
        texts = [
            "" if is_missing(value) else str(value).strip().lower().removesuffix(".0") for value in values
        ]
        present = {text for text in texts if text}
        if present and all(text in CLICKED or text.isdecimal() for text in present):
            if all(text in CLICKED for text in present) or "0" in present or len(present) == 1:
                return np.array([bool(text) and CLICKED.get(text, text != "0") for text in texts])
            return None
        moments = [value for value in values if not is_no_time(value)]
        if 0 < len(moments) < len(values) and are_times(moments):
            return np.array([not is_no_time(value) for value in values])
        return None

    def is_binary(self, column: str) -> bool:
        """Whether all values are true, false, 0 or 1."""
        values = self.sample.present(column)
        return all(_plain(value) in CLICKED for value in values)

    def moments(self, column: str) -> npt.NDArray[np.float64] | None:
        """Times in microseconds, NaN where there is none; None if a column does not hold times."""
        values = self.sample.values(column)
        present = self.sample.present(column)
        if not present or any(isinstance(value, list | dict | bool) for value in present[:1]):
            return None
        if not are_times(present):
            return None
        day_first = is_day_first(present)
        return np.array([_moment(value, day_first) for value in values])


def _plain(value: Any) -> str:
    return str(value).strip().lower().removesuffix(".0")


def _moment(value: Any, day_first: bool | None) -> float:
    try:
        moment = microseconds(value, "", day_first=day_first)
    except BadValueError:
        return np.nan
    return np.nan if moment is None else float(moment)


def _share(right: Flags) -> float:
    return float(right.mean()) if len(right) else 0.0


def first_rows(groups: Codes) -> Codes:
    """The first row of each group."""
    return np.unique(groups, return_index=True)[1].astype(np.int64)


def _jaccard(a: set[str], b: set[str]) -> float:
    return len(a & b) / max(len(a | b), 1)
