"""How the columns of a table relate in its first rows: which stay the same, and which determine others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rankloop.logs.importers.parsing import CLICKED, BadValueError, whole
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.tables.shape import is_missing, is_no_time
from rankloop.logs.importers.tables.value_kinds import are_times
from rankloop.logs.importers.times import is_day_first, microseconds

Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# Rows in groups of several that it takes to say that a value follows from another.
ENOUGH = 20
# Share of the groups that must agree.
MOST = 0.95


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
        return bool(sizes[several].sum() >= ENOUGH and _share(values[several] == 1) >= MOST)

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
