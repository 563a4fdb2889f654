"""Counts for tests."""

from __future__ import annotations

import numpy as np

from rankloop.clicks import gather, users
from rankloop.ragged import offsets_of
from rankloop.statistics import CellTable, Counts
from rankloop.types import Float64


def counts_of(displays: object, clicks: object, sizes: object | None = None) -> Counts:
    """Build counts from matrices of documents × ranks; a single query unless sizes are given."""
    shown, clicked = np.asarray(displays, np.int64), np.asarray(clicks, np.int64)
    offsets = offsets_of(np.array([len(shown)]) if sizes is None else np.asarray(sizes))
    impressions = np.maximum.reduceat(shown.max(axis=1), offsets[:-1])
    return Counts.of_arrays(offsets, {"a": (impressions, shown, clicked)})


def expected(displays: Float64, relevance: Float64, alpha: Float64, beta: Float64) -> CellTable:
    """Build noiseless counts with the expected number of clicks; each document has its own query."""
    documents, ranks = displays.shape
    cells = np.repeat(np.arange(documents), ranks)
    rank = np.tile(np.arange(ranks), documents)
    shown = displays.ravel().astype(np.float64)
    chance = alpha[rank] * relevance[cells] + beta[rank]
    numbers = np.arange(documents)
    impressions = displays.max(axis=1).astype(np.float64)
    starts = np.arange(0, documents * ranks + 1, ranks)
    return CellTable(numbers, numbers, impressions, starts, rank, shown, shown * chance, ranks, documents)


def simulated(
    name: str, *, queries: int, impressions: int, seed: int, follows: float = 2.0, documents: int = 8
) -> Counts:
    """Simulate a log of a policy whose scores follow relevance with strength `follows`."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, documents * queries + 1, documents)
    relevance = rng.choice(5, offsets[-1], p=[0.26, 0.36, 0.28, 0.08, 0.02]) / 4
    scores = follows * relevance + rng.standard_normal(offsets[-1])
    return gather(scores, offsets, relevance, users(name), impressions, rng, policy="a")
