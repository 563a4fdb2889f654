"""Value and gradient of the expected metric: exact, against PL-Rank-3 on 100 sampled rankings per query."""

from __future__ import annotations

import numpy as np

from benchmarks import reference
from benchmarks.measure import Benchmark, Effort, Result, Target
from benchmarks.queries import DOCUMENTS, RANKS, RandomQueries
from benchmarks.sampling import Sampler, gumbel_rankings, pl_rank_3, time_against_samplers
from rankloop import rank_weights
from rankloop.objectives import expected_metric
from rankloop.types import Float64

SAMPLES = 100

SPEEDUP = Target("gradient_speedup", "times", "≥", 5)
ERROR_RATIO = Target("gradient_error_ratio", "times", "≥", 1_000)


def measure(effort: Effort) -> dict[str, Result]:
    """Time both on the same queries, and compare both with the reference values on some of them."""
    theta = rank_weights.dcg(RANKS)
    problem = RandomQueries.draw(effort.queries, DOCUMENTS, seed=3)
    rng = np.random.default_rng(4)

    def exact() -> Float64:
        return expected_metric(problem.scores, problem.offsets, problem.grades, theta).gradient

    def sampled(draw: Sampler) -> Float64:
        parts = [
            pl_rank_3(scores, grades, theta, draw(scores, RANKS, SAMPLES, rng))[1]
            for scores, grades in problem.queries()
        ]
        return np.concatenate(parts)

    speedup = time_against_samplers(effort, exact, sampled, f"PL-Rank-3 on {SAMPLES} Gumbel rankings")
    judged = problem.queries()[: effort.judged]
    truth = np.stack([reference.metric_gradient(scores, grades, theta) for scores, grades in judged])
    our_error = median_error(exact(), truth)
    sampled_error = median_error(sampled(gumbel_rankings), truth)
    return {
        SPEEDUP.name: speedup,
        ERROR_RATIO.name: Result(
            sampled_error / our_error,
            f"median over queries of ‖ĝ − g‖ / ‖g‖: {our_error:.1e} against {sampled_error:.2f}",
        ),
    }


def median_error(gradient: Float64, truth: Float64) -> float:
    """Compute the median of ``‖ĝ − g‖ / ‖g‖`` over queries.

    The truth is queries × documents, and the gradient flat.
    """
    found = gradient[: truth.size].reshape(truth.shape)
    return float(np.median(np.linalg.norm(found - truth, axis=1) / np.linalg.norm(truth, axis=1)))


GRADIENT = Benchmark((SPEEDUP, ERROR_RATIO), measure)
