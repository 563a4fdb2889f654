"""Models in files: they come back as they were, and damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import ModelFileError
from rankloop.model_files import load, save
from rankloop.models import MLP
from rankloop.types import Model


@pytest.fixture
def model() -> Model:
    return MLP.initialise(3, np.random.default_rng(0), hidden=(2,))


def test_a_model_comes_back_as_it_went(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "model.rankloop"
    assert save(model, str(path)) == path
    assert path.read_bytes() == model.to_bytes()
    again = load(path)
    assert (again.kind, again.fingerprint) == (model.kind, model.fingerprint)
    assert [file.name for file in path.parent.iterdir()] == ["model.rankloop"]


def test_no_file_or_no_model_says_which_file(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="nowhere: cannot read the model: No such file"):
        load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="cannot read the model: Is a directory"):
        load(tmp_path)
    path = tmp_path / "model"
    for content, message in [
        (b"", "not a model file of rankloop"),
        (b"ten bytes of something else", "not a model file of rankloop"),
        (model.to_bytes()[:-1], "the model file is damaged"),
        (b"tree\nversion=v4\n", "the line that ends a stored model"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=f"^{path}: .*{message}"):
            load(path)
