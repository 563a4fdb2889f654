"""Files and folders that appear as a whole or not at all.

Content is written next to its final place and moved there when it is complete. Readers see what was there
before or what is there afterwards, never a part of it; and a crash, of the program or of the machine, leaves
one of the two.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rankloop.errors import RankloopError

# How much of the target's name a temporary name repeats: file systems take names of up to 255 bytes, and a
# character has at most four.
NAME_CHARACTERS = 50


def write_whole(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file; no reader ever sees half of it, and a failure leaves what was there before.

    Raises:
        RankloopError: the file cannot be written.
    """
    with replace_file(path) as file:
        file.write(data)
    return Path(path)


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` when the block ends without an error.

    Raises:
        RankloopError: the file cannot be written.

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
        temporary = _beside(target)
        try:
            # "x" makes a file with the permissions of any other; tempfile's are private.
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)


@contextmanager
def replace_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``path`` when the block ends without an error.

    A folder that is there already is replaced; one that nothing came of leaves no trace, not even of parents
    that were made for it.

    Raises:
        RankloopError: the folder cannot be written.
    """
    target = Path(path)
    above = target.absolute().parent
    made = [folder for folder in (above, *above.parents) if not folder.exists()]
    # In the same parent: moving a folder is one step only within a file system.
    scratch = _beside(target.absolute())
    with _explained(target):
        try:
            above.mkdir(parents=True, exist_ok=True)
            scratch.mkdir(mode=0o700)
            filled, replaced = scratch / "filled", scratch / "replaced"
            filled.mkdir()
            yield filled
            for file in filled.rglob("*"):
                if file.is_file():
                    _sync_file(file)
            _sync_folder(filled)
            _exchange(filled, target, replaced)
            _sync_folder(above)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
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


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RankloopError(f"{target} cannot be written: {error.strerror or error}") from error


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:NAME_CHARACTERS]}.{secrets.token_hex(8)}")


def _exchange(filled: Path, target: Path, replaced: Path) -> None:
    if target.exists():
        target.rename(replaced)
    try:
        filled.rename(target)
    except OSError:
        if replaced.exists():
            replaced.rename(target)
        raise


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
