"""Arrays in a file, one after the other: written and read array by array, so that nothing is held twice.

The file is a safetensors file of int64, int32 and float64 arrays. Its metadata say what it is:

    format    "rankloop-statistics"
    version   "1"
    spec      what is needed beside the arrays, as canonical JSON (sorted keys, no spaces, ASCII)
    checksum  sha256(spec ␊ table of arrays ␊ arrays in the order of the table)
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError

FORMAT = "rankloop-statistics"
VERSION = "1"
_DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
# A safetensors file is: the length of its header in 8 bytes, the header, the arrays.
_LENGTH_BYTES = 8


def write(file: BinaryIO, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write contiguous arrays in the order of their names: the same bytes for the same content."""
    table: dict[str, Any] = {}
    at = 0
    for name in sorted(arrays):
        array = _little(arrays[name])
        table[name] = {
            "dtype": _CODES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    checksum = _checksum(spec, table)
    for name in table:
        checksum.update(_bytes(_little(arrays[name])))
    file.write(_header(spec, table, checksum.hexdigest()))
    for name in table:
        file.write(_bytes(_little(arrays[name])))


def read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The spec and the arrays that `write` wrote; `DataError` if they are damaged or something else."""
    start = file.read(_LENGTH_BYTES)
    size = _size(file)
    length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH_BYTES else size
    foreign = DataError(
        "this is not a file of statistics: give one that save_statistics or statistics_to_bytes wrote"
    )
    if length > size - _LENGTH_BYTES:
        raise foreign
    text = file.read(length)
    try:
        table = json.loads(text)
        metadata = table.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise foreign
    except Exception as error:  # any bytes at all may stand here
        raise foreign from error
    if metadata.get("version") != VERSION:
        raise DataError(
            f"the file of statistics has version {metadata.get('version')!r}, but this program reads "
            f"{VERSION!r}: update rankloop, or gather the statistics again"
        )
    damaged = DataError("the file of statistics is damaged: store or copy it again")
    try:
        spec = json.loads(metadata["spec"])
        # The length is compared before any array is made: a damaged table must not ask for all memory.
        sound = start + text == _header(spec, table, metadata["checksum"])
        end = max((entry["data_offsets"][1] for entry in table.values()), default=0)
        if not sound or end != size - _LENGTH_BYTES - length:
            raise damaged
        checksum = _checksum(spec, table)
        arrays = {name: _read_array(file, table[name]) for name in sorted(table)}
    except Exception as error:  # whatever a damaged header makes the parsers do, the file is damaged
        raise damaged from error
    for array in arrays.values():
        checksum.update(_bytes(array))
    if checksum.hexdigest() != metadata["checksum"]:
        raise damaged
    # Kernels need the machine's own byte order.
    return spec, {name: a.astype(a.dtype.newbyteorder("="), copy=False) for name, a in arrays.items()}


def canonical_json(value: object) -> str:
    """The one spelling of a JSON value.

    >>> canonical_json({"b": [1, 2], "a": "x"})
    '{"a":"x","b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _header(spec: Mapping[str, Any], table: Mapping[str, Any], checksum: str) -> bytes:
    metadata = {"format": FORMAT, "version": VERSION, "spec": canonical_json(spec), "checksum": checksum}
    text = canonical_json({"__metadata__": metadata, **table}).encode("ascii")
    text += b" " * (-len(text) % _LENGTH_BYTES)  # arrays start at a multiple of 8 bytes
    return struct.pack("<Q", len(text)) + text


def _checksum(spec: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    return hashlib.sha256(f"{canonical_json(spec)}\n{canonical_json(table)}\n".encode("ascii"))


def _read_array(file: BinaryIO, entry: Mapping[str, Any]) -> NDArray[Any]:
    array = np.empty(entry["shape"], _DTYPES[entry["dtype"]])
    first, last = entry["data_offsets"]
    if array.nbytes != last - first or file.readinto(_bytes(array)) != array.nbytes:  # type: ignore[attr-defined]
        raise DataError("an array is not whole")
    return array


def _little(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _size(file: BinaryIO) -> int:
    here = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(here)
    return size
