"""The file layouts of the official distributions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import DataError

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
