"""One process per folder, and no lock that outlives its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.storage import locks
from rankloop.storage.locks import hold_folder, is_at
from tests.storage.killed import run_until_killed

pytestmark = pytest.mark.skipif(not locks.CAN_LOCK, reason="this system has no locks")

HOLD = """
import sys, time
from rankloop.storage.locks import hold_folder
with hold_folder(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_held_once(tmp_path: Path) -> None:
    with hold_folder(tmp_path / "run"):
        with pytest.raises(RankloopError, match=rf"run is being written by process {os.getpid()}: wait"):
            hold_folder(tmp_path / "run").__enter__()
        with hold_folder(tmp_path / "other"):
            pass
    with hold_folder(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    run_until_killed(HOLD, tmp_path / "run")
    assert len(list(tmp_path.iterdir())) == 1
    with hold_folder(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_parents_are_made_and_removed_again(tmp_path: Path) -> None:
    with hold_folder(tmp_path / "a" / "b" / "run"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RankloopError, match="cannot be written"):
        hold_folder(tmp_path / "file" / "run").__enter__()


def test_a_lock_that_was_removed_meanwhile_is_not_taken(tmp_path: Path) -> None:
    """Whoever opened the lock before its holder removed it would hold a file that nobody else can see."""
    path = tmp_path / "lock"
    handle = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        assert is_at(handle, path)
        path.unlink()
        assert not is_at(handle, path)
        path.touch()
        assert not is_at(handle, path)
    finally:
        os.close(handle)


def test_without_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "CAN_LOCK", False)
    with hold_folder(tmp_path / "run"), hold_folder(tmp_path / "run"):
        pass
