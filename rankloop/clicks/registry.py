"""Parse users from their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from rankloop.clicks.affine import AffineUsers, PaperUsers
from rankloop.clicks.base import LIST_SEPARATOR
from rankloop.clicks.cascade import CascadeUsers
from rankloop.clicks.position import PositionUsers
from rankloop.names import BadNameError, arguments, number, parse, switch

AnyUsers = AffineUsers | CascadeUsers | PaperUsers | PositionUsers

USERS: dict[str, type[AnyUsers]] = {
    kind.name: kind for kind in (AffineUsers, CascadeUsers, PaperUsers, PositionUsers)
}


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(number(part) for part in text.split(LIST_SEPARATOR))


_READERS: dict[str, Callable[[str], Any]] = {
    "abandon": number,
    "alpha": _numbers,
    "beta": _numbers,
    "eta": number,
    "examination": _numbers,
    "noise": number,
    "rounded": switch,
    "stop": number,
}


def users(text: str) -> AnyUsers:
    """Parse users from their name; ``str`` of the users returns the name.

    Example:
        >>> users("paper@5")
        PaperUsers(cutoff=5, rounded=False)
        >>> str(users("cascade@5(stop=1)"))
        'cascade@5(stop=1)'
        >>> users("position")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: users 'position' need a cut-off: position@5, for instance
    """
    name = parse(text, USERS, kind="users")
    kind = USERS[name.name]
    make: Callable[..., AnyUsers] = kind
    options = {field.name: field for field in fields(kind)}
    cutoff = options.pop("cutoff", None)
    given = arguments(name, {option: _READERS[option] for option in options})
    needed = [option for option, field in options.items() if field.default is MISSING]
    missing = [option for option in needed if option not in given]
    if missing:
        raise BadNameError(f"users {text!r} need {' and '.join(missing)}: {name.name}({missing[0]}=…)")
    if cutoff is None and name.cutoff is not None:
        raise BadNameError(f"users {name.name!r} take no cut-off, got {text!r}")
    if name.cutoff is not None:
        return make(cutoff=name.cutoff, **given)
    if cutoff is not None and cutoff.default is MISSING:
        raise BadNameError(f"users {name.name!r} need a cut-off: {name.name}@5, for instance")
    return make(**given)
