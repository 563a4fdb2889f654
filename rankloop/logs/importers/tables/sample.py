"""The first rows of a table, with nested values as columns of their own, to guess what columns mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rankloop.logs.importers.files import SourceFiles
from rankloop.logs.importers.parsing import BadValueError
from rankloop.logs.importers.tables.lists import as_list
from rankloop.logs.importers.tables.paths import STEP, ColumnPath, as_object, parsed
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
