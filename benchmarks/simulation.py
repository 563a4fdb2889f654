"""Simulated users: impressions per second, against rankings and clicks drawn in vectorised NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from benchmarks.queries import DOCUMENTS, GRADES, RANKS, RandomQueries
from benchmarks.sampling import gumbel_rankings
from rankloop.clicks import bias_of, gather, users
from rankloop.statistics import Counts
from rankloop.types import Float64, Int64

SPEEDUP = Target("simulation_speedup", "times", "≥", 5)
SPEED = Target("simulation_per_second", "impressions/s", "≥", 3e6)

IMPRESSIONS_PER_QUERY = 500


def in_numpy(
    scores: Float64, offsets: Int64, relevance: Float64, impressions: int, rng: np.random.Generator
) -> Counts:
    """Do the same as `rankloop.clicks.gather`, query by query, with all impressions of a query at once."""
    bias = bias_of(users(f"paper@{RANKS}"))
    came = rng.multinomial(impressions, np.full(len(offsets) - 1, 1 / (len(offsets) - 1)))
    shape = (len(scores), RANKS)
    displays, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for q, (first, last) in enumerate(pairwise(offsets)):
        rankings = gumbel_rankings(scores[first:last], RANKS, came[q], rng)
        n, shown = last - first, rankings.shape[1]
        chances = bias.alpha[:shown] * relevance[first:last][rankings] + bias.beta[:shown]
        clicked = rng.random(rankings.shape) < chances
        for k in range(shown):
            displays[first:last, k] = np.bincount(rankings[:, k], minlength=n)
            clicks[first:last, k] = np.bincount(rankings[clicked[:, k], k], minlength=n)
    return Counts.of_arrays(offsets, {"published": (came, displays, clicks)})


def measure(effort: Effort) -> dict[str, Result]:
    """Time the same number of impressions of the same queries, in rankloop and in NumPy."""
    problem = RandomQueries.draw(effort.queries, DOCUMENTS, seed=8)
    rng = np.random.default_rng(8)
    relevance = problem.grades / problem.grades.max()
    impressions = effort.queries * IMPRESSIONS_PER_QUERY
    who = users(f"paper@{RANKS}")
    ours, numpy_time = best_times(
        effort.rounds,
        lambda: gather(problem.scores, problem.offsets, relevance, who, impressions, rng),
        lambda: in_numpy(problem.scores, problem.offsets, relevance, impressions, rng),
    )
    setting = (
        f"{DOCUMENTS} documents, {RANKS} ranks, {GRADES} grades, "
        f"{IMPRESSIONS_PER_QUERY} impressions per query, one core"
    )
    return {
        SPEEDUP.name: Result(
            numpy_time / ours, f"{setting}; {impressions / numpy_time / 1e6:.2f} million per second in NumPy"
        ),
        SPEED.name: Result(impressions / ours, f"{1e9 * ours / impressions:.0f} ns per impression"),
    }


SIMULATION = Benchmark((SPEEDUP, SPEED), measure)
