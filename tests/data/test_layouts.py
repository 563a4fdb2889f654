from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from rankloop.data import load
from rankloop.errors import DataError

Write = Callable[[str, str], Path]


def document(label: int, width: int = 2) -> str:
    """One line; the label says which file it came from."""
    return f"{label} qid:1 {width}:1\n"


LAYOUTS = {
    "MQ2008": ["MQ2008/Fold{fold}/train.txt", "MQ2008/Fold{fold}/vali.txt", "MQ2008/Fold{fold}/test.txt"],
    "MSLR-WEB10K": ["MSLR/Fold{fold}/train.txt", "MSLR/Fold{fold}/vali.txt", "MSLR/Fold{fold}/test.txt"],
    "OHSUMED": [
        f"OHSUMED/Feature-min/Fold{{fold}}/{part}set.txt" for part in ("training", "validation", "test")
    ],
    "OHSUMED, LETOR 4 names": [
        f"OHSUMED/QueryLevelNorm/Fold{{fold}}/{part}.txt" for part in ("train", "vali", "test")
    ],
    "Yahoo": [f"ltrc_yahoo/set1.{part}.txt" for part in ("train", "valid", "test")],
    "Yahoo's second set": [f"set2.{part}.txt" for part in ("train", "valid", "test")],
    "Istella": ["sample/train.txt", "sample/vali.txt", "sample/test.txt"],
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_official_layouts(write: Write, tmp_path: Path, layout: str, zipped: bool) -> None:
    names = LAYOUTS[layout]
    for fold in range(1, 6):
        for part, name in enumerate(names):
            text = document(10 * fold * ("{fold}" in name) + part)
            path = write(name.format(fold=fold) + ".gz" * zipped, text)
            if zipped:
                path.write_bytes(gzip.compress(text.encode()))
    data = load(tmp_path, fold=3)
    tens = 30 if "{fold}" in names[0] else 0
    splits = (data.train, data.validation, data.test)
    assert [split.labels.tolist() for split in splits] == [[tens], [tens + 1], [tens + 2]]


def test_yahoo_by_prefix(write: Write, tmp_path: Path) -> None:
    for number in (1, 2):
        for i, part in enumerate(("train", "valid", "test")):
            write(f"yahoo/set{number}.{part}.txt", document(10 * number + i))
    assert load(tmp_path / "yahoo").train.labels.tolist() == [10]
    second = load(tmp_path / "yahoo" / "set2")
    assert (second.name, second.train.labels.tolist(), second.test.labels.tolist()) == (
        "yahoo-set2",
        [20],
        [22],
    )


def test_lightgbm_example_has_no_validation(write: Write, tmp_path: Path) -> None:
    write("rank.train", "".join(f"{i} 1:{i}\n" for i in range(8)))
    write("rank.train.query", "2\n" * 4)
    write("rank.test", "0 3:1\n1 1:1\n")
    write("rank.test.query", "2\n")
    data = load(tmp_path)
    assert (data.train.n_queries, data.validation.n_queries, data.test.n_queries) == (3, 1, 1)
    assert sorted([*data.train.labels, *data.validation.labels]) == list(range(8))
    assert data.n_features == 3


def test_a_fold_folder_itself(write: Write, tmp_path: Path) -> None:
    for part in ("train", "vali", "test"):
        write(f"MQ2008/Fold2/{part}.txt", document(1))
    assert load(tmp_path / "MQ2008" / "Fold2").name == "MQ2008-fold2"
    assert load(tmp_path / "MQ2008", fold=2).name == "MQ2008-fold2"
    assert load(tmp_path / "MQ2008", fold=2, name="mine").name == "mine"
    with pytest.raises(DataError, match=r"has no Fold1: expected one of \['Fold2'\]"):
        load(tmp_path / "MQ2008")


def test_one_file_in_a_folder(write: Write, tmp_path: Path) -> None:
    write("README.md", "read me")
    write("all.txt", "".join(f"0 qid:{q} 1:1\n" for q in range(5)))
    data = load(tmp_path)
    assert (data.train.n_queries, data.validation.n_queries, data.test.n_queries) == (3, 1, 1)


def test_folders_without_a_data_set(write: Write, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="does not have the layout of a data set"):
        load(tmp_path)
    write("train.txt", document(1))
    with pytest.raises(DataError, match=r"train\.txt has no test file next to it"):
        load(tmp_path)
