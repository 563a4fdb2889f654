"""What the actions of users are worth: clicks, and other actions that are given a weight."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rankloop.errors import DataError

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
