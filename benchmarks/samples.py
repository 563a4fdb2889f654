"""The error for each number of samples, a table of docs/benchmarks.md: ``python -m benchmarks.samples``."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import reference
from benchmarks.exposure import relative_errors
from benchmarks.gradient import median_error
from benchmarks.measure import best_times
from benchmarks.one_thread import ensure_one_thread
from benchmarks.queries import DOCUMENTS, RANKS, RandomQueries
from benchmarks.sampling import gumbel_rankings, pl_rank_3, sampled_rank_weights
from rankloop import rank_weights
from rankloop.objectives import expected_metric
from rankloop.policies import expected_rank_weights
from rankloop.types import Float64

SAMPLES = (10, 100, 1_000, 10_000)
QUERIES, ROUNDS = 50, 5


def main() -> None:
    """Print the time, relative to the exact computation, and the error, for each number of samples."""
    ensure_one_thread()
    theta = rank_weights.dcg(RANKS)
    problem = RandomQueries.draw(QUERIES, DOCUMENTS, seed=7)
    queries = problem.queries()
    rng = np.random.default_rng(8)
    exposures = np.concatenate([reference.expected_rank_weights(scores, theta) for scores, _ in queries])
    gradients = np.stack([reference.metric_gradient(scores, grades, theta) for scores, grades in queries])

    def exact_exposures() -> Float64:
        return expected_rank_weights(problem.scores, problem.offsets, theta)

    def exact_gradients() -> Float64:
        return expected_metric(problem.scores, problem.offsets, problem.grades, theta).gradient

    def sampled_exposures(samples: int) -> Float64:
        drawn = ((scores, gumbel_rankings(scores, RANKS, samples, rng)) for scores, _ in queries)
        return np.concatenate([sampled_rank_weights(len(scores), theta, y) for scores, y in drawn])

    def sampled_gradients(samples: int) -> Float64:
        drawn = ((s, grades, gumbel_rankings(s, RANKS, samples, rng)) for s, grades in queries)
        return np.concatenate([pl_rank_3(s, grades, theta, y)[1] for s, grades, y in drawn])

    chart = Table("samples", "exposures: time", "error", "gradient: time", "error")
    for n in SAMPLES:
        exact_e, exact_g, sampled_e, sampled_g = best_times(
            ROUNDS,
            exact_exposures,
            exact_gradients,
            lambda n=n: sampled_exposures(n),  # type: ignore[misc]
            lambda n=n: sampled_gradients(n),  # type: ignore[misc]
        )
        chart.add_row(
            f"{n:,}",
            f"{sampled_e / exact_e:.1f}",
            f"{np.median(relative_errors(sampled_exposures(n), exposures)):.1e}",
            f"{sampled_g / exact_g:.1f}",
            f"{median_error(sampled_gradients(n), gradients):.1e}",
        )
    exposure_error = np.median(relative_errors(exact_exposures(), exposures))
    gradient_error = median_error(exact_gradients(), gradients)
    chart.add_row("exact", "1", f"{exposure_error:.1e}", "1", f"{gradient_error:.1e}")
    Console().print(chart)


if __name__ == "__main__":
    main()
