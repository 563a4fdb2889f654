"""How the rows of a table are to be read, found out from its first rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.parsing import (
    NOTHING,
    BadValueError,
    clicked,
    is_day_first,
    is_missing,
    is_no_time,
    whole,
)
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.impression_guess import ImpressionGuess
from rankloop.logs.importers.tables.lists import RANGE, are_pairs, as_list, first_position, hold_lists
from rankloop.logs.importers.tables.profile import MOST, Sample, are_positions, are_times


@dataclass(frozen=True)
class TableShape:
    """How rows are to be read.

    Attributes:
        lists: whether a row holds a list of documents, in the order in which they were shown.
        arrays: whether a row holds a list of documents, in this order or with their positions.
        restarts: whether an impression begins where positions begin again.
        day_first: whether dates with slashes have the day first; None if it is not known.
        first_clicked: the number of the first position, in a column of clicked positions.
        empty_is_unclicked: whether rows without a value in the column of clicks were not clicked, because
            all values that are there are clicks.
        pages: how pages are numbered, if positions begin again on every page.
        pairs: whether documents are followed by a comma and something else, such as their domain.
        timed_clicks: whether the column of clicks has their times or ids; a row without one was not clicked.
        no_click: values of such a column that stand for nothing, as programs write it.
    """

    lists: bool = False
    arrays: bool = False
    restarts: bool = False
    day_first: bool | None = None
    first_clicked: int = 1
    empty_is_unclicked: bool = False
    pages: Pages | None = None
    pairs: bool = False
    timed_clicks: bool = False
    no_click: tuple[str, ...] = ()

    @classmethod
    def of(cls, sample: Sample, names: Columns, position_base: int | None) -> Self:
        """Find out from the first rows.

        Args:
            sample: the first rows that show documents.
            names: the columns.
            position_base: the number of the first position, if it was given.
        """
        arrays = hold_lists(*(sample.present(name) for name in (names.doc_id, names.position, names.clicked)))
        lists = names.position is None and arrays
        first = position_base
        if first is None and lists and names.clicked is not None:
            first = first_position(sample.values(names.clicked), sample.values(names.doc_id), names.clicked)
        day_first = None if names.timestamp is None else is_day_first(sample.present(names.timestamp))
        pages = None
        if names.page is not None and names.position is not None:
            pages = Pages.of(sample.present(names.page), sample.present(names.position))
        elif names.page is not None and lists:
            shown = [as_list(value, names.doc_id) for value in sample.present(names.doc_id)]
            pages = Pages.of(sample.present(names.page), range(1, max(map(len, shown)) + 1))
        empty = not lists and names.clicked is not None and _only_clicks(sample.values(names.clicked))
        restarts = not arrays and _restarts(sample, names)
        first = 1 if first is None else first
        pairs = lists and RANGE in names.doc_id and are_pairs(sample.present(names.doc_id))
        marks = [] if arrays else sample.present(names.clicked)
        clicks = [value for value in marks if not is_no_time(value)]
        timed, nothing = bool(clicks) and are_times(clicks), NOTHING
        if clicks and not timed and _are_click_ids(clicks, names.clicked):
            # An id may be 0; what stands for nothing comes again.
            timed, nothing = True, tuple(one for one in NOTHING if list(map(str, marks)).count(one) > 1)
        return cls(lists, arrays, restarts, day_first, first, empty, pages, pairs, timed, nothing)

    def notes(self, names: Columns) -> list[str]:
        """Sentences on what was found out, for the report."""
        found = []
        if self.empty_is_unclicked:
            found.append(
                f"Rows without a value in {names.clicked} count as not clicked, because all values that are "
                f"there are clicks."
            )
        if names.impression_id is None and not self.lists and not self.restarts and not self.arrays:
            found.append("Each row is an impression of its own, with a single document.")
        if self.timed_clicks:
            found.append(f"Rows with a value in {names.clicked} were clicked, the others were not.")
        if self.pairs:
            found.append("A document is what stands before the comma, as in 'url,domain'.")
        if self.first_clicked == 0:
            found.append(f"Positions in {names.clicked} count from 0.")
        return found


def _restarts(sample: Sample, names: Columns) -> bool:
    fields = ("position", "page", "doc_id", "query_id", "timestamp", "clicked")
    known = {name: getattr(names, name) for name in fields}
    return names.impression_id is None and ImpressionGuess(sample, None, known).restarts()


def _are_click_ids(values: Sequence[Any], name: str | None) -> bool:
    """Whether a column has the ids of clicks."""
    named = not {*words.CLICK_ID}.isdisjoint(words.spellings(name or ""))
    return named and len(set(map(str, values))) >= MOST * len(values)


def _only_clicks(values: Sequence[Any]) -> bool:
    """Whether some values are missing, and all others are clicks."""
    there = [value for value in values if not is_missing(value)]
    try:
        return 0 < len(there) < len(values) and all(map(clicked, there))
    except BadValueError:
        return False


class Pages(NamedTuple):
    """How pages are numbered.

    Attributes:
        first: the number of the first page.
        size: the number of positions of a page; 1 if the column has the first position of the page instead.
    """

    first: int
    size: int

    @classmethod
    def of(cls, pages: Sequence[Any], positions: Sequence[Any]) -> Pages:
        """Find out from the first rows."""
        numbers, places = sorted(set(_numbers(pages))), _numbers(positions)
        first = min(numbers, default=1)
        if _are_offsets(numbers):
            return cls(first, 1)
        return cls(first, max(places, default=0) - min(places, default=0) + 1)

    def position(self, page: int, position: int) -> int:
        """The position in the list of all pages.

        >>> Pages(first=1, size=10).position(2, 3)
        13
        """
        return (page - self.first) * self.size + position


def are_pages(values: Sequence[Any], rows: int) -> bool:
    """Whether lists have the numbers of their pages, or first positions; later ones are rarer.

    >>> are_pages([1, 1, 2], 3), are_pages([0, 0, 10, 20], 4), are_pages([17, 4, 25], 3)
    (True, True, False)
    """
    numbers = _numbers(values)
    counts = Counter(numbers)
    order = sorted(counts)
    return (
        len(numbers) == rows
        and len(order) > 1
        and order[0] in (0, 1)
        and all(counts[order[0]] >= counts[later] for later in order)
        and all((number - order[0]) % (order[1] - order[0]) == 0 for number in order)
    )


def _are_offsets(numbers: Sequence[int]) -> bool:
    """Whether different numbers are first positions (0, 10, 20), not pages (0, 1, 2)."""
    return len(numbers) > 1 and numbers[1] - numbers[0] > 1


def restarts_on_pages(pages: Sequence[Any], positions: Sequence[Any]) -> bool:
    """Whether there are several pages, and positions begin again on later ones."""
    if len(pages) != len(positions) or not (are_positions(pages) and are_positions(positions)):
        return False
    by_page: dict[int, set[int]] = {}
    for page, position in zip(pages, positions, strict=True):
        try:
            by_page.setdefault(whole(page, ""), set()).add(whole(position, ""))
        except BadValueError:
            continue
    first = min(by_page)
    later = [places for page, places in by_page.items() if page != first]
    lowest, highest = min(by_page[first]), max(by_page[first])
    return bool(later) and all(min(some) == lowest and max(some) <= highest for some in later)


def _numbers(values: Sequence[Any]) -> list[int]:
    found = []
    for value in values:
        try:
            found.append(whole(value, ""))
        except BadValueError:
            continue
    return found
