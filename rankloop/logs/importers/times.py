"""Parse times as programs write them: ISO 8601, numbers since 1970, and what databases and servers export."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from rankloop.logs.importers.parsing import BadValueError, shortened

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
