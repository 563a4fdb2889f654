"""Parse single values as other programs write them: ids, times, numbers, clicks."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

# Maximum number of digits of positions and click counts, so that they fit in 32 bits.
DIGITS = 9
NUL = "\0"


class BadValueError(ValueError):
    """An invalid value; the message is the reason shown in the report."""


def text_id(value: Any, name: str) -> str:
    """Parse an id: text or an integer.

    >>> text_id(7, "query_id"), text_id("a b", "query_id")
    ('7', 'a b')
    """
    if isinstance(value, str) and value:
        if not value.isascii() and not is_unicode(value):
            raise BadValueError(f"{name} is {shortened(value)}, which ends within a character")
        if value.endswith(NUL):
            raise BadValueError(f"{name} is {shortened(value)}, which ends with a NUL character")
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    # Some databases export integers as decimals.
    if isinstance(value, Decimal) and value.is_finite() and value == int(value):
        return str(int(value))
    if value is None or value == "":
        raise BadValueError(f"no {name}")
    raise BadValueError(f"{name} is {shortened(value)}; expected text or a whole number")


def is_unicode(text: str) -> bool:
    """Whether text can be encoded: JSON can contain halves of characters, which files cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(value: Any, name: str) -> int:
    """Parse an integer, also from text or from 3.0.

    >>> whole("3", "position"), whole(3.0, "position")
    (3, 3)
    """
    if isinstance(value, str) and len(value) <= DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    if value is None or value == "":
        raise BadValueError(f"no {name}")
    number = _number(value)
    if not number.is_integer() or abs(number) >= 10**DIGITS:
        raise BadValueError(f"{name} is {shortened(value)}; expected a whole number")
    return int(number)


def score(value: Any, name: str = "score") -> float:
    """Parse a score: a finite number or -inf, also from text.

    >>> score("0.5"), score(float("-inf"))
    (0.5, -inf)
    """
    number = value if type(value) is float else _number(value)
    if math.isnan(number) or number == math.inf:
        raise BadValueError(f"{name} is {shortened(value)}; expected a finite number, or -inf")
    return number


def _number(value: Any) -> float:
    """Convert a value to a float; NaN if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


CLICKED = {"1": True, "true": True, "t": True, "yes": True, "y": True}
CLICKED |= {"0": False, "false": False, "f": False, "no": False, "n": False}
# German, French, Spanish, Italian, Portuguese and Dutch.
CLICKED |= dict.fromkeys(("ja", "oui", "si", "sí", "sì", "sim", "wahr", "vrai", "verdadero"), True)
CLICKED |= dict.fromkeys(("nein", "non", "não", "nao", "nee", "falsch", "faux", "falso"), False)
CLICKED |= {"clicked": True, "click": True, "not clicked": False, "no click": False}


def clicked(value: Any, name: str = "clicked") -> bool:
    """Parse whether there was a click: true or false, or the number of clicks.

    >>> clicked("1"), clicked(False), clicked("true"), clicked(3), clicked("Not clicked")
    (True, False, True, True, False)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in CLICKED:
        return CLICKED[value.strip().lower()]
    try:
        clicks = whole(value, name)
    except BadValueError as error:
        if value is None or value == "":
            raise
        raise BadValueError(
            f"{name} is {shortened(value)}; expected true, false or a number of clicks"
        ) from error
    if clicks < 0:
        raise BadValueError(f"{name} is {clicks}; expected true, false or a number of clicks")
    return clicks > 0


def shortened(value: Any, limit: int = 60) -> str:
    """Format a value for messages."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def at_path(record: Any, *names: str) -> Any:
    """Get the value at a path in nested objects; None if it is missing.

    >>> at_path({"object": {"object_id": 7}}, "object", "object_id"), at_path({}, "object", "object_id")
    (7, None)
    """
    for name in names:
        if not isinstance(record, dict):
            return None
        record = record.get(name)
    return record
