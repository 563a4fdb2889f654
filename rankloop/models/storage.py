"""Models as bytes: one container for every kind, checked on the way back in, and no pickle anywhere.

The container is a safetensors file. Its metadata say what it is:

    format       "rankloop-model"
    version      "1"
    kind         "mlp", "linear", "torch", …
    spec         what the kind needs beside its tensors, as canonical JSON
    fingerprint  the name of exactly this content

    fingerprint = first 16 hexadecimal digits of
                  sha256("rankloop-model" ␊ kind ␊ spec ␊ tensors by name, little-endian, C order)

Canonical JSON has sorted keys, no spaces and ASCII only, so it holds no line break; the spec fixes the shapes
of the tensors, so different models never hash the same bytes. A LightGBM model is LightGBM's own text, which
starts with "tree".
"""

from __future__ import annotations

import hashlib
import importlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import ModelFileError
from rankloop.types import Model

FORMAT = "rankloop-model"
VERSION = "1"
FINGERPRINT_DIGITS = 16
LIGHTGBM_START = b"tree"

# kind → module and class; the class has a classmethod ``from_bytes(data)``. Imported only when met.
READERS = {
    "mlp": ("rankloop.models.mlp", "MLP"),
    "linear": ("rankloop.models.linear", "Linear"),
    "lightgbm": ("rankloop.models.lightgbm", "LightGBMModel"),
    "torch": ("rankloop.models.torch", "TorchModel"),
}

# safetensors' names of the types that numpy has too.
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U8": "<u1",
    "BOOL": "|b1",
}
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}

# A safetensors file is: the length of its header in 8 bytes, the header, the tensors.
_LENGTH_BYTES = 8


@dataclass(frozen=True, eq=False)
class Content:
    """What a container holds.

    Attributes:
        kind: which kind of model wrote it.
        spec: what that kind needs beside its tensors.
        tensors: arrays by name.
    """

    kind: str
    spec: dict[str, Any]
    tensors: dict[str, NDArray[Any]]


def canonical_json(value: object) -> str:
    r"""The one spelling of a JSON value that fingerprints are made of.

    >>> canonical_json({"b": [1, 2], "a": "é"})
    '{"a":"\\u00e9","b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(kind: str, spec: Mapping[str, Any], payload: bytes) -> str:
    """The name of a model for ever: a hash of its kind, spec and parameters (see the top of this module).

    >>> fingerprint("linear", {"n_features": 1}, bytes(8))
    '91788220bbb2b639'
    """
    head = "\n".join([FORMAT, kind, canonical_json(spec), ""])
    return hashlib.sha256(head.encode("ascii") + payload).hexdigest()[:FINGERPRINT_DIGITS]


def payload_of(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The tensors one after the other, by name, in little-endian C order."""
    return b"".join(_little(tensors[name]).tobytes() for name in sorted(tensors))


def pack(kind: str, spec: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The container of this content: the same bytes for the same content, on every machine.

    (The safetensors library writes metadata in random order, so the header is written here.)
    """
    payload = payload_of(tensors)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "spec": canonical_json(spec),
        "fingerprint": fingerprint(kind, spec, payload),
    }
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name in sorted(tensors):
        tensor = _little(tensors[name])
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = canonical_json(header).encode("ascii")
    text += b" " * (-len(text) % _LENGTH_BYTES)  # tensors start at a multiple of 8 bytes
    return struct.pack("<Q", len(text)) + text + payload


def unpack(data: bytes) -> Content:
    """The content of a container; `ModelFileError` if it is damaged or something else."""
    metadata = _metadata(data)
    if metadata.get("version") != VERSION:
        raise ModelFileError(
            f"the model file has version {metadata.get('version')!r}, but this program reads {VERSION!r}: "
            f"update rankloop, or store the model again with this version"
        )
    try:
        spec, tensors = json.loads(metadata["spec"]), _tensors(data)
        content = Content(metadata["kind"], spec, tensors)
        intact = pack(content.kind, content.spec, content.tensors) == data
    except Exception as error:  # whatever a damaged header makes the parsers do, the file is damaged
        raise _damaged(str(error)) from error
    # One equation covers every byte: a file is sound if writing what was read gives the same file.
    if not intact:
        raise _damaged(f"its content does not match its fingerprint {metadata.get('fingerprint')!r}")
    return content


def model_to_bytes(model: Model) -> bytes:
    """The whole model, without pickle; `model_from_bytes` reads it back."""
    return model.to_bytes()


def model_from_bytes(data: bytes) -> Model:
    """The model that these bytes hold, whichever kind it is.

    Raises:
        ModelFileError: the bytes are damaged, hold something else, or come from a newer version.

    Example:
        >>> from rankloop.models.linear import Linear
        >>> model = Linear.initialise(3, np.random.default_rng(0))
        >>> model_from_bytes(model_to_bytes(model)).fingerprint == model.fingerprint
        True
    """
    kind = "lightgbm" if data.startswith(LIGHTGBM_START) else unpack(data).kind
    if kind not in READERS:
        raise ModelFileError(
            f"the file holds {kind!r}, which is no kind of model; there are: {', '.join(READERS)}"
        )
    module, name = READERS[kind]
    model: Model = getattr(importlib.import_module(module), name).from_bytes(data)
    return model


def _little(tensor: NDArray[Any]) -> NDArray[Any]:
    return tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)


def _damaged(why: str) -> ModelFileError:
    return ModelFileError(f"the model file is damaged ({why}): store or copy it again")


def _metadata(data: bytes) -> dict[str, str]:
    foreign = ModelFileError(
        "this is not a model file of rankloop (neither its safetensors container nor LightGBM's text): "
        "give bytes that a model's to_bytes() wrote"
    )
    if len(data) < _LENGTH_BYTES:
        raise foreign
    (length,) = struct.unpack("<Q", data[:_LENGTH_BYTES])
    try:
        header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
        metadata: dict[str, str] = header["__metadata__"]
        is_ours = metadata["format"] == FORMAT
    except Exception as error:  # any bytes at all may stand here
        # What still spells our format is a model file that was damaged on its way.
        raise (_damaged("its header cannot be read") if FORMAT.encode() in data else foreign) from error
    if not is_ours:
        raise foreign
    return metadata


def _tensors(data: bytes) -> dict[str, NDArray[Any]]:
    from safetensors import deserialize

    tensors = {}
    for name, tensor in deserialize(data):  # type: ignore[no-untyped-call]
        dtype = np.dtype(_DTYPES[tensor["dtype"]])
        # A copy in the machine's own byte order, which kernels need.
        tensors[name] = (
            np.frombuffer(tensor["data"], dtype).reshape(tensor["shape"]).astype(dtype.newbyteorder("="))
        )
    return tensors
