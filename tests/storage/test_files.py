"""Files and folders: whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.storage import files
from rankloop.storage.files import check_writable, replace_file, replace_folder, write_whole

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


def test_a_file_is_as_readable_as_others(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    written = write_whole(tmp_path / "written", b"content")
    assert written.stat().st_mode == plain.stat().st_mode
    assert written.read_bytes() == b"content"


@pytest.mark.parametrize(("owner", "name"), [(Path, "replace"), (os, "fsync")], ids=["renamed", "synced"])
def test_a_disk_that_is_full_when_a_file_is_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    path = write_whole(tmp_path / "file", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner, name, full)
    with pytest.raises(RankloopError, match="file cannot be written: No space left on device"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    for refuse in (check_writable, lambda path: write_whole(path, b"")):
        with pytest.raises(RankloopError, match=r"cannot be written: .*(folder|directory)"):
            refuse(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for refuse in (check_writable, lambda path: write_whole(path, b"")):
        with pytest.raises(RankloopError, match="cannot be written"):
            refuse(tmp_path / "file" / "model")


def test_checking_a_writable_place_prints_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_writable(tmp_path / "not" / "yet" / "there")
    monkeypatch.chdir(tmp_path)
    check_writable("model")
    assert list(tmp_path.iterdir()) == []


@as_root
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RankloopError, match="not a folder that may be written to"):
            check_writable(tmp_path / "model")
    finally:
        tmp_path.chmod(0o700)


def test_an_error_while_a_file_is_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "file", b"old")

    def break_off() -> None:
        with replace_file(path) as file:
            file.write(b"half of the n")
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content, then name, then the folder's entry: a power cut in between leaves one whole file."""
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        steps.append("folder" if Path(f"/proc/self/fd/{handle}").resolve().is_dir() else "content")
        sync(handle)

    def noted_replace(self: Path, target: Path) -> Path:
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    write_whole(tmp_path / "file", b"content")
    if Path("/proc/self/fd").exists():
        assert steps == ["content", "name", "folder"]
    else:
        assert len(steps) == 3


def test_a_name_as_long_as_file_systems_allow(tmp_path: Path) -> None:
    assert write_whole(tmp_path / ("é" * 127), b"content").read_bytes() == b"content"


def fill(folder: Path, *names: str) -> None:
    with replace_folder(folder) as scratch:
        for name in names:
            (scratch / name).write_text(name)


def names_in(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    with replace_folder(target) as scratch:
        (scratch / "a").write_text("a")
        assert not target.exists()
    assert names_in(target) == ["a"]
    assert names_in(target.parent) == ["folder"]


def test_a_folder_replaces_the_one_before(tmp_path: Path) -> None:
    fill(tmp_path / "folder", "a", "b")
    fill(tmp_path / "folder", "c")
    assert names_in(tmp_path / "folder") == ["c"]
    assert names_in(tmp_path) == ["folder"]


def test_a_folder_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(KeyError), replace_folder(tmp_path / "made" / "for" / "it"):
        raise KeyError
    assert names_in(tmp_path) == []


def test_a_folder_that_fails_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "folder"
    fill(target, "a")
    rename = Path.rename

    def refuse(self: Path, to: Path) -> Path:
        if self.name == "filled":
            raise OSError(5, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(RankloopError, match="folder cannot be written: Input/output error"):
        fill(target, "b")
    assert names_in(target) == ["a"]
    assert names_in(tmp_path) == ["folder"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need two steps")
def test_a_folder_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: a kill between two renames left no folder at all."""
    fill(tmp_path / "folder", "a")

    def refuse(*_: object) -> Path:
        raise AssertionError("a second step")

    monkeypatch.setattr(Path, "rename", refuse)
    fill(tmp_path / "folder", "b")
    assert names_in(tmp_path / "folder") == ["b"]
    assert names_in(tmp_path) == ["folder"]


def test_a_folder_is_checked_again_before_it_is_replaced(tmp_path: Path) -> None:
    def check() -> None:
        if (tmp_path / "folder").exists():
            raise RankloopError("something is there by now")

    def fill_slowly() -> None:
        with replace_folder(tmp_path / "folder", check=check):
            fill(tmp_path / "folder", "other")

    with pytest.raises(RankloopError, match="by now"):
        fill_slowly()
    assert names_in(tmp_path / "folder") == ["other"]


def test_a_folder_that_appears_at_the_last_moment_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "folder", "other")
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: self.name != "folder" and exists(self))
    with pytest.raises(RankloopError, match="folder cannot be written: Directory not empty"):
        fill(tmp_path / "folder", "new")
    assert names_in(tmp_path / "folder") == ["other"]


def test_a_folder_is_as_readable_as_others(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    fill(tmp_path / "filled")
    assert (tmp_path / "filled").stat().st_mode == (tmp_path / "plain").stat().st_mode
