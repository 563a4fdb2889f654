from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rankloop.data import load
from rankloop.errors import DataError

Write = Callable[[str, str], Path]


@pytest.fixture
def folder(write: Write, tmp_path: Path) -> Path:
    write("train.txt", "2 qid:1 1:10 2:7\n0 qid:1 1:30 2:7\n1 qid:1 1:20 2:7\n")
    write("vali.txt", "0 qid:2 1:5\n1 qid:2 4:2\n")
    write("test.txt", "0 qid:3 3:5\n1 qid:3\n")
    return tmp_path


def test_files_are_padded_to_one_width(folder: Path) -> None:
    data = load(folder, normalise=None)
    assert data.train.features.tolist() == [[10, 7, 0, 0], [30, 7, 0, 0], [20, 7, 0, 0]]
    assert data.validation.features.tolist() == [[5, 0, 0, 0], [0, 0, 0, 2]]
    assert data.test.features.tolist() == [[0, 0, 5, 0], [0, 0, 0, 0]]


def test_features_are_scaled_within_queries_by_default(folder: Path) -> None:
    for _ in range(2):  # parsed, then from the cache: scaling must not change the stored values
        data = load(folder)
        assert data.train.features.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0.5, 0, 0, 0]]
        assert data.validation.features.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_constant_features_are_dropped_on_request(folder: Path) -> None:
    data = load(folder, drop_constant=True)
    assert data.train.features.tolist() == [[0], [1], [0.5]]
    assert data.test.features.tolist() == [[0], [0]]


def test_a_file_is_split_by_query_and_nothing_is_lost(write: Write) -> None:
    path = write("some.svm", "".join(f"{q % 3} qid:{q} 1:{q}\n0 qid:{q} 1:1\n" for q in range(20)))
    data = load(path, split=(0.5, 0.25, 0.25), seed=3, normalise=None)
    parts = (data.train, data.validation, data.test)
    assert [part.n_queries for part in parts] == [10, 5, 5]
    assert sorted(int(q) for part in parts for q in part.query_ids) == list(range(20))
    for part in parts:
        assert part.features[::2, 0].tolist() == [float(q) for q in part.query_ids]
    again = load(path, split=(0.5, 0.25, 0.25), seed=3)
    assert again.test.query_ids.tolist() == data.test.query_ids.tolist()
    # The probability of the same split by chance is one in 20!/(10! 5! 5!), about 1e-9.
    other = load(path, split=(0.5, 0.25, 0.25), seed=4)
    assert other.test.query_ids.tolist() != data.test.query_ids.tolist()


def test_too_few_queries_to_split(write: Write) -> None:
    with pytest.raises(DataError, match="2 queries cannot be split into 3 parts"):
        load(write("a.txt", "0 qid:1 1:1\n0 qid:2 1:1\n"))


def test_an_unknown_normalisation(folder: Path) -> None:
    with pytest.raises(DataError, match="normalise must be 'query' or None"):
        load(folder, normalise="global")  # type: ignore[arg-type]


def test_mq2008(real_data: Path) -> None:
    data = load(real_data / "mq2008", normalise=None)
    parts = (data.train, data.validation, data.test)
    assert [part.n_queries for part in parts] == [471, 157, 156]
    assert sum(part.n_documents for part in parts) == 15_211
    assert data.n_features == 46
    labels = np.concatenate([part.labels for part in parts])
    assert (np.bincount(labels.astype(int)) / len(labels)).round(3).tolist() == [0.807, 0.132, 0.061]
    assert data.test.query_ids[0] == "18219"
    assert data.test.doc_ids is not None
    assert data.test.features[0, 0] == np.float32(0.052893)
    assert all(data.test.doc_ids)


def test_mslr_sample(real_data: Path) -> None:
    data = load(real_data / "mslr-sample")
    parts = (data.train, data.validation, data.test)
    assert [part.n_queries for part in parts] == [84, 28, 28]
    assert sum(part.n_documents for part in parts) == 15_469
    assert data.n_features == 136
    assert {"631", "643", "20005"} <= {q for part in parts for q in part.query_ids}
    assert all(0 <= part.features.min() < part.features.max() <= 1 for part in parts)


def test_lightgbm_example(real_data: Path) -> None:
    data = load(real_data / "lightgbm-rank", normalise=None)
    assert data.train.n_queries + data.validation.n_queries == 201
    assert data.test.n_queries == 50
    assert data.train.n_documents + data.validation.n_documents + data.test.n_documents == 3_773
    assert data.n_features == 300
    assert data.test.sizes[:3].tolist() == [12, 19, 18]
    assert data.test.features[0, 0] == np.float32(0.74)
