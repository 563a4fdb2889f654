"""The container of arrays: one spelling, and no damage goes unnoticed."""

from __future__ import annotations

import io
import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from rankloop.errors import DataError
from rankloop.storage.fingerprints import canonical_json, fingerprint
from rankloop.storage.tensor_file import TensorFormat

FORMAT = TensorFormat("test-format", "1", "test file", DataError, "this is not a test file", "write it again")
TYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
TENSORS = {
    **{f"type {code}": np.arange(6).astype(code).reshape(2, 3) for code in TYPES},
    "scalar": np.array(3.0),
    "empty": np.empty((0, 4), np.float32),
}
DATA = FORMAT.to_bytes("kind", {"b": 1, "a": "é"}, TENSORS)


def test_content_comes_back_as_it_was() -> None:
    content = FORMAT.from_bytes(DATA)
    assert (content.kind, content.spec) == ("kind", {"a": "é", "b": 1})
    assert content.tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert content.tensors[name].dtype == tensor.dtype
        assert content.tensors[name].shape == tensor.shape
        np.testing.assert_array_equal(content.tensors[name], tensor)


def test_the_library_that_defines_the_format_reads_it() -> None:
    tensors = safetensors.numpy.load(DATA)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(tensors[name], tensor)


def test_the_order_of_names_and_memory_does_not_matter() -> None:
    backwards = {name: np.array(TENSORS[name], order="F") for name in reversed(TENSORS)}
    assert FORMAT.to_bytes("kind", {"a": "é", "b": 1}, backwards) == DATA


def test_byte_order_does_not_matter() -> None:
    big = {name: tensor.astype(tensor.dtype.newbyteorder(">")) for name, tensor in TENSORS.items()}
    assert FORMAT.to_bytes("kind", {"b": 1, "a": "é"}, big) == DATA


def test_a_stream_is_read_from_where_it_stands() -> None:
    file = io.BytesIO(b"before" + DATA)
    file.seek(6)
    assert FORMAT.read(file).kind == "kind"


def test_every_flipped_bit_of_the_header_is_noticed() -> None:
    (length,) = struct.unpack("<Q", DATA[:8])
    rng = np.random.default_rng(0)
    for place in range(8 + length):
        damaged = bytearray(DATA)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(DataError, match=r"damaged|not a test file|has version"):
            FORMAT.from_bytes(bytes(damaged))


def test_every_damaged_byte_of_the_arrays_is_noticed() -> None:
    (length,) = struct.unpack("<Q", DATA[:8])
    for place in range(8 + length, len(DATA)):
        damaged = DATA[:place] + bytes([DATA[place] ^ 1]) + DATA[place + 1 :]
        with pytest.raises(DataError, match=r"damaged \(its content does not match its fingerprint"):
            FORMAT.from_bytes(damaged)


@pytest.mark.parametrize("cut", [0, 4, 8, 100, -1, -200])
def test_half_a_file_is_refused(cut: int) -> None:
    with pytest.raises(DataError, match=r"damaged|not a test file"):
        FORMAT.from_bytes(DATA[:cut])


def test_more_than_a_file_is_refused() -> None:
    with pytest.raises(DataError, match=r"damaged \(its length is wrong"):
        FORMAT.from_bytes(DATA + b"x")


def with_table(table: dict[str, Any]) -> bytes:
    """The file with other entries in its table, and a header and a checksum to match."""
    (length,) = struct.unpack("<Q", DATA[:8])
    header = {**json.loads(DATA[8 : 8 + length]), **table}
    header["__metadata__"].pop("checksum")
    header["__metadata__"]["checksum"] = fingerprint(canonical_json(header).encode())
    text = canonical_json(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + DATA[8 + length :]


def test_a_table_that_asks_for_all_memory_is_refused() -> None:
    """Before an array is made: shapes and places must fit the bytes that follow."""
    assert with_table({}) == DATA
    for shape, end in [([10**15], 8 * 10**15), ([10**15], 8), ([1], 16)]:
        huge = {"dtype": "F64", "shape": shape, "data_offsets": [0, end]}
        with pytest.raises(DataError, match=r"damaged \(the place of"):
            FORMAT.from_bytes(with_table({"a": huge}))


def test_a_changed_shape_is_noticed() -> None:
    damaged = DATA.replace(b'"shape":[2,3]', b'"shape":[3,2]', 1)
    with pytest.raises(DataError, match=r"damaged \(its header does not match its checksum"):
        FORMAT.from_bytes(damaged)


def test_files_of_other_formats_are_recognised() -> None:
    other = replace(FORMAT, name="other-format", foreign="this is not another file")
    with pytest.raises(DataError, match="this is not another file"):
        other.from_bytes(DATA)


def test_fingerprints_name_content() -> None:
    ones = {"x": np.ones(2)}
    name = FORMAT.fingerprint("kind", {}, ones)
    assert name.encode() in FORMAT.to_bytes("kind", {}, ones)
    others = [
        FORMAT.fingerprint("other", {}, ones),
        FORMAT.fingerprint("kind", {"a": 1}, ones),
        FORMAT.fingerprint("kind", {}, {"x": np.zeros(2)}),
        replace(FORMAT, name="other-format").fingerprint("kind", {}, ones),
    ]
    assert len({name, *others}) == 5
