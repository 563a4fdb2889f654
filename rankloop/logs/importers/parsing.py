"""Parse single values as other programs write them: ids, times, numbers, clicks."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

# Integers are seconds, milli-, micro- or nanoseconds since 1970, depending on their size. The first bound is
# the year 5138 in seconds and 1973 in milliseconds.
SECONDS_BELOW, MILLISECONDS_BELOW, MICROSECONDS_BELOW = 10**11, 10**14, 10**17
# Maximum number of digits of positions and click counts, so that they fit in 32 bits.
DIGITS = 9
NUL = "\0"
# The range of timestamps: the years 1 to 9999, in microseconds.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999


class BadValueError(ValueError):
    """An invalid value; the message is the reason shown in the report."""


def text_id(value: Any, name: str) -> str:
    """Parse an id: text or an integer.

    >>> text_id(7, "query_id"), text_id("a b", "query_id")
    ('7', 'a b')
    """
    if isinstance(value, str) and value:
        if not value.isascii() and not _is_unicode(value):
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


def _is_unicode(text: str) -> bool:
    """Whether text can be encoded: JSON can contain halves of characters, which files cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def microseconds(value: Any, name: str = "timestamp") -> int | None:
    """Parse a time to microseconds since 1970; None if it is missing. Times without a zone are UTC.

    >>> microseconds("2024-05-01T12:00:00Z") == microseconds(1714564800) == microseconds("1714564800000")
    True
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return _of_datetime(datetime(value.year, value.month, value.day))
    if isinstance(value, str):
        stripped = value.strip()
        try:
            value = int(stripped)
        except ValueError:
            try:
                return _of_datetime(_read_time(stripped))
            except ValueError as error:
                raise BadValueError(
                    f"{name} is {shortened(value)}; expected ISO 8601 or a whole number since 1970"
                ) from error
    if isinstance(value, float | Decimal) and _number(value).is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValueError(f"{name} is {shortened(value)}; expected ISO 8601 or a whole number since 1970")
    size = abs(value)
    if size < SECONDS_BELOW:
        result = value * 1_000_000
    elif size < MILLISECONDS_BELOW:
        result = value * 1_000
    else:
        result = value if size < MICROSECONDS_BELOW else value // 1_000
    if not EARLIEST <= result <= LATEST:
        raise BadValueError(f"{name} is {shortened(value)}, which is not between the years 1 and 9999")
    return result


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # As OpenSearch Dashboards and Kibana export times to CSV.
        return datetime.strptime(text, "%b %d, %Y @ %H:%M:%S.%f")


def _of_datetime(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


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


def clicked(value: Any, name: str = "clicked") -> bool:
    """Parse whether there was a click: true or false, or the number of clicks.

    >>> clicked("1"), clicked(False), clicked("true"), clicked(3)
    (True, False, True, True)
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
