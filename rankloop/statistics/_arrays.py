"""Read-only arrays without copies, and values made of them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError

# Clicks are kept for every item and policy, so they take 4 bytes each; 8 would add a tenth to all memory.
MOST_CLICKS = 2**31 - 1

T = TypeVar("T")


def read_only(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The values as a read-only array; not copied if they have the type already."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or (dtype is not np.float64 and array.dtype.kind == "f"):
        raise DataError(f"{what} must be {np.dtype(dtype)}, got {array.dtype}")
    if dtype is np.int32 and array.dtype != np.int32 and array.size and array.max() > MOST_CLICKS:
        raise DataError(f"{what} are counted up to {MOST_CLICKS} per item and policy, got {array.max()}")
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def read_only_sums(values: object, dtype: type[np.generic], what: str) -> NDArray[Any]:
    """The same for sums over displays: counts of the given type, or numbers if displays have shares."""
    array = np.asarray(values)
    return read_only(array, np.float64 if array.dtype.kind == "f" else dtype, what)


def build_unchecked(kind: type[T], **attributes: object) -> T:
    """Make a value without its checks, from sums and parts of values that have been checked."""
    made = object.__new__(kind)
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(made, name, value)
    return made
