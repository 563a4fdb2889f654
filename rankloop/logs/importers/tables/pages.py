"""Positions that begin again on every page of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rankloop.logs.importers.parsing import BadValueError, whole
from rankloop.logs.importers.tables.value_kinds import are_positions


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
