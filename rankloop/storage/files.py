"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rankloop.errors import RankloopError


def write_whole(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file so that no reader ever sees half of it, and a crash leaves what was there before."""
    target = Path(path)
    try:
        _write_aside(target, data)
    except OSError as error:
        raise RankloopError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def check_writable(*paths: str | os.PathLike[str] | None) -> None:
    """Refuse places that no file can be written to, before the work of filling them is done."""
    for path in paths:
        if path is None:
            continue
        target = Path(path)
        if target.is_dir():
            raise RankloopError(f"{target} cannot be written: it is a folder; name a file in it")
        above = next(folder for folder in target.absolute().parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise RankloopError(f"{target} cannot be written: {above} is not a folder that may be written to")


def _write_aside(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes private files; a model is as readable as any other file the user writes.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
