"""Folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from rankloop.errors import RankloopError


def write_folder(
    path: str | os.PathLike[str], files: Mapping[str, bytes], *, replaceable: Collection[str] = ()
) -> Path:
    """Write a folder of files so that no reader ever sees half of it.

    Args:
        path: the folder; its parents are created.
        files: the content of each file, by name.
        replaceable: names of files; an existing folder is replaced if it contains no others.

    Raises:
        RankloopError: the folder cannot be written, or something else is in its place.
    """
    target = Path(path)
    check_folder(target, replaceable=replaceable)
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        # Beside its final place: a folder can be moved in one step only within a file system.
        scratch = Path(tempfile.mkdtemp(dir=target.absolute().parent, prefix=f".{target.name}."))
    except OSError as error:
        raise RankloopError(f"{target} cannot be written: {error.strerror or error}") from error
    try:
        whole = scratch / "new"
        whole.mkdir()
        for name, data in files.items():
            (whole / name).write_bytes(data)
        if target.exists():
            target.rename(scratch / "replaced")
        whole.rename(target)
    except OSError as error:
        raise RankloopError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def check_folder(path: str | os.PathLike[str], *, replaceable: Collection[str] = ()) -> None:
    """Refuse a path at which `write_folder` cannot write, before the work of filling the folder is done."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise RankloopError(f"{target} cannot be written: it is a file, and a folder is written here")
    if target.is_dir():
        others = sorted(child.name for child in target.iterdir() if child.name not in replaceable)
        if others:
            raise RankloopError(
                f"{target} cannot be written: it is a folder with other files ({', '.join(others[:5])}): "
                f"choose another path"
            )
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise RankloopError(f"{target} cannot be written: {above} is not a folder that may be written to")
