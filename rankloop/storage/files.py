"""Files and folders that appear as a whole or not at all.

Content is written next to its final place and moved there when it is complete. Readers see what was there
before or what is there afterwards, never a part of it; and a crash, of the program or of the machine, leaves
one of the two.

What another command reads is read back first, by that command's own reader (``read_back``): nothing takes its
place, and nothing is reported as written, that this version cannot read.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from rankloop.errors import RankloopError, one_line
from rankloop.storage.locks import FILLED, REPLACED, temporary_file, temporary_folder

# Linux: exchange two paths in one step, both of them relative to the working folder.
RENAME_EXCHANGE, AT_WORKING_FOLDER = 2, -100

# Reads what was written, at the path that it has so far, and raises if it cannot.
Reader = Callable[[Path], object]


def write_whole(path: str | os.PathLike[str], data: bytes, *, read_back: Reader | None = None) -> Path:
    """Write a file; no reader ever sees half of it, and a failure leaves what was there before.

    Args:
        path: the file.
        data: its content.
        read_back: the reader of such files; if it refuses this one, nothing is written.

    Raises:
        RankloopError: the file cannot be written, or not be read back.
    """
    with replace_file(path, read_back=read_back) as file:
        file.write(data)
    return Path(path)


@contextmanager
def replace_file(path: str | os.PathLike[str], *, read_back: Reader | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` when the block ends without an error.

    Args:
        path: the file.
        read_back: the reader of such files; if it refuses this one, everything stays as it is.

    Raises:
        RankloopError: the file cannot be written, or not be read back.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "numbers"
        ...     with replace_file(path) as file:
        ...         _ = file.write(b"1 2 3")
        ...         path.exists()
        ...     path.read_bytes()
        False
        b'1 2 3'
    """
    target = Path(path)
    with _explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_file(target) as (temporary, file):
            yield file
            file.flush()
            os.fsync(file.fileno())
            _read_back(temporary, target, read_back)
            temporary.replace(target)
        _sync_folder(target.parent)


@contextmanager
def replace_folder(
    path: str | os.PathLike[str],
    *,
    check: Callable[[], object] | None = None,
    read_back: Reader | None = None,
) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``path`` when the block ends without an error.

    A folder that is there already is replaced, in one step where the system can (on Linux); elsewhere, a
    crash between two steps leaves no folder, and the next call restores the old one. A folder that nothing
    came of leaves no trace, not even of parents that were made for it.

    Args:
        path: the folder.
        check: called just before it is replaced, because its content may have changed meanwhile; an error
            leaves everything as it is.
        read_back: the reader of such folders; if it refuses this one, everything stays as it is.

    Raises:
        RankloopError: the folder cannot be written, or not be read back.
    """
    target = Path(path)
    above = target.absolute().parent
    made = [folder for folder in (above, *above.parents) if not folder.exists()]
    with _explained(target):
        try:
            above.mkdir(parents=True, exist_ok=True)
            # In the same parent: moving a folder is one step only within a file system.
            with temporary_folder(target.absolute()) as scratch:
                filled = scratch / FILLED
                filled.mkdir()
                yield filled
                for file in filled.rglob("*"):
                    if file.is_file():
                        _sync_file(file)
                _sync_folder(filled)
                _read_back(filled, target, read_back)
                if check is not None:
                    check()
                _move_into_place(filled, target.absolute(), scratch / REPLACED)
                _sync_folder(above)
        finally:
            if not target.exists():
                for folder in made:
                    with suppress(OSError):
                        folder.rmdir()


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


def _read_back(written: Path, target: Path, reader: Reader | None) -> None:
    if reader is None:
        return
    try:
        reader(written)
    except Exception as error:  # readers of other libraries raise anything
        reason = one_line(error).replace(str(written), target.name)
        raise RankloopError(
            f"{target} is not written, because it could not be read again: {reason}. Please report this "
            f"message: it is a defect of rankloop"
        ) from error


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RankloopError(f"{target} cannot be written: {error.strerror or error}") from error


def _move_into_place(filled: Path, target: Path, replaced: Path) -> None:
    # A folder that appears between these two lines is not replaced: only an empty one can be moved onto.
    if not target.exists():
        filled.rename(target)
    elif not _exchange(filled, target):
        target.rename(replaced)
        try:
            filled.rename(target)
        except OSError:
            replaced.rename(target)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if the system, or the file system, cannot."""
    call = _renameat2()
    return call is not None and (
        call(AT_WORKING_FOLDER, os.fsencode(one), AT_WORKING_FOLDER, os.fsencode(other), RENAME_EXCHANGE) == 0
    )


@cache
def _renameat2() -> Any:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "renameat2", None)


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # Some systems and file systems cannot sync folders; the file itself is safe and in place by now.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_folder(
    path: str | os.PathLike[str],
    files: Mapping[str, bytes],
    *,
    replaceable: Collection[str] = (),
    read_back: Reader | None = None,
) -> Path:
    """Write a folder of files so that no reader ever sees half of it.

    Args:
        path: the folder; its parents are created.
        files: the content of each file, by name.
        replaceable: names of files; an existing folder is replaced if it contains no others.
        read_back: the reader of such folders; if it refuses this one, nothing is written.

    Raises:
        RankloopError: the folder cannot be written or not be read back, or something else is in its place.
    """
    target = Path(path)

    def check() -> None:
        check_folder(target, replaceable=replaceable)

    check()
    with replace_folder(target, check=check, read_back=read_back) as folder:
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
