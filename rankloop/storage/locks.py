"""Locks between processes, which end with the process that holds them, however it ends.

They are locks of the operating system (``flock``) on open files. Where it has none, as on Windows or on some
network file systems, nothing is locked.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
