"""The one serialiser: values ↔ what JSON can hold.

`to_plain` follows the fields of a value, and `from_plain` their annotations:

| value | plain |
|---|---|
| dataclass, NamedTuple | an object: its fields by name, and the properties listed in `plain_properties` |
| mapping | an object; keys become text |
| tuple, list, array | a list |
| NaN and ±infinity | null; where a float is expected, null is read as NaN |
| enum | its value |
| date and time | ISO 8601 |
| path | text |

A class whose plain form is not that of its fields has a method ``to_dict``, which `to_plain` calls.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from rankloop.errors import DataError

T = TypeVar("T")

# The class attribute that names the properties, or constants, which are written besides the fields.
PROPERTIES = "plain_properties"
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def to_plain(value: Any) -> Any:
    """Convert a value to dictionaries, lists, texts, numbers and None.

    Example:
        >>> from typing import NamedTuple
        >>> class Interval(NamedTuple):
        ...     low: float
        ...     high: float
        >>> to_plain({"gain": Interval(0.1, np.inf), 5: np.array([1, 2]), "log": Path("log")})
        {'gain': {'low': 0.1, 'high': None}, '5': [1, 2], 'log': 'log'}

    Raises:
        TypeError: there is no plain form of such a value.
    """
    if hasattr(type(value), "to_dict"):
        return value.to_dict()
    match value:
        case Enum():
            return to_plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case np.generic() | np.ndarray():
            return to_plain(value.tolist())
        case date():
            return value.isoformat()
        case Path():
            return str(value)
        case Mapping():
            return {str(to_plain(key)): to_plain(part) for key, part in value.items()}
        case _ if _field_names(type(value)) is not None:
            return plain_fields(value)
        case Sequence():
            return [to_plain(part) for part in value]
    raise TypeError(f"{type(value).__qualname__} has no plain form: give it fields, or a method to_dict")


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass or NamedTuple, and its `plain_properties`, as `to_plain` writes them."""
    names = (*(_field_names(type(value)) or ()), *getattr(value, PROPERTIES, ()))
    return {name: to_plain(getattr(value, name)) for name in names}


def to_json(value: Any) -> str:
    """The plain form of a value as the text of a file; `json.loads` and `from_plain` read it.

    >>> print(to_json({"mean": float("nan"), "ranks": (1, 2)}))
    {
      "mean": null,
      "ranks": [
        1,
        2
      ]
    }
    """
    return json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def from_plain(kind: type[T], content: object, where: str = "") -> T:
    """Read a value from its plain form.

    Args:
        kind: the type of the value: a dataclass or NamedTuple whose annotations can be resolved at run time,
            or what can be an annotation in one, such as ``tuple[Epoch, ...]``.
        content: what `to_plain` gave, after JSON.
        where: the file, for messages.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Share:
        ...     policy: str
        ...     share: float
        >>> from_plain(tuple[Share, ...], [{"policy": "new", "share": 0.5}])
        (Share(policy='new', share=0.5),)
        >>> from_plain(tuple[Share, ...], [{"policy": "new", "share": "half"}], where="shares.json")
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: shares.json: 0.share: expected a number, got 'half'

    Raises:
        DataError: the content is not that of such a value; the message names the field.
    """
    try:
        return _read(kind, content, ())  # type: ignore[no-any-return]
    except _MismatchError as error:
        raise DataError(": ".join(filter(None, (where, ".".join(error.place), error.reason)))) from error


class _MismatchError(Exception):
    """The content at a place is not what is expected there."""

    def __init__(self, place: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


def _read(kind: Any, content: Any, place: tuple[str, ...]) -> Any:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Any:
        return content
    if origin is Annotated:
        return _read(arguments[0], content, place)
    if origin is Literal:
        return _checked(content, content in arguments, " or ".join(map(repr, arguments)), place)
    if origin in (Union, UnionType):
        return _read_union(arguments, content, place)
    if origin is NoneType:
        return _checked(content, content is None, "null", place)
    if origin in WORDS:
        return _read_simple(origin, content, place)
    if issubclass(origin, Enum | Path | date | np.ndarray):
        return _read_text(origin, content, place)
    if _field_names(origin) is not None:
        return _read_fields(origin, content, place)
    if issubclass(origin, Mapping):
        keys, values = arguments or (str, Any)
        _checked(content, isinstance(content, Mapping), "an object", place)
        return {
            _read_key(keys, key, place): _read(values, part, (*place, key)) for key, part in content.items()
        }
    _checked(content, isinstance(content, list | tuple), "a list", place)
    # tuple[X, ...], list[X] and Sequence[X] have elements of one kind, tuple[X, Y] one kind each.
    uniform = origin is not tuple or arguments[1:] == (...,)
    kinds = arguments[:1] * len(content) if uniform else arguments
    _checked(content, len(kinds) == len(content), f"a list of {len(kinds)}", place)
    parts = (_read(part, content[i], (*place, str(i))) for i, part in enumerate(kinds))
    return list(parts) if origin is list else tuple(parts)


def _read_fields(kind: Any, content: Any, place: tuple[str, ...]) -> Any:
    _checked(content, isinstance(content, Mapping), "an object", place)
    hints = _hints(kind)
    names = _field_names(kind) or ()
    missing = [name for name in names if name not in content]
    unknown = [name for name in content if name not in (*names, *getattr(kind, PROPERTIES, ()))]
    for words, wrong in (("has no", missing), ("has the unknown", unknown)):
        if wrong:
            raise _MismatchError(place, f"{kind.__qualname__} {words} {', '.join(map(repr, wrong))}")
    return kind(**{name: _read(hints[name], content[name], (*place, name)) for name in names})


def _read_union(kinds: tuple[Any, ...], content: Any, place: tuple[str, ...]) -> Any:
    if content is None and NoneType in kinds:
        return None
    errors = []
    for kind in kinds:
        try:
            return _read(kind, content, place)
        except _MismatchError as error:
            errors.append(error)
    # The error that lies deepest says most: the content was of that kind up to there.
    raise max(errors, key=lambda error: len(error.place))


def _read_key(kind: Any, key: str, place: tuple[str, ...]) -> Any:
    if kind not in (int, float):
        return _read(kind, key, place)
    try:
        return kind(key)
    except ValueError as error:
        raise _MismatchError(place, str(error)) from error


def _read_simple(kind: Any, content: Any, place: tuple[str, ...]) -> Any:
    if kind is float:
        if content is None:
            return math.nan
        number = isinstance(content, int | float) and not isinstance(content, bool)
        return float(_checked(content, number, WORDS[float], place))
    return _checked(content, type(content) is kind, WORDS[kind], place)


def _read_text(kind: Any, content: Any, place: tuple[str, ...]) -> Any:
    make = {datetime: datetime.fromisoformat, date: date.fromisoformat, np.ndarray: np.asarray}.get(
        kind, kind
    )
    try:
        return make(content)
    except (TypeError, ValueError) as error:
        raise _MismatchError(place, str(error)) from error


def _checked(content: Any, right: bool, expected: str, place: tuple[str, ...]) -> Any:
    if not right:
        raise _MismatchError(place, f"expected {expected}, got {content!r:.60}")
    return content


def _field_names(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass or NamedTuple; None for any other class."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", None) if issubclass(kind, tuple) else None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
