"""Positions that begin again on every page of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rankloop.logs.importers.parsing import BadValueError, whole
from rankloop.logs.importers.tables.value_kinds import are_positions


class Pages(NamedTuple):
    """How pages are numbered.

    Attributes:
        first: the number of the first page.
        size: the number of positions of a page.
    """

    first: int
    size: int

    @classmethod
    def of(cls, pages: Sequence[Any], positions: Sequence[Any]) -> Pages:
        """Find out from the first rows."""
        numbers, places = _numbers(pages), _numbers(positions)
        return cls(min(numbers, default=1), max(places, default=0) - min(places, default=0) + 1)

    def position(self, page: int, position: int) -> int:
        """The position in the list of all pages.

        >>> Pages(first=1, size=10).position(2, 3)
        13
        """
        return (page - self.first) * self.size + position


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
