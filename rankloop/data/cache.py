"""Parsed files, kept by what is in them: the second reading of a file, under any name, skips the parsing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.storage.files import replace_file
from rankloop.storage.tensor_file import TensorFormat
from rankloop.types import Split, Str

FOLDER_VARIABLE = "RANKLOOP_CACHE"
# Part of every key: raise it when the parser starts to read a file differently.
PARSER_VERSION = 1
FORMAT = TensorFormat(
    name="rankloop-split",
    version="1",
    noun="cache entry",
    error=DataError,
    foreign="this is not a cache entry",
    renewal="parse the file again",
)
KIND = "split"


def cache_folder() -> Path:
    """``RANKLOOP_CACHE``, or ``rankloop`` in ``XDG_CACHE_HOME``, or ``~/.cache/rankloop``."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "rankloop"


def remembered(sources: Sequence[Path], parse: Callable[[], Split]) -> Split:
    """Parse the source files, or read the result from the cache if they were parsed before.

    A damaged entry is parsed and written again; if the folder cannot be written to, files are parsed every
    time.
    """
    try:
        entry = cache_folder() / f"{_key(sources)}.safetensors"
    except RuntimeError:  # there is no home folder, as in a container without users
        return parse()
    # Whatever an entry that is missing, damaged or foreign makes the reader do, the file is parsed.
    with suppress(OSError, DataError, KeyError, TypeError, ValueError):
        return _read(entry)
    split = parse()
    with suppress(RankloopError):
        _write(entry, split)
    return split


def _key(sources: Sequence[Path]) -> str:
    key = hashlib.sha256(f"rankloop parser {PARSER_VERSION}".encode())
    for source in sources:
        with source.open("rb") as file:
            key.update(hashlib.file_digest(file, "sha256").digest())
    return key.hexdigest()


def _write(entry: Path, split: Split) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "features": split.features,
        "labels": split.labels,
        "offsets": split.offsets,
        "query_ids": _to_codes(split.query_ids),
    }
    if split.doc_ids is not None:
        arrays["doc_ids"] = _to_codes(split.doc_ids)
    with replace_file(entry, read_back=FORMAT.verify) as file:
        FORMAT.write(file, KIND, {}, arrays)


def _read(entry: Path) -> Split:
    with entry.open("rb") as file:
        arrays = FORMAT.read(file).tensors
    doc_ids = arrays.pop("doc_ids", None)
    return Split(
        features=arrays["features"],
        labels=arrays["labels"],
        offsets=arrays["offsets"],
        query_ids=_from_codes(arrays["query_ids"]),
        doc_ids=None if doc_ids is None else _from_codes(doc_ids),
    )


def _to_codes(ids: Str) -> NDArray[np.uint32]:
    """Strings as NumPy holds them, one row of code points each: the container holds numbers only."""
    return np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)


def _from_codes(codes: NDArray[Any]) -> Str:
    return codes.view(f"=U{codes.shape[1]}").reshape(len(codes))
