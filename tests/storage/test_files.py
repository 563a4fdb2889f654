"""Models on disk: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import ModelFileError, RankloopError
from rankloop.models import MLP
from rankloop.storage import files
from rankloop.types import Model

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


@pytest.fixture
def model() -> Model:
    return MLP.initialise(3, np.random.default_rng(0), hidden=(2,))


def test_a_model_comes_back_as_it_went(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "model.rankloop"
    assert files.save(model, str(path)) == path
    assert path.read_bytes() == model.to_bytes()
    again = files.load(path)
    assert (again.kind, again.fingerprint) == (model.kind, model.fingerprint)
    assert [file.name for file in path.parent.iterdir()] == ["model.rankloop"]


def test_a_file_is_as_readable_as_others(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    written = files.write_whole(tmp_path / "written", b"content")
    assert written.stat().st_mode == plain.stat().st_mode
    assert written.read_bytes() == b"content"


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files.write_whole(tmp_path / "file", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RankloopError, match="file cannot be written: No space left on device"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for refuse in (files.check_writable, lambda path: files.write_whole(path, b"")):
        with pytest.raises(RankloopError, match=r"cannot be written: .*(folder|directory)"):
            refuse(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for refuse in (files.check_writable, lambda path: files.write_whole(path, b"")):
        with pytest.raises(RankloopError, match="cannot be written"):
            refuse(tmp_path / "file" / "model")


def test_where_a_file_can_be_written_nothing_is_said_or_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.check_writable(tmp_path / "not" / "yet" / "there")
    monkeypatch.chdir(tmp_path)
    files.check_writable("model")
    assert list(tmp_path.iterdir()) == []


@as_root
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(RankloopError, match="not a folder that may be written to"):
            files.check_writable(tmp_path / "model")
    finally:
        tmp_path.chmod(0o700)


def test_no_file_or_no_model_says_which_file(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="nowhere: cannot read the model: No such file"):
        files.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot read the model: Is a directory"):
        files.load(tmp_path)
    path = tmp_path / "model"
    for content, message in [
        (b"", "not a model file of rankloop"),
        (b"ten bytes of something else", "not a model file of rankloop"),
        (model.to_bytes()[:-1], "the model file is damaged"),
        (b"tree\nversion=v4\n", "the line that ends a stored model"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=f"^{path}: .*{message}"):
            files.load(path)
