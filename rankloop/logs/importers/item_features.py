"""Turn the fields of items into features of documents.

What a field becomes depends on all of its values:

    numbers, true and false   ``price``: as they are
    times (ISO 8601)          ``published:age``: days before the last event
    categories                ``genre=drama``: 1 or 0 for each of at most `MOST_VALUES` values
    more categories           ``director#07``: 1 or 0 by a hash of the value, in `BUCKETS` buckets
    text                      ``title:characters`` and ``title:words``
    lists of categories       as above, 1 for each element, or the number of elements in a bucket, and
                              ``tags:count``
    lists of numbers          ``embedding[3]`` if all have one length up to `MOST_NUMBERS`; otherwise
                              ``sizes:count`` and ``sizes:mean``

Text is what differs between most items: more than `TEXT_SHARE` of the values are different. A missing value
is 0; if some items lack a field, ``price:missing`` is 1 for them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from rankloop.errors import DataError
from rankloop.logs.importers.parsing import BadValueError, is_unicode, microseconds, shortened, text_id
from rankloop.types import Float32

# One column each: more are hashed.
MOST_VALUES = 50
BUCKETS = 32
MOST_NUMBERS = 1024
TEXT_SHARE = 0.5
MICROSECONDS_PER_DAY = 86_400_000_000
# The largest number that a feature can be.
LARGEST = float(np.finfo(np.float32).max)

Fields = Mapping[str, Any]
Columns = dict[str, Float32]


class ItemFields:
    """The fields of items, of which the latest value counts.

    Attributes:
        latest: the time of the last event, in microseconds since 1970.
    """

    def __init__(self) -> None:
        self.latest = 0
        self._values: dict[str, dict[str, tuple[int, Any]]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(self, item: str, time: int | None, fields: Fields) -> None:
        """Add the fields of an event."""
        known, at = self._values.setdefault(item, {}), time or 0
        for name, value in fields.items():
            if value is not None and (name not in known or at >= known[name][0]):
                known[text_id(name, "name of a field")] = at, _valid(name, value)

    def encode(self) -> tuple[list[str], Columns]:
        """The items, and the columns of their features."""
        items = sorted(self._values)
        names = sorted({name for fields in self._values.values() for name in fields})
        columns: Columns = {}
        for name in names:
            values = [self._values[item].get(name, (0, None))[1] for item in items]
            for column, numbers in _encode(name, values, self.latest):
                if column in columns:
                    raise DataError(f"two fields of items become the feature {column!r}: rename one of them")
                columns[column] = np.array(numbers, dtype=np.float32)
        return items, columns


def _encode(name: str, values: list[Any], latest: int) -> Iterator[tuple[str, Iterable[float]]]:
    given = [value for value in values if value is not None]
    if all(isinstance(value, int | float) for value in given):
        yield name, [_finite(value) for value in values]
    elif all(isinstance(value, str) for value in given):
        yield from _encode_text(name, values, given, latest)
    elif all(isinstance(value, list) for value in given):
        yield from _encode_lists(name, values, given)
    else:
        # Objects, or several kinds of values: no number describes them.
        return
    if len(given) < len(values):
        yield f"{name}:missing", [float(value is None) for value in values]


def _encode_text(
    name: str, values: list[Any], given: list[str], latest: int
) -> Iterator[tuple[str, Iterable[float]]]:
    times = [_time(value) for value in values]
    if all(time is not None for time, value in zip(times, values, strict=True) if value is not None):
        yield f"{name}:age", [0.0 if t is None else (latest - t) / MICROSECONDS_PER_DAY for t in times]
    elif len(set(given)) > max(MOST_VALUES, TEXT_SHARE * len(given)):
        yield f"{name}:characters", [float(len(value or "")) for value in values]
        yield f"{name}:words", [float(len((value or "").split())) for value in values]
    else:
        yield from _encode_categories(name, [[] if value is None else [value] for value in values])


def _encode_lists(
    name: str, values: list[Any], given: list[list[Any]]
) -> Iterator[tuple[str, Iterable[float]]]:
    elements = [element for value in given for element in value]
    if elements and all(isinstance(element, int | float) for element in elements):
        lengths = {len(value) for value in given}
        if len(lengths) == 1 and (length := lengths.pop()) <= MOST_NUMBERS:
            for i in range(length):
                yield f"{name}[{i}]", [0.0 if value is None else _finite(value[i]) for value in values]
        else:
            yield f"{name}:count", [float(len(value or ())) for value in values]
            yield (
                f"{name}:mean",
                [float(np.mean([*map(_finite, value)])) if value else 0.0 for value in values],
            )
        return
    yield from _encode_categories(name, [[str(element) for element in value or ()] for value in values])
    yield f"{name}:count", [float(len(value or ())) for value in values]


def _encode_categories(name: str, values: list[list[str]]) -> Iterator[tuple[str, Iterable[float]]]:
    counts = Counter(element for value in values for element in set(value))
    if len(counts) <= MOST_VALUES:
        for category in sorted(counts):
            yield f"{name}={category}", [float(category in value) for value in values]
        return
    buckets = np.zeros((BUCKETS, len(values)), np.float32)
    for item, value in enumerate(values):
        for element in value:
            # The same on every machine and in every run, unlike Python's own hash.
            buckets[zlib.crc32(element.encode()) % BUCKETS, item] += 1
    for number, bucket in enumerate(buckets):
        yield f"{name}#{number:02}", bucket


def _finite(value: Any) -> float:
    """A number that fits in 32 bits; 0 if it is missing."""
    if value is None or value != value:
        return 0.0
    # Whole numbers may be of any size: they are compared before they are converted.
    return float(min(max(value, -LARGEST), LARGEST))


def _valid(name: str, value: Any) -> Any:
    """A value whose text can become part of the name of a feature."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and not is_unicode(text):
            raise BadValueError(f"field {name!r} is {shortened(value)}, which ends within a character")
    return value


def _time(value: str | None) -> int | None:
    """A time in ISO 8601; None for any other text, such as a number."""
    if value is None or not value[:4].isdigit() or "-" not in value:
        return None
    try:
        return microseconds(value)
    except BadValueError:
        return None
