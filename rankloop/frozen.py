"""How values made of large arrays are made, read-only and without copies; and others' errors in one line."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError

# Clicks are kept for every item and policy, so their 4 bytes count; 8 would be a tenth of all memory.
MOST_CLICKS = 2**31 - 1

T = TypeVar("T")


def frozen(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The values as a read-only array; not copied if they have the type already."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or (dtype is not np.float64 and array.dtype.kind == "f"):
        raise DataError(f"{what} must be {np.dtype(dtype)}, got {array.dtype}")
    if dtype is np.int32 and array.dtype != np.int32 and array.size and array.max() > MOST_CLICKS:
        raise DataError(f"{what} are counted up to {MOST_CLICKS} an item and policy, got {array.max()}")
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def one_line(error: object) -> str:
    r"""What another library says is wrong, without the lines in which it quotes itself.

    >>> one_line("IO Error: no such file\n\nLINE 1: SELECT …")
    'IO Error: no such file'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def valid(kind: type[T], **attributes: object) -> T:
    """Make a value without its checks: sums and parts of what has been checked are as valid."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(made, name, value)
    return made
