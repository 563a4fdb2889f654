"""Which actions of users count: clicks, what shows documents, and other actions that are given a weight."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Self

from rankloop.errors import DataError

# Kinds of events: clicks, and what was shown, the most explicit first.
CLICK_EVENT = re.compile(r"click|select_item|^c$", re.IGNORECASE)
SHOWN_EVENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"impression|shown|display",
        r"result|serp|view_item_list|list.?view|item.?list|slate|ranking",
        r"search|query|^q$",
        r"view|exposure|served",
    )
)
NO_AMOUNTS: Mapping[str, float] = MappingProxyType({})
# The weight of this name is per second that was spent on a document.
DWELL = "dwell"
CLICK_WEIGHT = 1.0


class Action(NamedTuple):
    """What an action counts as.

    Attributes:
        is_click: whether it is a click.
        value: its weight; the weight of a second for dwell times.
    """

    is_click: bool
    value: float


class Actions:
    """The actions that count, and their weights.

    Args:
        clicks: the actions that are clicks; each weighs 1 unless it has a weight of its own.
        amounts: the weights of actions.

    Example:
        >>> actions = Actions(["click"], {"purchase": 5})
        >>> actions.of("purchase"), actions.of("scroll")
        (Action(is_click=False, value=5.0), None)
    """

    def __init__(self, clicks: Collection[str], amounts: Mapping[str, float] = NO_AMOUNTS) -> None:
        for name, weight in amounts.items():
            if not math.isfinite(weight) or weight < 0:
                raise DataError(f"the weight of {name!r} is {weight}; expected a number from 0 on")
        names = [*clicks, *(name for name in amounts if name not in clicks)]
        self._actions = {
            name: Action(name in clicks, float(amounts.get(name, CLICK_WEIGHT))) for name in names
        }
        self.any_amounts = bool(amounts)
        self.dwell = self._actions.pop(DWELL, None)

    def of(self, name: str) -> Action | None:
        """What an action counts as; None if it does not count."""
        return self._actions.get(name)


def parse_amounts(given: Collection[str]) -> dict[str, float]:
    """Parse weights as in ``purchase=5``.

    >>> parse_amounts(["purchase=5", "dwell=0.01"])
    {'purchase': 5.0, 'dwell': 0.01}
    """
    amounts = {}
    for text in given:
        name, equals, weight = (word.strip() for word in text.partition("="))
        try:
            amounts[name] = float(weight)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise DataError(f"cannot parse the amount {text!r}: expected action=weight, as in purchase=5")
    return amounts


# Kinds of events that are listed in a message.
MANY = 6


@dataclass(frozen=True)
class Events:
    """The kinds of events that count; empty ones are recognised by their names.

    Attributes:
        shown: the kinds of events that show documents.
        clicks: the kinds of events that are clicks.
        others: the kinds of events that count as neither, as far as they are known.
        marks: the kinds of events that show a document that was clicked, in tables with one row per document.

    Example:
        >>> Events().completed(["search", "product_click", "purchase"])
        Events(shown=('search',), clicks=('product_click',), others=('purchase',), marks=())
    """

    shown: tuple[str, ...] = ()
    clicks: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def completed(self, kinds: Iterable[str]) -> Self:
        """The same, with what was not given recognised among these kinds."""
        names = list(kinds)
        clicks = self.clicks or tuple(name for name in names if CLICK_EVENT.search(name))
        rest = [name for name in names if name not in clicks]
        by_pattern = (tuple(name for name in rest if one.search(name)) for one in SHOWN_EVENTS)
        shown = self.shown or next(filter(None, by_pattern), ())
        others = tuple(name for name in rest if name not in shown)
        return replace(self, shown=shown, clicks=clicks, others=others)

    def shown_with_clicks(self) -> Self:
        """The same, if each click comes with the list that was shown: nothing else shows documents."""
        others = (*self.shown, *self.others)
        return replace(self, shown=self.clicks, clicks=(), others=others)

    def shown_and_clicked(self) -> Self:
        """The same, if the row of a click takes the place of the row that shows its document."""
        return replace(self, shown=(*self.shown, *self.clicks), clicks=(), marks=self.clicks)

    @property
    def sentence(self) -> str:
        """What counts as what."""
        text = f"Events that show documents: {_listed(self.shown)}"
        if self.marks:
            text += f"; of these, clicked: {_listed(self.marks)}"
        else:
            text += f"; clicks: {_listed(self.clicks)}" if self.clicks else ", each with its click"
        if self.others:
            weight = f"--amount {self.others[0]}=5 would give one a weight"
            text += f"; set aside: {_listed(self.others, MANY)} ({weight})"
        return f"{text}. Correct it with --shown-event and --click-event."


def _listed(names: Sequence[str], most: int | None = None) -> str:
    more = 0 if most is None else len(names[most:])
    return (", ".join(names[:most]) or "none") + (f" and {more} more" if more else "")
