"""The values of one row of a table, by what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.parsing import BadValueError, clicked, score, text_id, whole
from rankloop.logs.importers.tables.lists import as_list, clicked_of
from rankloop.logs.importers.tables.paths import ColumnPath
from rankloop.logs.importers.times import microseconds

# Between the parts of an id of several columns.
SEPARATOR = "|"


class Shown(NamedTuple):
    """A document that was shown: at which position, whether it was clicked, and what that was worth."""

    document: str
    position: int
    clicked: bool
    signal: float | None


class RowFields:
    """Reads the values of rows.

    Args:
        names: the names of the columns.
        lists: whether a row holds a list of documents.
        signals: the weights of columns that say whether something happened, such as a purchase.
        day_first: whether dates with slashes have the day first; None if it is not known.
    """

    def __init__(
        self,
        names: Columns,
        *,
        signals: Mapping[str, float],
        lists: bool = False,
        day_first: bool | None = None,
    ) -> None:
        self.names, self.lists, self.signals, self.day_first = names, lists, signals, day_first
        self._impression = [ColumnPath(name) for name in names.impression_columns]
        self._paths = {
            field: ColumnPath(name) for field, name in vars(names).items() if isinstance(name, str)
        }
        self._signals = {name: ColumnPath(name) for name in signals}
        self._rows: dict[str, int] = {}

    def get(self, field: str, values: dict[str, Any]) -> Any:
        """The value of a field as it is; None if there is no such column or value."""
        path = self._paths.get(field)
        return None if path is None else path.of(values)

    def text(self, field: str, values: dict[str, Any]) -> str:
        """An id."""
        return text_id(self.get(field, values), getattr(self.names, field))

    def impression(self, values: dict[str, Any], place: int) -> str:
        """The id of the impression; values of several columns are joined so that they can be told apart."""
        if not self._impression:
            return f"row {place}"
        if len(self._impression) == 1:
            return text_id(self._impression[0].of(values), self._impression[0].text)
        return SEPARATOR.join(
            _escape(text_id(_plain(path.of(values)), path.text)) for path in self._impression
        )

    def query(self, values: dict[str, Any], impression: str) -> str:
        """The query; the impression if there is no column for it."""
        return impression if self.names.query_id is None else self.text("query_id", values)

    def time(self, values: dict[str, Any]) -> int | None:
        """The time in microseconds since 1970; None if it is missing."""
        if self.names.timestamp is None:
            return None
        return microseconds(self.get("timestamp", values), self.names.timestamp, day_first=self.day_first)

    def flag(self, field: str, values: dict[str, Any]) -> bool:
        """Whether a column is true."""
        return clicked(self.get(field, values), getattr(self.names, field))

    def documents(self, values: dict[str, Any], impression: str) -> tuple[list[Shown], list[str]]:
        """The documents that a row shows, and documents that it says were clicked but does not show."""
        names, given = self.names, self.get("doc_id", values)
        if self.lists or isinstance(given, list):
            return self._list(given, values)
        if names.position is None:
            position = self._rows[impression] = self._rows.get(impression, 0) + 1
        else:
            position = whole(self.get("position", values), names.position)
        was_clicked = names.clicked is not None and self.flag("clicked", values)
        signal = self._signal(values, was_clicked)
        return [Shown(text_id(given, names.doc_id), position, was_clicked, signal)], []

    def _list(self, given: Any, values: dict[str, Any]) -> tuple[list[Shown], list[str]]:
        names = self.names
        documents = [text_id(element, names.doc_id) for element in as_list(given, names.doc_id)]
        positions: list[Any] = list(range(1, len(documents) + 1))
        if names.position is not None:
            positions = as_list(self.get("position", values), names.position)
            if len(positions) != len(documents):
                raise BadValueError(
                    f"{len(positions)} values of {names.position} for {len(documents)} documents"
                )
        flags, strangers = [False] * len(documents), list[str]()
        if names.clicked is not None:
            flags, strangers = clicked_of(self.get("clicked", values), documents, names.clicked)
        name = names.position or ""
        shown = [
            Shown(document, whole(position, name), flag, None)
            for document, position, flag in zip(documents, positions, flags, strict=True)
        ]
        return shown, strangers

    def _signal(self, values: dict[str, Any], was_clicked: bool) -> float | None:
        if self.names.signal is None and not self._signals:
            return None
        worth = [float(was_clicked)]
        if self.names.signal is not None:
            worth = [_worth(self.get("signal", values), self.names.signal)]
        for name, path in self._signals.items():
            value = path.of(values)
            if not is_missing(value) and clicked(value, name):
                worth.append(self.signals[name])
        return max(worth)


# How programs write that there is no value, in columns of numbers.
MISSING = ("", "null", "nan", "na", "n/a", "none", "\\n")


def is_missing(value: Any) -> bool:
    """Whether a value of a column of numbers or flags is missing.

    >>> is_missing("NULL"), is_missing(0), is_missing(float("nan"))
    (True, False, True)
    """
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or value != value


def _worth(value: Any, name: str) -> float:
    """Parse what a display was worth; nothing if it is empty."""
    if is_missing(value):
        return 0.0
    number = score(value, name)
    if number < 0:
        raise BadValueError(f"{name} is {value!r}; expected a number from 0 on")
    return number


def _plain(value: Any) -> Any:
    """A time or a number as text, as it takes part in an id."""
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if isinstance(value, date) else value


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)
