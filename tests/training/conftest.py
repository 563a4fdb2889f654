"""What the tests of training share: data sets, a task, and a single thread."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop import ragged
from rankloop.training import Task
from rankloop.types import Dataset
from tests.training.problems import DCG_AT_3, N_FEATURES, linear_problem

# One query of one document, and one whose documents all weigh the same: neither can be ranked better.
SIZES = np.array([1, 4, 7, 2, 5, 3, 6, 2])
FLAT = 5


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On data this small, the threads of LightGBM would only wait for one another."""
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "1")


@pytest.fixture
def task(rng: np.random.Generator) -> Task:
    offsets = ragged.offsets_of(SIZES)
    weights = rng.normal(size=SIZES.sum())
    weights[offsets[FLAT] : offsets[FLAT + 1]] = 0.7
    features = rng.normal(size=(SIZES.sum(), N_FEATURES)).astype(np.float32)
    return Task(features, offsets, weights, DCG_AT_3)


@pytest.fixture(scope="module")
def easy() -> Dataset:
    return Dataset("easy", linear_problem(60, 0), linear_problem(20, 1), linear_problem(20, 2))


@pytest.fixture(scope="module")
def noisy() -> Dataset:
    """Few queries and much noise: a network soon learns what is not there."""
    return Dataset("noisy", *(linear_problem(n, seed, noise=4.0) for n, seed in ((12, 0), (12, 1), (12, 2))))
