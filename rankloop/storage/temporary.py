"""Temporary files and folders that do not outlive the process that made them.

A process that is killed cannot remove what it made. It holds a lock on each of its temporary files, though,
which ends with it; so the next process that writes to the same place can tell what was left behind, and
removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rankloop.storage.locks import CAN_LOCK, is_at, try_lock, wait_for_lock

# How much of the target's name a temporary name repeats: file systems take names of up to 255 bytes, and a
# character has at most four.
NAME_CHARACTERS = 50
ENDING = ".rankloop-tmp"
TEMPORARY = re.compile(rf"\.(?P<target>.*)\.[0-9a-f]{{16}}{re.escape(ENDING)}", re.DOTALL)
# Inside the temporary folder that replaces another one: the new content, and the old one while they change
# places.
FILLED, REPLACED = "filled", "replaced"
# The folder in which temporary folders without a target are made, and what their names begin with.
SCRATCH = "rankloop-"

# Folders that this process has looked through.
_swept: set[Path] = set()


@contextmanager
def temporary_file(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file next to a target, open for writing; the caller moves it or it is removed."""
    _sweep_once(target.parent)
    while True:
        path = _beside(target)
        # "x" makes a file with the permissions of any other; tempfile's are private.
        with path.open("xb") as file:
            _mark_used(file.fileno())
            if is_at(file.fileno(), path):
                try:
                    yield path, file
                finally:
                    path.unlink(missing_ok=True)
                return


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A new folder next to a target, which is removed with all that is left in it."""
    _sweep_once(target.parent)
    with _used_folder(lambda: _beside(target)) as path:
        yield path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder for temporary files (``TMPDIR`` says where), removed at the end of the block."""
    parent = Path(tempfile.gettempdir())
    _sweep_once(parent)
    with _used_folder(lambda: parent / f".{SCRATCH}.{secrets.token_hex(8)}{ENDING}") as path:
        yield path


def sweep(folder: Path) -> None:
    """Remove temporary files and folders whose processes have ended; restore what they had moved away."""
    if not CAN_LOCK:
        return
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if (name := TEMPORARY.fullmatch(entry.name)) and not entry.is_symlink():
                with suppress(OSError):
                    _remove_unused(Path(entry.path), name["target"])


def _sweep_once(folder: Path) -> None:
    if folder not in _swept:
        _swept.add(folder)
        sweep(folder)


def _remove_unused(path: Path, target: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if not try_lock(handle) or not is_at(handle, path):
            return
        if not path.is_dir():
            path.unlink()
            return
        replaced = path / REPLACED
        if replaced.exists():
            if len(target) >= NAME_CHARACTERS:  # it may be longer than that
                return
            if not path.with_name(target).exists():
                # Its process ended between moving the old folder away and moving the new one into its place.
                replaced.rename(path.with_name(target))
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:NAME_CHARACTERS]}.{secrets.token_hex(8)}{ENDING}")


@contextmanager
def _used_folder(choose: Callable[[], Path]) -> Iterator[Path]:
    while True:
        path = choose()
        path.mkdir(mode=0o700)
        handle = _open_folder(path)
        try:
            if handle is not None:
                _mark_used(handle)
            if handle is None or is_at(handle, path):
                try:
                    yield path
                finally:
                    shutil.rmtree(path, ignore_errors=True)
                return
        finally:
            if handle is not None:
                os.close(handle)


def _open_folder(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return None


def _mark_used(handle: int) -> None:
    # If another process holds it, that one takes it for left behind and is about to remove it.
    with suppress(OSError):
        wait_for_lock(handle)
