"""The tables that rankings are drawn from, tested exactly."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.kernels.ranking_tables import LEAST_SHARE, build_table, heaviest_first, room_for_tables


def table_of(scores: np.ndarray, level: int, ranks: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the order of documents, the probability of each table position, and where sampling ends."""
    documents, tables = room_for_tables(np.array([0, len(scores)]), ranks)
    shown = heaviest_first(scores, ranks, documents)
    tables[2][:] = 0
    build_table(level, scores, documents, shown, ranks, tables)
    cut, pair = tables[0][level], tables[1][level]
    chances, size = np.zeros(shown), shown - level
    for i in range(size):
        own = cut[i] - i
        assert -1e-12 < own < 1 + 1e-12
        chances[pair[2 * i]] += own / size
        chances[pair[2 * i + 1]] += (1 - own) / size
    return documents[:shown], chances, int(tables[2][level])


@pytest.mark.parametrize("sharpness", [0.0, 0.5, 3.0, 20.0, 1000.0])
@pytest.mark.parametrize("level", [0, 1, 4])
@pytest.mark.parametrize("n", [5, 6, 24, 300])
def test_a_table_holds_the_softmax_of_its_documents(n: int, level: int, sharpness: float) -> None:
    for seed in range(5):
        scores = sharpness * np.random.default_rng(seed).normal(size=n)
        documents, chances, _ = table_of(scores, level, ranks=5)
        weights = np.exp(np.minimum(scores[documents] - scores[documents[level]], 0.0))
        weights[:level] = 0.0
        np.testing.assert_allclose(chances, weights / weights.sum(), rtol=0, atol=n * 2.0**-52)


@pytest.mark.parametrize("ranks", [1, 3, 5, 40])
def test_the_heaviest_documents_come_first(ranks: int, rng: np.random.Generator) -> None:
    for n in (1, 2, 5, 30):
        scores = rng.integers(-5, 5, n).astype(float)
        scores[rng.random(n) < 0.2] = -np.inf
        documents = np.empty(n, np.int64)
        shown = heaviest_first(scores, ranks, documents)
        assert sorted(documents[:shown]) == np.flatnonzero(scores > -np.inf).tolist()
        assert scores[documents[:shown]][:ranks].tolist() == np.sort(scores)[::-1][:shown][:ranks].tolist()


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 5.0, 500.0])
def test_a_table_is_left_when_little_of_its_weight_remains(sharpness: float) -> None:
    for seed in range(20):
        scores = sharpness * np.random.default_rng(seed).normal(size=12)
        documents, chances, leave = table_of(scores, level=0, ranks=6)
        rest = 1.0 - np.concatenate([[0.0], np.cumsum(chances)])  # without the first 0, 1, 2, …
        assert 1 <= leave <= 6
        assert (rest[1:leave] >= LEAST_SHARE - 1e-9).all()
        assert leave == 6 or rest[leave] < LEAST_SHARE + 1e-9
        assert len(documents) == 12
