"""Get a data set by name: a path, or ``synthetic`` with options."""

from __future__ import annotations

from pathlib import Path

from rankloop import names
from rankloop.data.letor import load
from rankloop.data.synthetic import SHAPES, synthetic
from rankloop.errors import DataError
from rankloop.types import Dataset

SYNTHETIC = "synthetic"
_OPTIONS = {
    "shape": names.one_of(*SHAPES),
    "queries": names.integer,
    "features": names.integer,
    "seed": names.integer,
}


def dataset(text: str, *, fold: int = 1) -> Dataset:
    """Load or generate the data set with this path or name.

    Args:
        text: the path of a file or a folder (see `load`), or ``synthetic``, optionally with any of its
            options: ``synthetic(shape=yahoo, queries=2000, features=100, seed=0)``.
        fold: number of the fold, if the folder has several.

    Example:
        >>> dataset("synthetic(queries=30, features=5)").train.n_features
        5
    """
    if Path(text).exists() or not text.startswith(SYNTHETIC):
        try:
            return load(text, fold=fold)
        except DataError as error:
            if Path(text).exists():
                raise
            hint = f"; for generated data use {SYNTHETIC} or '{SYNTHETIC}(shape=yahoo, queries=2000)'"
            raise DataError(f"{error}{hint}") from error
    name = names.parse_without_cutoff(text, {SYNTHETIC}, kind="data set")
    if fold != 1:
        raise DataError(f"generated data has no folds, but fold {fold} was requested")
    return synthetic(**names.arguments(name, _OPTIONS))
