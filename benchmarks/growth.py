"""How the cost of the exact gradient grows with the number of documents."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from benchmarks.queries import RANKS, RandomQueries
from rankloop import rank_weights
from rankloop.objectives import MetricGradient, expected_metric

FEW, MANY = 100, 1_000
# Linear growth is 1, quadratic 10. The target is above 1 because larger queries fit caches less well.
GROWTH = Target("gradient_growth", "times", "≤", 1.5)


def measure(effort: Effort) -> dict[str, Result]:
    """Time queries with few and with many documents; the total number of documents is the same."""
    theta = rank_weights.dcg(RANKS)

    def job(documents: int) -> Callable[[], MetricGradient]:
        problem = RandomQueries.draw(effort.queries * FEW // documents, documents, seed=5)
        return lambda: expected_metric(problem.scores, problem.offsets, problem.grades, theta)

    few, many = best_times(effort.rounds, job(FEW), job(MANY))
    per_document = 1e6 / (effort.queries * FEW)
    return {
        GROWTH.name: Result(
            many / few,
            f"{many * per_document:.2f} µs per document at {MANY:,} documents, "
            f"{few * per_document:.2f} µs at {FEW}",
        )
    }


GRADIENT_GROWTH = Benchmark((GROWTH,), measure)
