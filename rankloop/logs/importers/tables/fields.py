"""The values of one row of a table, by what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.parsing import (
    BadValueError,
    clicked,
    is_missing,
    microseconds,
    score,
    text_id,
    whole,
)
from rankloop.logs.importers.tables.lists import ColumnPath, as_list, before_comma, clicked_of, labelled
from rankloop.logs.importers.tables.shape import TableShape

# Between the parts of an id of several columns.
SEPARATOR = "|"


class Shown(NamedTuple):
    """A document that was shown: at which position, whether it was clicked, and what that was worth."""

    document: str
    position: int
    clicked: bool
    amount: float | None


class RowFields:
    """Reads the values of rows.

    Args:
        names: the names of the columns.
        shape: how rows are to be read.
        amounts: the weights of columns that say whether something happened, such as a purchase.
        shared: the columns by which clicks elsewhere say to which impression they belong; all of those of an
            impression if there are none.
        names_document: whether clicks elsewhere name their documents; otherwise their row or their position.
    """

    def __init__(
        self,
        names: Columns,
        shape: TableShape,
        amounts: Mapping[str, float],
        shared: Sequence[str] = (),
        *,
        names_document: bool = True,
    ) -> None:
        self.names_document = names_document
        self.names, self.shape, self.amounts = names, shape, amounts
        self._shared = [ColumnPath(name) for name in ([names.row_id] if names.row_id else shared)]
        self._impression = [ColumnPath(name) for name in names.impression_columns]
        self._paths = {
            field: ColumnPath(name) for field, name in vars(names).items() if isinstance(name, str)
        }
        self._amounts = {name: ColumnPath(name) for name in amounts}
        self._rows: dict[str, int] = {}
        self._run: tuple[int, str | None, str] | None = None

    @property
    def needed_by_clicks(self) -> list[str | None]:
        """The columns that a table of clicks must have."""
        key = [path.text for path in self._shared or self._impression]
        if self.names_document:
            return [*key, self.names.doc_id]
        return [*key, self.names.position if self.names.row_id is None else None]

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
            return self._next_run(values, place) if self.shape.restarts else f"row {place}"
        return _joined(self._impression, values)

    def key(self, values: dict[str, Any], place: int) -> str:
        """What a click elsewhere says of the impression, or of the row, that it is on."""
        return _joined(self._shared, values) if self._shared else self.impression(values, place)

    def _next_run(self, values: dict[str, Any], place: int) -> str:
        """The impression of a row where one begins where positions do, or where the query changes."""
        position = self._position(values)
        query = None if self.names.query_id is None else self.text("query_id", values)
        name = f"row {place}"
        if self._run is not None and position > self._run[0] and query == self._run[1]:
            name = self._run[2]
        self._run = (position, query, name)
        return name

    def _position(self, values: dict[str, Any]) -> int:
        names, pages = self.names, self.shape.pages
        position = whole(self.get("position", values), str(names.position))
        if pages is None or names.page is None:
            return position
        return pages.position(whole(self.get("page", values), names.page), position)

    def _on_earlier_pages(self, values: dict[str, Any]) -> int:
        """The number of positions above those of a list."""
        names, pages = self.names, self.shape.pages
        if pages is None or names.page is None or names.position is not None:
            return 0
        return pages.position(whole(self.get("page", values), names.page), 0)

    def query(self, values: dict[str, Any], impression: str) -> str:
        """The query; the impression if there is no column for it."""
        return impression if self.names.query_id is None else self.text("query_id", values)

    def time(self, values: dict[str, Any]) -> int | None:
        """The time in microseconds since 1970; None if it is missing."""
        if self.names.timestamp is None:
            return None
        return microseconds(
            self.get("timestamp", values), self.names.timestamp, day_first=self.shape.day_first
        )

    def flag(self, field: str, values: dict[str, Any]) -> bool:
        """Whether a column is true."""
        return clicked(self.get(field, values), getattr(self.names, field))

    def documents(self, values: dict[str, Any], impression: str) -> tuple[list[Shown], list[str]]:
        """The documents that a row shows, and documents that it says were clicked but does not show."""
        names, given = self.names, self.get("doc_id", values)
        if self.shape.lists or isinstance(given, list):
            return self._list(given, values)
        if names.position is None:
            position = self._rows[impression] = self._rows.get(impression, 0) + 1
        else:
            position = self._position(values)
        was_clicked = names.clicked is not None and self._was_clicked(values)
        amount = self._amount(values, was_clicked)
        return [Shown(text_id(given, names.doc_id), position, was_clicked, amount)], []

    def _list(self, given: Any, values: dict[str, Any]) -> tuple[list[Shown], list[str]]:
        names = self.names
        elements = as_list(given, names.doc_id)
        flags, strangers = [False] * len(elements), list[str]()
        if names.clicked == names.doc_id:
            elements, flags = labelled(elements, names.doc_id)
        if self.shape.pairs:
            elements = [before_comma(element) for element in elements]
        documents = [text_id(element, names.doc_id) for element in elements]
        before = self._on_earlier_pages(values)
        positions: list[Any] = list(range(before + 1, before + len(documents) + 1))
        if names.position is not None:
            positions = as_list(self.get("position", values), names.position)
            if len(positions) != len(documents):
                raise BadValueError(
                    f"{len(positions)} values of {names.position} for {len(documents)} documents"
                )
        if names.clicked is not None and names.clicked != names.doc_id:
            first = self.shape.first_clicked
            flags, strangers = clicked_of(self.get("clicked", values), documents, names.clicked, first)
        name = names.position or ""
        shown = [
            Shown(document, whole(position, name), flag, None)
            for document, position, flag in zip(documents, positions, flags, strict=True)
        ]
        return shown, strangers

    def _was_clicked(self, values: dict[str, Any]) -> bool:
        if self.shape.timed_clicks:
            value = self.get("clicked", values)
            return not is_missing(value) and str(value).strip().removesuffix(".0") not in self.shape.no_click
        if self.shape.empty_is_unclicked and is_missing(self.get("clicked", values)):
            return False
        return self.flag("clicked", values)

    def _amount(self, values: dict[str, Any], was_clicked: bool) -> float | None:
        if self.names.amount is None and not self._amounts:
            return None
        amount = [float(was_clicked)]
        if self.names.amount is not None:
            amount = [_amount(self.get("amount", values), self.names.amount)]
        for name, path in self._amounts.items():
            value = path.of(values)
            if not is_missing(value) and clicked(value, name):
                amount.append(self.amounts[name])
        return max(amount)


def _joined(paths: Sequence[ColumnPath], values: dict[str, Any]) -> str:
    """An id of one column or of several, joined so that they can be told apart."""
    if len(paths) == 1:
        return text_id(paths[0].of(values), paths[0].text)
    return SEPARATOR.join(_escape(text_id(_plain(path.of(values)), path.text)) for path in paths)


def _amount(value: Any, name: str) -> float:
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
