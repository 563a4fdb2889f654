"""Locks and temporary files, which end with the process that holds them, however it ends.

Locks are those of the operating system (``flock``) on open files. Where it has none, as on Windows or on some
network file systems, nothing is locked.

A process that is killed cannot remove its temporary files. It holds a lock on each of them, though, which
ends with it; so the next process that writes to the same place can tell what was left behind, and removes it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rankloop.errors import RankloopError
from rankloop.storage.fingerprints import fingerprint

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Whether processes can tell if another one is still using a file.
CAN_LOCK = fcntl is not None
LOCK_ENDING = ".rankloop-lock"
# A process number is written into the file, for messages.
NUMBER_BYTES = 20
# Characters of a folder's name; the lock of a folder with a longer one is named after its fingerprint.
LONGEST_NAME = 50
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
def hold_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes, and other threads of this one, from using the same folder in the same way.

    The lock is a file next to the folder, which may not exist yet, or may be replaced. It is removed at the
    end of the block; one that a killed process has left behind locks nothing.

    Raises:
        RankloopError: another process holds the folder, or the lock cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     with hold_folder(f"{name}/run"):
        ...         with hold_folder(f"{name}/run"):
        ...             pass
        Traceback (most recent call last):
            ...
        rankloop.errors.RankloopError: .../run is being written by process ...: wait until it has finished, or
        choose another folder
    """
    target = Path(folder).absolute()
    name = target.name if len(target.name) <= LONGEST_NAME else fingerprint(os.fsencode(target.name))
    lock = target.with_name(f".{name}{LOCK_ENDING}")
    made = [above for above in target.parents if not above.exists()]
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = _acquire(lock)
    except OSError as error:
        raise RankloopError(f"{folder} cannot be written: {error.strerror or error}") from error
    if handle is None:
        owner = _read_number(lock)
        raise RankloopError(
            f"{folder} is being written by {f'process {owner}' if owner else 'another process'}: wait until "
            f"it has finished, or choose another folder"
        )
    try:
        yield
    finally:
        # In this order: whoever acquires the lock after it was removed notices that, and makes a new one.
        with suppress(OSError):
            lock.unlink()
        os.close(handle)
        for above in made:
            with suppress(OSError):
                above.rmdir()


def try_lock(handle: int) -> bool:
    """Lock an open file or folder if nobody else has; False if somebody has.

    Raises:
        OSError: the file system has no locks.
    """
    if not CAN_LOCK:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def wait_for_lock(handle: int) -> None:
    """Lock an open file or folder as soon as nobody else has."""
    if CAN_LOCK:
        fcntl.flock(handle, fcntl.LOCK_EX)


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file or folder is the one that is at a path now."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False


def _acquire(lock: Path) -> int | None:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(OSError):  # the file system has no locks
            if not try_lock(handle):
                os.close(handle)
                return None
        if is_at(handle, lock):
            os.truncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            return handle
        # The process that held it has removed it meanwhile.
        os.close(handle)


def _read_number(lock: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(lock.read_bytes()[:NUMBER_BYTES])
    return None


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
