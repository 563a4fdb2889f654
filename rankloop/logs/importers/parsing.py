"""Parse single values as other programs write them: ids, times, numbers, clicks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from rankloop.errors import DataError

# Maximum number of digits of positions and click counts, so that they fit in 32 bits.
DIGITS = 9
NUL = "\0"
# What may be grouped by case, white space and forms of Unicode.
NORMALISED = "query"


class BadValueError(ValueError):
    """An invalid value; the message is the reason shown in the report."""


def check_normalise(names: Collection[str], where: str) -> None:
    """Refuse what cannot be normalised."""
    unknown = [name for name in names if name != NORMALISED]
    if unknown or isinstance(names, str):
        raise DataError(f"{where}normalise is a list that may have {NORMALISED!r}, got {names!r}")


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


# How programs write that there is no value, in columns of numbers.
NO_VALUE = ("", "null", "nan", "na", "n/a", "none", "\\n")
# How they write that there is no time, or no id.
NOTHING: tuple[str, ...] = ("0", "-1")


def is_missing(value: Any) -> bool:
    """Whether a value of a column of numbers or flags is missing.

    >>> is_missing("NULL"), is_missing(0), is_missing(float("nan"))
    (True, False, True)
    """
    if isinstance(value, str):
        return value.strip().lower() in NO_VALUE
    return value is None or value != value


def is_no_time(value: Any) -> bool:
    """Whether a value of a column of times says that nothing happened: none, or 0 or -1 as programs write it.

    >>> [is_no_time(value) for value in (None, "", 0, "0", "-1", "2024-05-31")]
    [True, True, True, True, True, False]
    """
    return is_missing(value) or str(value).strip().removesuffix(".0") in NOTHING


# Numbers are seconds, milli-, micro- or nanoseconds since 1970, depending on their size. The first bound is
# the year 5138 in seconds and 1973 in milliseconds.
SECONDS_BELOW, MILLISECONDS_BELOW, MICROSECONDS_BELOW = 10**11, 10**14, 10**17
# Fractions are read of numbers in seconds from this size on, which is 1973: 0.5 is not a time.
FRACTIONS_FROM = 10**8
# The range of timestamps: the years 1 to 9999, in microseconds.
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
# How databases write a missing time.
MISSING = ("", "null", "none", "nan", "nat", "\\n", "n/a", "na")
FORMATS = (
    # As OpenSearch Dashboards and Kibana export times to CSV.
    "%b %d, %Y @ %H:%M:%S.%f",
    # The logs of web servers, and the headers of HTTP.
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %Z",
    "%a %b %d %H:%M:%S %Y",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    # Spreadsheets with hours up to 12; whether day or month comes first has been settled before.
    "%Y-%m-%d %I:%M:%S %p",
    "%Y-%m-%d %I:%M %p",
)
# More than six digits of a second, or a zone as BigQuery (UTC) and PostgreSQL (+00) write it.
_FRACTION = re.compile(r"(\.\d{6})\d+")
_ZONE = re.compile(r"\s*(UTC|GMT|Z)$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d*)?$", re.ASCII)
# Dates as spreadsheets write them.
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(.*)$")
_DOTS = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)$")
# Milliseconds as .NET writes them in JSON.
_NET = re.compile(r"/Date\((-?\d+)([+-]\d{4})?\)/$")
# Hours with one digit.
_HOUR = re.compile(r"([ T])(\d):")
# Days and seconds written as numbers: 20240501 and 20240501123000.
_DIGITS = {8: "%Y%m%d", 14: "%Y%m%d%H%M%S"}
YEARS = (1900, 2100)
MONTHS = 12
_EXPECTED = "expected ISO 8601 or a number since 1970"


def microseconds(value: Any, name: str = "timestamp", *, day_first: bool | None = None) -> int | None:
    """Parse a time to microseconds since 1970; None if it is missing. Times without a zone are UTC.

    Dates such as 5/1/2024 are read only if it is known whether the day or the month comes first.

    >>> microseconds("2024-05-01T12:00:00Z") == microseconds(1714564800) == microseconds("1714564800000")
    True
    """
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return _of_datetime(datetime(value.year, value.month, value.day))
    if isinstance(value, str):
        stripped = value.strip()
        if stripped.lower() in MISSING:
            return None
        if match := _NET.match(stripped):
            return _in_range(int(match[1]) * 1_000, value, name)
        number = _as_number(stripped)
        if number is None:
            try:
                return _of_datetime(_read_time(stripped, day_first))
            except ValueError as error:
                unclear = _SLASHES.match(stripped) and day_first is None
                expected = "whether the day or the month comes first is not known" if unclear else _EXPECTED
                raise BadValueError(f"{name} is {shortened(value)}; {expected}") from error
        value = number
    if value is None:
        return None
    return _of_number(value, name)


def _as_number(text: str) -> int | float | None:
    if not _NUMBER.match(text):
        return None
    return int(text) if "." not in text else float(text)


def _of_number(value: Any, name: str) -> int:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and math.isfinite(value):
        if not value.is_integer() and FRACTIONS_FROM <= abs(value) < SECONDS_BELOW:
            return round(value * 1_000_000)
        value = round(value) if abs(value) >= SECONDS_BELOW or value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValueError(f"{name} is {shortened(value)}; {_EXPECTED}")
    if (written := _DIGITS.get(len(str(value)))) and YEARS[0] <= int(str(value)[:4]) < YEARS[1]:
        try:
            return _of_datetime(datetime.strptime(str(value), written))
        except ValueError:
            pass
    size = abs(value)
    if size < SECONDS_BELOW:
        result = value * 1_000_000
    elif size < MILLISECONDS_BELOW:
        result = value * 1_000
    else:
        result = value if size < MICROSECONDS_BELOW else value // 1_000
    return _in_range(result, value, name)


def _in_range(result: int, value: Any, name: str) -> int:
    if not EARLIEST <= result <= LATEST:
        raise BadValueError(f"{name} is {shortened(value)}, which is not between the years 1 and 9999")
    return result


def are_slashed(values: Iterable[Any]) -> bool:
    """Whether all values are dates with slashes, such as 5/1/2024."""
    return all(isinstance(value, str) and _SLASHES.match(value.strip()) for value in values)


def is_day_first(values: Iterable[Any]) -> bool | None:
    """Whether dates with slashes have the day first; None if they do not tell.

    >>> is_day_first(["5/1/2024 10:00", "5/13/2024 10:00"])
    False
    """
    found = [match for value in values if isinstance(value, str) and (match := _SLASHES.match(value.strip()))]
    first, second = (any(int(match[place]) > MONTHS for match in found) for place in (1, 2))
    return None if first == second else first


def _read_time(text: str, day_first: bool | None) -> datetime:
    if day_first is not None and (match := _SLASHES.match(text)):
        month, day = (match[2], match[1]) if day_first else (match[1], match[2])
        text = f"{match[3]}-{int(month):02}-{int(day):02}{match[4]}"
    elif match := _DOTS.match(text):
        text = f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}{match[4]}"
    text = _HOUR.sub(r"\g<1>0\2:", text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        text = _ZONE.sub("+00:00", _FRACTION.sub(r"\1", text))
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    for form in FORMATS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(text)


def _of_datetime(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
