"""Counts for tests."""

from __future__ import annotations

import numpy as np

from rankloop.bias import RankCounts, simulated_counts
from rankloop.clicks import Counts, gather, users
from rankloop.logs import LogCounts
from rankloop.ragged import offsets_of
from rankloop.types import Float64


def counts_of(displays: object, clicks: object, sizes: object | None = None) -> LogCounts:
    """Build counts from matrices of items × ranks; a single query unless sizes are given."""
    shown, clicked = np.asarray(displays, np.int64), np.asarray(clicks, np.int64)
    offsets = offsets_of(np.array([len(shown)]) if sizes is None else np.asarray(sizes))
    impressions = np.maximum.reduceat(shown.max(axis=1), offsets[:-1])
    return simulated_counts(offsets, {"a": Counts(impressions, shown, clicked)})


def expected(displays: Float64, relevance: Float64, alpha: Float64, beta: Float64) -> RankCounts:
    """Build noiseless counts with the expected number of clicks; each item has its own query."""
    items, ranks = displays.shape
    cells = np.repeat(np.arange(items), ranks)
    rank = np.tile(np.arange(ranks), items)
    shown = displays.ravel().astype(np.float64)
    chance = alpha[rank] * relevance[cells] + beta[rank]
    numbers = np.arange(items)
    impressions = displays.max(axis=1).astype(np.float64)
    starts = np.arange(0, items * ranks + 1, ranks)
    return RankCounts(numbers, numbers, impressions, starts, rank, shown, shown * chance, ranks, items)


def simulated(
    name: str, *, queries: int, impressions: int, seed: int, follows: float = 2.0, documents: int = 8
) -> LogCounts:
    """Simulate a log of a policy whose scores follow relevance with strength `follows`."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, documents * queries + 1, documents)
    relevance = rng.choice(5, offsets[-1], p=[0.26, 0.36, 0.28, 0.08, 0.02]) / 4
    scores = follows * relevance + rng.standard_normal(offsets[-1])
    return simulated_counts(offsets, {"a": gather(scores, offsets, relevance, users(name), impressions, rng)})
