"""The one container of arrays: models, checkpoints, statistics and cached data.

It is a safetensors file that is written and read array by array, so that nothing is held in memory twice. Its
metadata say what it is:

    format       "rankloop-model", "rankloop-statistics", …
    version      of the format
    kind         what the file holds: "mlp", "optimiser-state", "statistics", …
    spec         what the kind needs besides its arrays, as canonical JSON
    fingerprint  the name of exactly this content
    checksum     of the header, which holds names, types, shapes and places of the arrays

    fingerprint = first 16 hexadecimal digits of
                  sha256(format ␊ kind ␊ spec ␊ arrays by name, little-endian, C order)
    checksum    = first 16 hexadecimal digits of sha256(header without the checksum)

One content has one spelling: the header is canonical JSON (`rankloop.storage.fingerprints`), and the arrays
come in the order of their names. The safetensors library writes metadata in random order, so the header is
written here.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.storage.fingerprints import canonical_json, fingerprint, fingerprint_parts

# safetensors' names of the types that numpy has too.
_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("<i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("<u1"),
    "BOOL": np.dtype("|b1"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
# A safetensors file is: the length of its header in 8 bytes, the header, the arrays.
_LENGTH_BYTES = 8
# What safetensors allows a header to have.
_LONGEST_HEADER = 100_000_000
# Bytes that are compared with the fingerprint at a time, where no arrays are made of them.
_CHUNK = 1 << 24

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a file.

    Attributes:
        kind: which kind of content it is.
        spec: what that kind needs besides its arrays.
        tensors: arrays by name.
    """

    kind: str
    spec: dict[str, Any]
    tensors: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class TensorFormat:
    """One kind of tensor file, and what its errors say.

    Attributes:
        name: what the metadata call the format.
        version: files of any other version are refused.
        noun: what errors call a file.
        error: the class of these errors.
        foreign: the message for a file that is something else; it says what to give instead.
        renewal: how to get a file of this version, besides updating rankloop.

    Example:
        >>> from rankloop.errors import DataError
        >>> pairs = TensorFormat("pairs", "1", "file of pairs", DataError, "no pairs here", "pair again")
        >>> data = pairs.to_bytes("lengths", {"unit": "m"}, {"x": np.array([1.0, 2.0])})
        >>> pairs.from_bytes(data)
        Content(kind='lengths', spec={'unit': 'm'}, tensors={'x': array([1., 2.])})
        >>> pairs.from_bytes(data[:-1])
        Traceback (most recent call last):
        rankloop.errors.DataError: the file of pairs is damaged (its length is wrong): store or copy it again
    """

    name: str
    version: str
    noun: str
    error: type[RankloopError]
    foreign: str
    renewal: str

    def write(self, file: BinaryIO, kind: str, spec: Mapping[str, Any], tensors: Tensors) -> None:
        """Write the arrays in the order of their names: the same bytes for the same content."""
        metadata = {
            "format": self.name,
            "version": self.version,
            "kind": kind,
            "spec": canonical_json(spec),
            "fingerprint": self.fingerprint(kind, spec, tensors),
        }
        file.write(_header(metadata, _table(tensors)))
        for name in sorted(tensors):
            file.write(_buffer(tensors[name]))

    def read(self, file: BinaryIO) -> Content:
        """Read what `write` wrote; reject damaged and other files with the error of the format."""
        tensors = dict[str, NDArray[Any]]()
        kind, spec = self._read(file, tensors)
        # Kernels need the machine's own byte order.
        native = {name: a.astype(a.dtype.newbyteorder("="), copy=False) for name, a in tensors.items()}
        return Content(kind, spec, native)

    def verify(self, path: Path) -> None:
        """Reject what `read` rejects, in little memory."""
        with path.open("rb") as file:
            self._read(file, None)

    def _read(self, file: BinaryIO, tensors: dict[str, NDArray[Any]] | None) -> tuple[str, dict[str, Any]]:
        """The kind and the spec; arrays go to ``tensors``, or are only compared with the fingerprint."""
        header, metadata, table = self._read_header(file)
        if metadata.get("version") != self.version:
            raise self.error(
                f"the {self.noun} has version {metadata.get('version')!r}, but this program reads "
                f"{self.version!r}: update rankloop, or {self.renewal}"
            )

        def parts(head: bytes) -> Iterator[bytes | memoryview]:
            yield head
            for name in sorted(table):
                if tensors is None:
                    yield from _chunks(file, table[name])
                else:
                    tensors[name] = _read_array(file, table[name])
                    yield _buffer(tensors[name])

        try:
            kind, spec, name = metadata["kind"], json.loads(metadata["spec"]), metadata["fingerprint"]
            metadata.pop("checksum")
            if header != _header(metadata, table):
                raise ValueError("its header does not match its checksum")
            # Before any array is made: a damaged table must not ask for all memory.
            _check_places(table, _bytes_left(file))
            if name != fingerprint_parts(parts(self._head(kind, spec))):
                raise ValueError(f"its content does not match its fingerprint {name!r}")
        except Exception as error:  # a damaged header may make the parsers raise anything
            raise self._damaged(str(error)) from error
        return kind, spec

    def to_bytes(self, kind: str, spec: Mapping[str, Any], tensors: Tensors) -> bytes:
        """The file as bytes."""
        buffer = io.BytesIO()
        self.write(buffer, kind, spec, tensors)
        return buffer.getvalue()

    def from_bytes(self, data: bytes) -> Content:
        """Read what `to_bytes` wrote; reject damaged and other bytes with the error of the format."""
        return self.read(io.BytesIO(data))

    def fingerprint(self, kind: str, spec: Mapping[str, Any], tensors: Tensors) -> str:
        """The name of this content: a hash of its kind, spec and arrays (see the top of this module)."""
        return fingerprint(self._head(kind, spec), *(_buffer(tensors[name]) for name in sorted(tensors)))

    def _head(self, kind: str, spec: Mapping[str, Any]) -> bytes:
        """What the fingerprint begins with."""
        return "\n".join([self.name, kind, canonical_json(spec), ""]).encode("ascii")

    def _read_header(self, file: BinaryIO) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
        """The bytes of the header, its metadata, and its table of arrays."""
        start = file.read(_LENGTH_BYTES)
        length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH_BYTES else 0
        text = file.read(min(length, _LONGEST_HEADER))
        try:
            table = json.loads(text)
            metadata = table.pop("__metadata__")
            is_ours = metadata["format"] == self.name
        except Exception as error:  # the bytes may be anything
            # What still spells our format is a file of ours that was damaged on its way.
            if self.name.encode() in text:
                raise self._damaged("its header cannot be read") from error
            raise self.error(self.foreign) from error
        if not is_ours:
            raise self.error(self.foreign)
        return start + text, metadata, table

    def _damaged(self, why: str) -> RankloopError:
        return self.error(f"the {self.noun} is damaged ({why}): store or copy it again")


def _table(tensors: Tensors) -> dict[str, Any]:
    table: dict[str, Any] = {}
    at = 0
    for name in sorted(tensors):
        array = tensors[name]
        table[name] = {
            "dtype": _CODES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    return table


def _check_places(table: Mapping[str, Any], size: int) -> None:
    """Refuse a table whose arrays do not fill ``size`` bytes, one after the other."""
    at = 0
    for name in sorted(table):
        entry = table[name]
        first, last = entry["data_offsets"]
        if first != at or last - first != math.prod(entry["shape"]) * _DTYPES[entry["dtype"]].itemsize:
            raise ValueError(f"the place of {name!r} is wrong")
        at = last
    if at != size:
        raise ValueError("its length is wrong")


def _header(metadata: Mapping[str, Any], table: Mapping[str, Any]) -> bytes:
    checksum = fingerprint(canonical_json({"__metadata__": metadata, **table}).encode("ascii"))
    text = canonical_json({"__metadata__": {**metadata, "checksum": checksum}, **table}).encode("ascii")
    text += b" " * (-len(text) % _LENGTH_BYTES)  # arrays start at a multiple of 8 bytes
    return struct.pack("<Q", len(text)) + text


def _read_array(file: BinaryIO, entry: Mapping[str, Any]) -> NDArray[Any]:
    array = np.empty(entry["shape"], _DTYPES[entry["dtype"]])
    if file.readinto(_buffer(array)) != array.nbytes:  # type: ignore[attr-defined]
        raise ValueError("an array is cut short")
    return array


def _chunks(file: BinaryIO, entry: Mapping[str, Any]) -> Iterator[bytes]:
    """The bytes of an array, part by part."""
    first, last = entry["data_offsets"]
    for start in range(first, last, _CHUNK):
        yield file.read(min(_CHUNK, last - start))


def _buffer(array: NDArray[Any]) -> memoryview:
    """The bytes of an array, little-endian in C order; not copied if they are so already."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.reshape(-1).view(np.uint8).data


def _bytes_left(file: BinaryIO) -> int:
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(here)
    return end - here
