"""Models in files: written atomically, and refused if damaged."""

from __future__ import annotations

import os
from pathlib import Path

from rankloop.errors import ModelFileError
from rankloop.exchange import any_model
from rankloop.models.storage import model_to_bytes
from rankloop.storage.files import write_whole
from rankloop.types import Model


def save(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a model to a file, atomically; `load` reads it back.

    Raises:
        RankloopError: the file cannot be written, or `load` could not read it.
    """
    return write_whole(path, model_to_bytes(model), read_back=load)


def load(path: str | os.PathLike[str]) -> Model:
    """The model that `save` wrote, or that another program did: LightGBM, XGBoost, ONNX, or an exported file.

    Raises:
        ModelFileError: there is no such file, or it is damaged or not a model file.
    """
    if (Path(path) / "fit.json").is_file():
        raise ModelFileError(f"{path}: this is the folder of a fit: rankloop.load_fit reads it")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot read the model: {error.strerror or error}") from error
    try:
        return any_model(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
