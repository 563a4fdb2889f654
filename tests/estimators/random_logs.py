"""Random logs of a few queries, for what must hold whatever was clicked."""

from __future__ import annotations

import numpy as np

from rankloop.policies import sample_rankings
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Float64

SIZES = np.array([3, 1, 8, 5, 2])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def log(
    rng: np.random.Generator, bias: Bias, policy: str, scores: Float64, *, timesteps: int = 400
) -> Statistics:
    """A random log of the policy; its clicks need not be those of any user."""
    queries = rng.integers(len(SIZES), size=timesteps)
    drawn = sample_rankings(scores, OFFSETS, bias.ranks, rng, samples=timesteps)
    rankings = drawn[np.arange(timesteps), queries]
    clicks = (rng.random(rankings.shape) < 0.4) & (rankings >= 0)
    exposure = Exposure.of_scores(scores, OFFSETS, bias)
    return of_impressions(policy, OFFSETS, exposure, queries=queries, rankings=rankings, clicks=clicks)
