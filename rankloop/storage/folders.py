"""Folders that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.storage.files import replace_folder


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
    with replace_folder(target, check=lambda: check_folder(target, replaceable=replaceable)) as folder:
        for name, data in files.items():
            (folder / name).write_bytes(data)
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
