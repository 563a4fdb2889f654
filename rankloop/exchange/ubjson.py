"""Universal Binary JSON, as far as XGBoost writes it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from rankloop.errors import ModelFileError

# Marker → numpy's type; numbers are big-endian.
NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
CONSTANTS = {"Z": None, "T": True, "F": False}


def read_ubjson(data: bytes) -> Any:
    r"""The value that the bytes hold; arrays of one number type become lists of numbers.

    Raises:
        ModelFileError: the bytes are not UBJSON, or were cut short.

    Example:
        >>> read_ubjson(b"{i\x01a[$i#i\x02\x03\x04}")
        {'a': [3, 4]}
    """
    try:
        value, end = _value(data, 0)
    except (IndexError, KeyError, ValueError, struct.error, UnicodeDecodeError) as error:
        raise ModelFileError(f"this is not UBJSON, or it was cut short: {error!r}") from error
    if end != len(data):
        raise ModelFileError(f"{len(data) - end} bytes follow the end of the UBJSON value")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    marker, at = chr(data[at]), at + 1
    if marker == "{":
        return _object(data, at)
    if marker == "[":
        return _array(data, at)
    if marker == "S":
        return _text(data, at)
    if marker == "C":
        return chr(data[at]), at + 1
    if marker in CONSTANTS:
        return CONSTANTS[marker], at
    return _numbers(data, at, marker, 1)[0][0], at + np.dtype(NUMBERS[marker]).itemsize


def _numbers(data: bytes, at: int, marker: str, count: int) -> tuple[list[Any], int]:
    kind = np.dtype(NUMBERS[marker])
    if count < 0:
        raise ValueError(f"an array of {count} values")
    return np.frombuffer(data, kind, count, at).tolist(), at + count * kind.itemsize


def _length(data: bytes, at: int) -> tuple[int, int]:
    value, at = _value(data, at)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"a length of {value!r}")
    return value, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = _length(data, at)
    if at + length > len(data):
        raise ValueError("a text that was cut short")
    return data[at : at + length].decode(), at + length


def _object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    count = None
    if data[at] == ord("#"):
        count, at = _length(data, at + 1)
    found: dict[str, Any] = {}
    while len(found) != count and (count is not None or data[at] != ord("}")):
        key, at = _text(data, at)
        found[key], at = _value(data, at)
    return found, at + (count is None)


def _array(data: bytes, at: int) -> tuple[list[Any], int]:
    marker = count = None
    if data[at] == ord("$"):
        marker, at = chr(data[at + 1]), at + 2
    if data[at] == ord("#"):
        count, at = _length(data, at + 1)
        if marker is not None:
            return _numbers(data, at, marker, count)
    found: list[Any] = []
    while len(found) != count and (count is not None or data[at] != ord("]")):
        value, at = _value(data, at)
        found.append(value)
    return found, at + (count is None)
