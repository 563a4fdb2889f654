"""What kind of values a column holds, judged by the first rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rankloop.logs.importers.parsing import CLICKED, BadValueError, clicked, whole
from rankloop.logs.importers.tables.events import Events
from rankloop.logs.importers.times import is_day_first, microseconds

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
