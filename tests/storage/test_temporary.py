"""What killed processes leave behind is removed, and what others use is not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rankloop.storage import locks
from rankloop.storage.files import write_whole
from rankloop.storage.locks import scratch_folder, sweep, temporary_file, temporary_folder
from tests.storage.killed import run_until_killed

pytestmark = pytest.mark.skipif(not locks.CAN_LOCK, reason="this system has no locks")

IN_THE_MIDDLE = """
import sys, time
from pathlib import Path
from rankloop.storage.files import replace_file, replace_folder
from rankloop.storage.locks import scratch_folder
folder = Path(sys.argv[1])
with replace_file(folder / "file") as file, replace_folder(folder / "folder") as filled:
    file.write(b"half")
    (filled / "half").touch()
    with scratch_folder():
        print("here", flush=True)
        time.sleep(60)
"""


def names_in(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def test_what_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: every kill left a temporary file or folder behind, for ever."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run_until_killed(IN_THE_MIDDLE, tmp_path)
    assert len(names_in(tmp_path)) == 3
    sweep(tmp_path)
    assert names_in(tmp_path) == []


def test_the_first_write_to_a_folder_removes_it(tmp_path: Path) -> None:
    run_until_killed(IN_THE_MIDDLE, tmp_path)
    write_whole(tmp_path / "file", b"whole")
    assert names_in(tmp_path) == ["file"]


def test_what_is_in_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        temporary_file(tmp_path / "a") as (path, _),
        temporary_folder(tmp_path / "b") as folder,
        scratch_folder() as scratch,
    ):
        sweep(tmp_path)
        assert path.exists()
        assert folder.exists()
        assert scratch.exists()
    assert names_in(tmp_path) == []


def test_other_files_stay(tmp_path: Path) -> None:
    others = [".a.0123456789abcdef", "b.0123456789abcdef.rankloop-tmp", ".c.rankloop-tmp", ".d.rankloop-lock"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".e.0123456789abcdef.rankloop-tmp").symlink_to(tmp_path)
    sweep(tmp_path)
    assert names_in(tmp_path) == sorted([*others, ".e.0123456789abcdef.rankloop-tmp"])


@pytest.mark.parametrize("is_in_place", [False, True])
def test_a_folder_that_was_moved_away_comes_back(tmp_path: Path, *, is_in_place: bool) -> None:
    """Before: a kill between two renames left no folder at all."""
    scratch = tmp_path / ".log.0123456789abcdef.rankloop-tmp"
    (scratch / "replaced").mkdir(parents=True)
    (scratch / "replaced" / "old").touch()
    if is_in_place:
        (tmp_path / "log").mkdir()
        (tmp_path / "log" / "new").touch()
    sweep(tmp_path)
    assert names_in(tmp_path) == ["log"]
    assert names_in(tmp_path / "log") == ["new" if is_in_place else "old"]
