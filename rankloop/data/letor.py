"""Load a ranking collection from its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.data import prepare
from rankloop.data.svmlight import read_svmlight
from rankloop.errors import DataError, RankloopError
from rankloop.storage.files import replace_file
from rankloop.storage.tensor_file import TensorFormat
from rankloop.types import Dataset, Split, Str

FOLDER_VARIABLE = "RANKLOOP_CACHE"
# Part of every key: raise it when the parser starts to read a file differently.
PARSER_VERSION = 1
FORMAT = TensorFormat(
    name="rankloop-split",
    version="1",
    noun="cache entry",
    error=DataError,
    foreign="this is not a cache entry",
    renewal="parse the file again",
)
KIND = "split"


def cache_folder() -> Path:
    """``RANKLOOP_CACHE``, or ``rankloop`` in ``XDG_CACHE_HOME``, or ``~/.cache/rankloop``."""
    if own := os.environ.get(FOLDER_VARIABLE):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "rankloop"


def remembered(sources: Sequence[Path], parse: Callable[[], Split]) -> Split:
    """Parse the source files, or read the result from the cache if they were parsed before.

    A damaged entry is parsed and written again; if the folder cannot be written to, files are parsed every
    time.
    """
    try:
        entry = cache_folder() / f"{_key(sources)}.safetensors"
    except RuntimeError:  # there is no home folder, as in a container without users
        return parse()
    # Whatever an entry that is missing, damaged or foreign makes the reader do, the file is parsed.
    with suppress(OSError, DataError, KeyError, TypeError, ValueError):
        return _read(entry)
    split = parse()
    with suppress(RankloopError):
        _write(entry, split)
    return split


def _key(sources: Sequence[Path]) -> str:
    key = hashlib.sha256(f"rankloop parser {PARSER_VERSION}".encode())
    for source in sources:
        with source.open("rb") as file:
            key.update(hashlib.file_digest(file, "sha256").digest())
    return key.hexdigest()


def _write(entry: Path, split: Split) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "features": split.features,
        "labels": split.labels,
        "offsets": split.offsets,
        "query_ids": _to_codes(split.query_ids),
    }
    if split.doc_ids is not None:
        arrays["doc_ids"] = _to_codes(split.doc_ids)
    with replace_file(entry, read_back=FORMAT.verify) as file:
        FORMAT.write(file, KIND, {}, arrays)


def _read(entry: Path) -> Split:
    with entry.open("rb") as file:
        arrays = FORMAT.read(file).tensors
    doc_ids = arrays.pop("doc_ids", None)
    return Split(
        features=arrays["features"],
        labels=arrays["labels"],
        offsets=arrays["offsets"],
        query_ids=_from_codes(arrays["query_ids"]),
        doc_ids=None if doc_ids is None else _from_codes(doc_ids),
    )


def _to_codes(ids: Str) -> NDArray[np.uint32]:
    """Strings as NumPy holds them, one row of code points each: the container holds numbers only."""
    return np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)


def _from_codes(codes: NDArray[Any]) -> Str:
    return codes.view(f"=U{codes.shape[1]}").reshape(len(codes))


# MQ2007/2008, MSLR-WEB and Istella: train.txt, vali.txt, test.txt. OHSUMED: trainingset.txt, …
# Yahoo C14: set1.train.txt, set1.valid.txt, …; LightGBM's examples: rank.train, rank.test.
PREFIXES = ("", "set1.", "set2.", "rank.")
TRAIN = ("train", "trainingset")
VALIDATION = ("vali", "valid", "validation", "validationset")
TEST = ("test", "testset")
ENDINGS = (".txt", "", ".txt.gz", ".gz")
# Folders that may contain the folds. If OHSUMED is present in both versions, the normalised one is read.
SUBFOLDERS = ("QueryLevelNorm", "Feature-min", "OHSUMED", "Data")
SIZES_ENDING = ".query"


@dataclass(frozen=True)
class DatasetFiles:
    """The files of one data set; if there is only one, it is ``train``."""

    name: str
    train: Path
    validation: Path | None = None
    test: Path | None = None


def find_files(path: Path, fold: int) -> DatasetFiles:
    """Find the files of the data set at a path: a file, a folder in an official layout, or a common prefix.

    A prefix selects one of several sets in a folder, such as ``ltrc_yahoo/set2`` for Yahoo's second set.
    """
    if path.is_file():
        return DatasetFiles(path.name.split(".")[0] or path.name, path)
    if not path.is_dir():
        files = _with_prefix(path.parent, f"{path.name}.") if path.name else None
        if files is None:
            raise DataError(f"{path} does not exist: expected a file or the folder of a data set")
        return files
    return _in_folder(path, fold, _folder_name(path.resolve()))


def _folder_name(folder: Path) -> str:
    """Name a data set after its folder; a fold is named after its collection too."""
    is_fold = folder.name.lower().startswith("fold")
    return f"{folder.parent.name}-{folder.name.lower()}" if is_fold else folder.name


def _in_folder(folder: Path, fold: int, name: str) -> DatasetFiles:
    for prefix in PREFIXES:
        files = _with_prefix(folder, prefix, name)
        if files is not None:
            return files
    children = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    folders = [child for child in children if child.is_dir()]
    folds = [child for child in folders if child.name.lower().startswith("fold")]
    if folds:
        wanted = [child for child in folds if child.name.lower() == f"fold{fold}"]
        if not wanted:
            raise DataError(f"{folder} has no Fold{fold}: expected one of {[child.name for child in folds]}")
        return _in_folder(wanted[0], fold, f"{name}-fold{fold}")
    for subfolder in SUBFOLDERS:
        if folder / subfolder in folders:
            return _in_folder(folder / subfolder, fold, name)
    data = [child for child in children if child.is_file() and _is_data(child)]
    if len(data) == 1 and not folders:
        return DatasetFiles(name, data[0])
    if len(folders) == 1 and not data:
        return _in_folder(folders[0], fold, name)
    raise DataError(
        f"{folder} does not have the layout of a data set: expected train.txt, vali.txt and test.txt, "
        f"folders Fold1 to Fold5, Yahoo's set1.train.txt, LightGBM's rank.train, or a single file; "
        f"found {[child.name for child in children][:10]}"
    )


def _with_prefix(folder: Path, prefix: str, name: str | None = None) -> DatasetFiles | None:
    train = _first_file(folder, prefix, TRAIN)
    if train is None:
        return None
    test = _first_file(folder, prefix, TEST)
    if test is None:
        raise DataError(
            f"{train} has no test file next to it: expected one of "
            f"{[f'{prefix}{part}.txt' for part in TEST]}; to split the one file, load the file itself"
        )
    fallback = f"{folder.resolve().name}-{prefix.rstrip('.')}"
    return DatasetFiles(name or fallback, train, _first_file(folder, prefix, VALIDATION), test)


def _first_file(folder: Path, prefix: str, parts: tuple[str, ...]) -> Path | None:
    candidates = (folder / f"{prefix}{part}{ending}" for part in parts for ending in ENDINGS)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _is_data(file: Path) -> bool:
    name = file.name.lower().removesuffix(".gz")
    return not name.startswith("readme") and not name.endswith((SIZES_ENDING, ".md", ".pdf", ".html"))


def sizes_file(path: Path) -> Path | None:
    """Find the file of query sizes that LightGBM expects next to a data file; None if there is none."""
    stem = path.name.removesuffix(".gz")
    candidates = (path.with_name(f"{stem}{SIZES_ENDING}{ending}") for ending in ("", ".gz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


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
    features = np.zeros((split.n_documents, n_features), np.float32)
    features[:, : split.n_features] = split.features
    return replace(split, features=features)
