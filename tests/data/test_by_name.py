"""Data sets by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.data import dataset, load, synthetic
from rankloop.errors import DataError
from rankloop.names import BadNameError

LINES = "".join(f"{n % 3} qid:{n // 4} 1:{n} 2:{n % 5}\n" for n in range(40))


def test_a_name_is_equivalent_to_the_function_call() -> None:
    named = dataset("synthetic(shape=mslr, queries=20, features=6, noise=2, seed=3)")
    made = synthetic("mslr", queries=20, features=6, noise=2, seed=3)
    assert named.name == made.name
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(named, part).features, getattr(made, part).features)
        np.testing.assert_array_equal(getattr(named, part).labels, getattr(made, part).labels)


def test_a_path_loads_the_file(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text(LINES)
    named, loaded = dataset(str(file)), load(file)
    np.testing.assert_array_equal(named.train.features, loaded.train.features)
    assert named.train.query_ids.tolist() == loaded.train.query_ids.tolist()


def test_a_file_may_be_named_synthetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("synthetic").write_text(LINES)
    assert dataset("synthetic").n_features == 2


def test_folds_are_passed_on(tmp_path: Path) -> None:
    for fold in (1, 2):
        folder = tmp_path / f"Fold{fold}"
        folder.mkdir()
        for part in ("train", "vali", "test"):
            (folder / f"{part}.txt").write_text(LINES.replace("qid:", f"qid:{fold}"))
    assert dataset(str(tmp_path), fold=2).train.query_ids[0] == "20"
    with pytest.raises(DataError, match="has no Fold3: expected one of") as caught:
        dataset(str(tmp_path), fold=3)
    assert "generated data" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere", "nowhere does not exist.*; for generated data use synthetic or 'synthetic"),
        ("synthetic(queris=9)", "unknown option of 'synthetic' 'queris', did you mean 'queries'"),
        ("synthetic(shape=yaho)", "unknown value 'yaho', did you mean 'yahoo'"),
        ("synthetic(queries=many)", "expected a whole number, got 'many'"),
        ("synthetics", "unknown data set 'synthetics', did you mean 'synthetic'"),
        ("synthetic(queries=9", "cannot read"),
        ("synthetic@5", "'synthetic' takes no cut-off"),
    ],
)
def test_unknown_names_are_rejected(text: str, message: str) -> None:
    with pytest.raises((DataError, BadNameError), match=message):
        dataset(text)


def test_a_fold_of_generated_data_is_rejected() -> None:
    with pytest.raises(DataError, match="generated data has no folds"):
        dataset("synthetic(queries=30, features=5)", fold=2)
