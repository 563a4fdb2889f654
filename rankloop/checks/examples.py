"""Small random inputs that the clauses are checked on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rankloop.policies import sample_rankings
from rankloop.ragged import offsets_of
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Float64, Int64

SIZES = np.array([3, 1, 8, 5, 2])
OFFSETS = offsets_of(SIZES)
# How likely anything shown is clicked in a random log.
CLICK_CHANCE = 0.4


def random_log(
    rng: np.random.Generator, bias: Bias, policy: str, scores: Float64, *, impressions: int = 400
) -> Statistics:
    """A random log of a policy; its clicks do not depend on relevance or rank."""
    queries = rng.integers(len(SIZES), size=impressions)
    drawn = sample_rankings(scores, OFFSETS, bias.positions, rng, samples=impressions)
    rankings = drawn[np.arange(impressions), queries]
    clicks = (rng.random(rankings.shape) < CLICK_CHANCE) & (rankings >= 0)
    exposure = Exposure.of_scores(scores, OFFSETS, bias)
    return of_impressions(policy, OFFSETS, exposure, queries=queries, rankings=rankings, clicks=clicks)


def random_queries(
    rng: np.random.Generator, sizes: list[int], max_label: float = 4.0
) -> tuple[Float64, Float64, Int64]:
    """Scores, labels (five grades from 0 to the highest) and offsets of queries with these sizes."""
    offsets = offsets_of(np.array(sizes))
    labels = rng.integers(0, 5, offsets[-1]) * (max_label / 4.0)
    return rng.normal(scale=1.5, size=offsets[-1]), labels, offsets


def rotate_within_queries(offsets: Int64) -> Int64:
    """A permutation that moves every document to the next place in its query, the last to the first."""
    parts = [np.roll(np.arange(a, b), 1) for a, b in pairwise(offsets)]
    return np.concatenate(parts).astype(np.int64)
