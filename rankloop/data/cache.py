"""Parsed files, kept by what is in them: the second reading of a file, under any name, skips the parsing."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from rankloop.types import Split, Str

FOLDER_VARIABLE = "RANKLOOP_CACHE"
# Part of every key: raise it when the parser comes to read a file differently.
PARSER_VERSION = 1
# What reading a damaged entry, or one that something else wrote, can raise.
DAMAGE = (SafetensorError, OSError, KeyError, TypeError, ValueError)

Arrays = dict[str, NDArray[np.generic]]


def cache_folder() -> Path:
    """``RANKLOOP_CACHE``, or ``rankloop`` in ``XDG_CACHE_HOME``, or ``~/.cache/rankloop``."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "rankloop"


def remembered(sources: Sequence[Path], parse: Callable[[], Split]) -> Split:
    """What ``parse`` makes of the source files, from the cache where they were parsed before.

    An entry that is damaged is parsed and written again; a folder that cannot be written to costs nothing
    but the time of parsing.
    """
    try:
        entry = cache_folder() / f"{_key(sources)}.safetensors"
    except RuntimeError:  # nobody's home, in a container without users
        return parse()
    with suppress(*DAMAGE):
        return _read(entry)
    split = parse()
    with suppress(OSError, SafetensorError):
        _write(entry, split)
    return split


def _key(sources: Sequence[Path]) -> str:
    key = hashlib.sha256(f"rankloop parser {PARSER_VERSION}".encode())
    for source in sources:
        with source.open("rb") as file:
            key.update(hashlib.file_digest(file, "sha256").digest())
    return key.hexdigest()


def _write(entry: Path, split: Split) -> None:
    arrays: Arrays = {
        "features": split.features,
        "labels": split.labels,
        "offsets": split.offsets,
        "query_ids": _to_codes(split.query_ids),
    }
    if split.doc_ids is not None:
        arrays["doc_ids"] = _to_codes(split.doc_ids)
    entry.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and moved: another process sees the whole entry or none.
    handle, name = tempfile.mkstemp(prefix=entry.stem, suffix=".part", dir=entry.parent)
    os.close(handle)
    try:
        save_file(arrays, name, metadata={"checksum": _checksum(arrays)})
        Path(name).replace(entry)
    finally:
        Path(name).unlink(missing_ok=True)


def _read(entry: Path) -> Split:
    with safe_open(entry, framework="numpy") as file:
        stored = (file.metadata() or {})["checksum"]
        arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if _checksum(arrays) != stored:
        raise ValueError(f"{entry} is damaged")
    return Split(
        features=arrays["features"].astype(np.float32, copy=False),
        labels=arrays["labels"].astype(np.float64, copy=False),
        offsets=arrays["offsets"].astype(np.int64, copy=False),
        query_ids=_from_codes(arrays["query_ids"]),
        doc_ids=_from_codes(arrays["doc_ids"]) if "doc_ids" in arrays else None,
    )


def _checksum(arrays: Arrays) -> str:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(arrays[name].reshape(-1).view(np.uint8).data, total)
    return str(total)


def _to_codes(ids: Str) -> NDArray[np.uint32]:
    """Strings as NumPy holds them, one row of code points each: safetensors knows numbers only."""
    return np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)


def _from_codes(codes: NDArray[np.generic]) -> Str:
    return codes.view(f"<U{codes.shape[1]}").reshape(len(codes))
