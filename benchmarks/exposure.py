"""Expected exposures of a policy: exact, against the mean over 1,000 sampled rankings per query."""

from __future__ import annotations

import numpy as np

from benchmarks import reference
from benchmarks.measure import Benchmark, Effort, Result, Target
from benchmarks.queries import DOCUMENTS, RANKS, RandomQueries
from benchmarks.sampling import Sampler, gumbel_rankings, sampled_rank_weights, time_against_samplers
from rankloop import rank_weights
from rankloop.policies import expected_rank_weights
from rankloop.types import Float64

SAMPLES = 1_000

SPEEDUP = Target("exposure_speedup", "times", "≥", 50)
ERROR_RATIO = Target("exposure_error_ratio", "times", "≥", 10_000)


def measure(effort: Effort) -> dict[str, Result]:
    """Time both on the same queries, and compare both with the reference values on some of them."""
    theta = rank_weights.dcg(RANKS)
    problem = RandomQueries.draw(effort.queries, DOCUMENTS, seed=1)
    rng = np.random.default_rng(2)

    def exact() -> Float64:
        return expected_rank_weights(problem.scores, problem.offsets, theta)

    def sampled(draw: Sampler) -> Float64:
        return np.concatenate([estimate(scores, theta, draw, rng) for scores, _ in problem.queries()])

    speedup = time_against_samplers(effort, exact, sampled, f"{SAMPLES:,} Gumbel rankings")
    judged = slice(0, int(problem.offsets[min(effort.judged, effort.queries)]))
    truth = np.concatenate(
        [reference.expected_rank_weights(scores, theta) for scores, _ in problem.queries()[: effort.judged]]
    )
    our_errors = relative_errors(exact()[judged], truth)
    sampled_errors = relative_errors(sampled(gumbel_rankings)[judged], truth)
    our_median, sampled_median = float(np.median(our_errors)), float(np.median(sampled_errors))
    return {
        SPEEDUP.name: speedup,
        ERROR_RATIO.name: Result(
            sampled_median / our_median,
            f"median relative error over documents: {our_median:.1e} against {sampled_median:.1e}; "
            f"largest: {our_errors.max():.1e} against {sampled_errors.max():.1e}",
        ),
    }


def estimate(scores: Float64, theta: Float64, draw: Sampler, rng: np.random.Generator) -> Float64:
    """Estimate the exposures of one query from sampled rankings; includes drawing the rankings."""
    return sampled_rank_weights(len(scores), theta, draw(scores, len(theta), SAMPLES, rng))


def relative_errors(values: Float64, truth: Float64) -> Float64:
    """Compute ``|value − truth| / truth``, one number per document."""
    return np.abs(values - truth) / truth


EXPOSURE = Benchmark((SPEEDUP, ERROR_RATIO), measure)
