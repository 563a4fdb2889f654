"""The time of Algorithm 1 from the first click to the last, and how it grows with the number of clicks.

python -m benchmarks.loops        # the cost of one run at horizons from 10⁵ to 10⁸
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

from benchmarks.measure import FULL, Benchmark, Effort, Result, Target
from rankloop import SimulatedUsers, synthetic
from rankloop.experiments.baselines import production_ranker
from rankloop.loop import Gathered, Loop, Trained, exponential_times
from rankloop.types import Dataset, Model

SECONDS = Target("loop_seconds", "s", "≤", 180)
# With more clicks, early stopping allows more epochs, so that learning takes a little longer.
GROWTH = Target("loop_growth", "times", "≤", 2)

FEATURES, INTERVENTIONS, FIRST = 100, 50, 100
# How many times as long the long horizon is as the short one that it is compared with.
RATIO = 100


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU time of one run.

    Attributes:
        gathering: simulating clicks, and computing the exposures of the logging policies.
        learning: everything else.
        epochs: number of epochs over all trainings.
    """

    gathering: float
    learning: float
    epochs: int


def cost(data: Dataset, start: Model, horizon: int) -> Cost:
    """Run the loop once."""
    times = exponential_times(min(FIRST, horizon // 10), horizon, INTERVENTIONS)
    loop = Loop(data, SimulatedUsers.of(data, "paper@5"), start, horizon, times)
    gathering, learning, epochs = 0.0, 0.0, 0
    begun = process_time()
    for event in loop.run():
        ended = process_time()
        if isinstance(event, Gathered):
            gathering += ended - begun
        else:
            learning += ended - begun
        if isinstance(event, Trained):
            epochs += len(event.epochs)
        begun = ended
    return Cost(gathering, learning, epochs)


def _setup(effort: Effort) -> tuple[Dataset, Model]:
    data = synthetic(queries=effort.loop_queries, features=FEATURES)
    start = production_ranker(data)
    # Loads kernels and fills caches before anything is timed.
    cost(data, start, 1_000)
    return data, start


def measure(effort: Effort) -> dict[str, Result]:
    """Time one run at the full horizon, and one at a hundredth of it with as many interventions."""
    data, start = _setup(effort)
    horizon = effort.loop_impressions
    long, short = cost(data, start, horizon), cost(data, start, horizon // RATIO)
    return {
        SECONDS.name: Result(
            long.gathering + long.learning,
            f"{data.train.n_queries:,} training queries × {FEATURES} features, {horizon:,} impressions, "
            f"{INTERVENTIONS} interventions, one core; {long.gathering:.0f} s of it for gathering, "
            f"{long.epochs:,} epochs",
        ),
        GROWTH.name: Result(
            long.learning / short.learning,
            f"{long.learning:.0f} s without gathering, {long.epochs:,} epochs, against "
            f"{short.learning:.0f} s and {short.epochs:,} at {horizon // RATIO:,} impressions",
        ),
    }


def main() -> None:
    """Print the cost of one run for each horizon."""
    data, start = _setup(FULL)
    print("| impressions | gathering | learning | epochs |\n|---|---|---|---|")
    for exponent in (5, 6, 7, 8):
        c = cost(data, start, 10**exponent)
        print(f"| {10**exponent:,} | {c.gathering:.1f} s | {c.learning:.1f} s | {c.epochs:,} |", flush=True)


LOOPS = Benchmark((SECONDS, GROWTH), measure)

if __name__ == "__main__":
    main()
