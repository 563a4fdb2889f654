"""Folders are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.storage import files
from rankloop.storage.files import check_folder, write_folder


def test_a_folder_is_written_and_replaced(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "new" / "folder", {"a": b"1", "b": b"2"})
    assert {child.name: child.read_bytes() for child in path.iterdir()} == {"a": b"1", "b": b"2"}
    write_folder(path, {"a": b"3"}, replaceable=("a", "b"))
    assert {child.name: child.read_bytes() for child in path.iterdir()} == {"a": b"3"}
    assert [child.name for child in path.parent.iterdir()] == ["folder"]


def test_other_files_are_never_replaced(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "folder", {"a": b"1"})
    for refuse in (write_folder, lambda target, _files: check_folder(target)):
        with pytest.raises(RankloopError, match="with other files"):
            refuse(path, {"b": b"2"})
        with pytest.raises(RankloopError, match="it is a file"):
            refuse(path / "a", {"b": b"2"})
        with pytest.raises(RankloopError, match="cannot be written"):
            refuse(path / "a" / "below", {"b": b"2"})
    assert [child.name for child in tmp_path.iterdir()] == ["folder"]
    assert (path / "a").read_bytes() == b"1"


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_folder(tmp_path / "folder", {"a": b"1"})

    def fail(_path: Path, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.Path, "write_bytes", fail)
    with pytest.raises(RankloopError, match="cannot be written: No space left"):
        write_folder(path, {"a": b"2"}, replaceable=("a",))
    assert (path / "a").read_bytes() == b"1"
    assert [child.name for child in tmp_path.iterdir()] == ["folder"]
