"""Load a ranking collection from its files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from rankloop.data import prepare
from rankloop.data.cache import remembered
from rankloop.data.layouts import find_files, sizes_file
from rankloop.data.svmlight import read_svmlight
from rankloop.errors import DataError
from rankloop.types import Dataset, Split


def load(
    path: str | os.PathLike[str],
    *,
    fold: int = 1,
    normalise: Literal["query"] | None = "query",
    drop_constant: bool = False,
    split: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
    cache: bool = True,
    name: str | None = None,
) -> Dataset:
    """Load a data set from a folder in one of the official layouts, or from one file.

    The supported layouts are MQ2007 and MQ2008, OHSUMED, MSLR-WEB10K and 30K, Yahoo! Webscope C14, Istella
    and the examples of LightGBM, plain or gzipped. A collection without its own splits is split by query.

    Args:
        path: the folder, the file, or the common prefix of the files (``ltrc_yahoo/set2``).
        fold: number of the fold, if the collection has folds.
        normalise: ``query`` scales every feature to [0, 1] within each query, as the paper does; None keeps
            the features unchanged.
        drop_constant: whether to drop features that are constant over the training split. Off by default,
            so that a model fits every data set of the same collection.
        split: shares of train, validation and test for a single file. If there is a test file but no
            validation file, the first two shares divide the training file.
        seed: random seed for splitting a file.
        cache: whether to cache the parsed files, see ``docs/data.md``.
        name: name of the data set; by default that of its folder.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for part in ("train", "vali", "test"):
        ...         text = "2 qid:1 1:30 2:1 # a" + chr(10) + "0 qid:1 1:10 2:5 # b" + chr(10)
        ...         _ = pathlib.Path(folder, part + ".txt").write_text(text)
        ...     data = load(folder, cache=False)
        >>> data.train.features.tolist(), data.train.doc_ids.tolist()
        ([[1.0, 0.0], [0.0, 1.0]], ['a', 'b'])

    Reference:
        Qin, Liu, Xu and Li, "LETOR: A benchmark collection for research on learning to rank for information
        retrieval", Information Retrieval 13, 2010.
    """
    if normalise not in ("query", None):
        raise DataError(f"normalise must be 'query' or None, got {normalise!r}")
    files = find_files(Path(path), fold)
    paths = [file for file in (files.train, files.validation, files.test) if file is not None]
    parts = tuple(load_split(file, cache=cache) for file in paths)
    rng = np.random.default_rng(seed)
    if files.test is None:
        parts = prepare.split_queries(parts[0], split, rng)
    elif files.validation is None:
        parts = (*prepare.split_queries(parts[0], split[:2], rng), parts[1])
    width = max(part.n_features for part in parts)
    train, validation, test = (_pad_features(part, width) for part in parts)
    if normalise == "query":
        # In place: the arrays were created here, and a second copy of a large matrix may not fit in memory.
        for part in (train, validation, test):
            prepare.min_max_into(part.features, part.offsets, out=part.features)
    dataset = Dataset(name or files.name, train, validation, test, normalise or "none")
    return prepare.drop_constant(dataset) if drop_constant else dataset


def load_split(path: str | os.PathLike[str], *, n_features: int | None = None, cache: bool = True) -> Split:
    """Load one file without scaling or dropping features.

    Args:
        path: SVMlight text, plain or gzipped, with query ids or with a ``.query`` file next to it.
        n_features: number of features of the collection, if this file does not contain the highest index.
        cache: whether to cache the parsed file.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "some.txt")
        ...     _ = file.write_text("1 qid:7 2:0.5 #docid = GX-1 inc = 1" + chr(10))
        ...     split = load_split(file, n_features=3, cache=False)
        >>> split.features.tolist(), split.query_ids.tolist(), split.doc_ids.tolist()
        ([[0.0, 0.5, 0.0]], ['7'], ['GX-1'])
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file} is not a file: expected SVMlight text, plain or gzipped")
    sizes = sizes_file(file)
    sources = [file] if sizes is None else [file, sizes]
    try:
        split = (
            remembered(sources, lambda: read_svmlight(file, sizes)) if cache else read_svmlight(file, sizes)
        )
    except OSError as error:
        raise DataError(f"{error.filename or file} cannot be read: {error.strerror or error}") from error
    if n_features is None:
        return split
    if n_features < split.n_features:
        raise DataError(f"{file}: feature index {split.n_features} occurs, expected at most {n_features}")
    return _pad_features(split, n_features)


def _pad_features(split: Split, n_features: int) -> Split:
    """Pad the features with zero columns: SVMlight files leave out zeros."""
    if n_features == split.n_features:
        return split
    features = np.zeros((split.n_docs, n_features), np.float32)
    features[:, : split.n_features] = split.features
    return replace(split, features=features)
