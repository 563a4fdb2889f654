"""Models as bytes: what is sound is read, and nothing else is."""

from __future__ import annotations

import io
import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from rankloop.errors import ModelFileError
from rankloop.models import MLP, Linear, OptimiserState, model_from_bytes, storage
from rankloop.models.storage import pack, unpack

MODEL = MLP.initialise(3, np.random.default_rng(0), hidden=(2,))
DATA = MODEL.to_bytes()


def _with_metadata(data: bytes, **changes: Any) -> bytes:
    """A well-formed safetensors file with other metadata."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"].update(changes)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def test_the_container_is_a_safetensors_file(tmp_path: Any) -> None:
    """The library that defines the format reads ours, tensors and metadata."""
    np.testing.assert_array_equal(safetensors.numpy.load(DATA)["parameters"], MODEL.parameters)
    path = tmp_path / "model.safetensors"
    path.write_bytes(DATA)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert metadata == {
        "format": "rankloop-model",
        "version": "1",
        "kind": "mlp",
        "spec": '{"activation":"sigmoid","dtype":"float32","hidden":[2],"n_features":3}',
        "fingerprint": MODEL.fingerprint,
        "checksum": metadata["checksum"],
    }


def test_one_content_has_one_spelling() -> None:
    assert MODEL.to_bytes() == DATA
    content = unpack(DATA)
    backwards = dict(reversed(list(content.spec.items())))
    assert pack(content.kind, backwards, content.tensors) == DATA


def test_big_endian_arrays_have_the_same_bytes_and_fingerprint() -> None:
    little = {"x": np.arange(3, dtype="<f4")}
    big = {"x": np.arange(3, dtype=">f4")}
    assert pack("k", {}, big) == pack("k", {}, little)


def test_every_flipped_byte_is_refused() -> None:
    """Each byte in turn, replaced by three others, among them one that is a different white space."""
    for k, byte in enumerate(DATA):
        for other in {byte ^ 1, byte ^ 0x80, 0x0A} - {byte}:
            damaged = DATA[:k] + bytes([other]) + DATA[k + 1 :]
            with pytest.raises(ModelFileError):
                model_from_bytes(damaged)


def test_every_truncation_is_refused() -> None:
    for k in range(len(DATA)):
        with pytest.raises(ModelFileError):
            model_from_bytes(DATA[:k])


def test_anything_after_the_end_is_refused() -> None:
    with pytest.raises(ModelFileError, match="damaged"):
        model_from_bytes(DATA + b"\0")


def test_damaged_and_foreign_files_have_different_errors() -> None:
    with pytest.raises(ModelFileError, match=r"damaged.*does not match its fingerprint"):
        model_from_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
    with pytest.raises(ModelFileError, match=r"damaged.*store or copy it again"):
        model_from_bytes(DATA[: len(DATA) // 2])


def _saved_by_numpy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, MODEL.parameters)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"x", id="one byte"),
        pytest.param(bytes(1000), id="zeros"),
        pytest.param(np.random.default_rng(0).bytes(1000), id="random bytes"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(50), id="PNG"),
        pytest.param(pickle.dumps([1.0, 2.0]), id="pickle"),
        pytest.param(_saved_by_numpy(), id="npy"),
        pytest.param(safetensors.numpy.save({"x": np.ones(3)}), id="safetensors without metadata"),
        pytest.param(safetensors.numpy.save({"x": np.ones(3)}, {"format": "pt"}), id="safetensors of torch"),
        pytest.param(struct.pack("<Q", 2) + b"[]", id="a list for a header"),
        pytest.param(struct.pack("<Q", 2**63) + b"{}", id="a header longer than the file"),
    ],
)
def test_foreign_files_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFileError, match=r"not a model file of rankloop.*to_bytes\(\)"):
        model_from_bytes(data)


def test_a_pickle_is_never_executed() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("a pickle was executed",))

    with pytest.raises(ModelFileError):
        model_from_bytes(pickle.dumps(Trap()))


def test_a_future_version_is_refused_with_advice() -> None:
    with pytest.raises(ModelFileError, match="version '2', but this program reads '1': update rankloop"):
        model_from_bytes(_with_metadata(DATA, version="2"))


def test_a_changed_claim_is_refused() -> None:
    for changes in [{"fingerprint": "0" * 16}, {"kind": "linear"}, {"spec": "{}"}, {"extra": "x"}]:
        with pytest.raises(ModelFileError, match="damaged"):
            model_from_bytes(_with_metadata(DATA, **changes))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ModelFileError, match="'forest', which is not a kind of model; the kinds are: mlp"):
        model_from_bytes(pack("forest", {}, {"x": np.zeros(2)}))
    state = OptimiserState(0, np.zeros(1), np.zeros(1)).to_bytes()
    with pytest.raises(ModelFileError, match="optimiser-state"):
        model_from_bytes(state)


def test_the_wrong_class_says_what_the_file_holds() -> None:
    with pytest.raises(ModelFileError, match="expected a file of kind 'linear', but this one holds 'mlp'"):
        Linear.from_bytes(DATA)


@pytest.mark.parametrize(
    ("spec", "tensors"),
    [
        ({"n_features": 3, "dtype": "float32"}, {"weights": np.zeros(4, np.float32)}),
        ({"n_features": 3, "dtype": "float32"}, {"parameters": np.zeros(5, np.float32)}),
        ({"n_features": "3", "dtype": "float32"}, {"parameters": np.zeros(4, np.float32)}),
        ({"n_features": 3, "colour": "red"}, {"parameters": np.zeros(4, np.float32)}),
        ({"n_features": 3, "dtype": "float32"}, {"parameters": np.full(4, np.nan, np.float32)}),
    ],
)
def test_sound_containers_of_no_model_are_refused(
    spec: dict[str, Any], tensors: dict[str, np.ndarray[Any, Any]]
) -> None:
    with pytest.raises(ModelFileError, match="does not hold a linear model that this version can read"):
        model_from_bytes(pack("linear", spec, tensors))


def test_lightgbms_text_goes_to_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        @classmethod
        def from_bytes(cls, data: bytes) -> Any:
            return data.decode()

    monkeypatch.setattr(storage, "_some_reader", Reader, raising=False)
    monkeypatch.setitem(storage.READERS, "lightgbm", (storage.__name__, "_some_reader"))
    assert model_from_bytes(b"tree\nversion=v4\n") == "tree\nversion=v4\n"  # type: ignore[comparison-overlap]
