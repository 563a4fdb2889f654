"""The baselines: estimates from sampled rankings, as in the literature, in vectorised NumPy.

Rankings are samples × ranks: positions of documents, best first. Every function works on one query.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measure import Effort, Result, best_times
from rankloop.types import Float64, Int64

Sampler = Callable[[Float64, int, int, np.random.Generator], Int64]

# Up to this many documents, NumPy sorts all of them faster than it separates the top from the rest.
SORTED_WHOLE = 64


def gumbel_rankings(scores: Float64, ranks: int, samples: int, rng: np.random.Generator) -> Int64:
    """Draw Plackett–Luce rankings as published programs do: sort by ``s_d + Gumbel noise``, best first."""
    return _lowest(-scores - rng.gumbel(size=(samples, len(scores))), ranks)


def clock_rankings(scores: Float64, ranks: int, samples: int, rng: np.random.Generator) -> Int64:
    """Draw the same distribution faster: sort by ``exponential noise / exp(s_d)``, without logarithms."""
    return _lowest(rng.standard_exponential((samples, len(scores))) * np.exp(-scores), ranks)


def _lowest(keys: Float64, ranks: int) -> Int64:
    if keys.shape[1] <= SORTED_WHOLE:
        return np.argsort(keys, axis=1)[:, :ranks]
    top = np.argpartition(keys, ranks - 1, axis=1)[:, :ranks]
    order = np.argsort(np.take_along_axis(keys, top, axis=1), axis=1)
    return np.take_along_axis(top, order, axis=1)


def time_against_samplers(
    effort: Effort, exact: Callable[[], object], sampled: Callable[[Sampler], object], baseline: str
) -> Result:
    """Measure how many times as fast the exact computation is as an estimate from Gumbel rankings."""
    ours, gumbel, clocks = best_times(
        effort.rounds, exact, lambda: sampled(gumbel_rankings), lambda: sampled(clock_rankings)
    )
    per_query = 1e6 / effort.queries
    return Result(
        gumbel / ours,
        f"{ours * per_query:.1f} µs per query, {baseline} {gumbel * per_query:.0f} µs; "
        f"{clocks / ours:.1f} times as fast as rankings from exponential noise",
    )


def sampled_rank_weights(n: int, rank_weights: Float64, rankings: Int64) -> Float64:
    """Compute ``1/N Σ_y θ_rank(d)``: the mean rank weight of each document over the rankings."""
    earned = np.broadcast_to(rank_weights, rankings.shape)
    return _summed(rankings, earned, n) / len(rankings)


def _summed(rankings: Int64, values: Float64, n: int) -> Float64:
    # The stubs of bincount lack weights.
    totals: Float64 = np.bincount(rankings.ravel(), values.ravel(), n)  # type: ignore[assignment]
    return totals


def pl_rank_3(
    scores: Float64, document_weights: Float64, rank_weights: Float64, rankings: Int64
) -> tuple[float, Float64]:
    """Estimate the value and gradient of ``Σ_d r_d · E[θ_rank(d)]`` by PL-Rank-3.

        1/N Σ_y [ R_{i+1} + e^{s_d} (r_d Σ_{k ≤ i} θ_k / Z_k − Σ_{k ≤ i} R_k / Z_k) ],   i = rank of d in y

    with ``Z_k`` the total weight left before rank k and ``R_k`` the metric from rank k on. Sums over ranks
    are cumulative sums over all samples at once. Documents that were not placed share one sum per ranking, so
    it is added to every document first and corrected for the placed ones: O(documents + samples · ranks).

    Reference: Oosterhuis, Learning-to-Rank at the Speed of Sampling, SIGIR 2022.
    """
    n = len(scores)
    weights = np.exp(scores - scores.max())
    placed_weights, placed_grades = weights[rankings], document_weights[rankings]
    metrics = placed_grades * rank_weights
    from_rank = np.cumsum(metrics[:, ::-1], axis=1)[:, ::-1]
    left = weights.sum() - np.cumsum(placed_weights, axis=1) + placed_weights
    direct = np.cumsum(rank_weights / left, axis=1)
    risk = np.cumsum(from_rank / left, axis=1)
    all_direct, all_risk = direct[:, -1:], risk[:, -1:]
    corrections = placed_weights * (placed_grades * (direct - all_direct) - (risk - all_risk))
    corrections += from_rank - metrics
    gradient = _summed(rankings, corrections, n)
    gradient += weights * (document_weights * all_direct.sum() - all_risk.sum())
    return float(from_rank[:, 0].mean()), gradient / len(rankings)
