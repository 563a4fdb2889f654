"""The most memory that holding and training on a large data set takes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import rankloop
from benchmarks.measure import Benchmark, Effort, Result, Target
from benchmarks.one_thread import any_threads
from rankloop.training import Settings, train

MEMORY = Target("memory_vs_matrix", "times", "≤", 1.5)

STATUS = Path("/proc/self/status")
# As many queries as load every kernel that training uses.
WARM_UP = 10


def measure(effort: Effort) -> dict[str, Result]:
    """Ask a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", str(effort.held)]
    done = subprocess.run(command, env=any_threads(), check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout)
    return {
        MEMORY.name: Result(
            answer["growth"] / answer["matrix"],
            f"peak {answer['growth'] / 1e9:.2f} GB above imports and kernels for features of "
            f"{answer['matrix'] / 1e9:.2f} GB: {effort.held:,} queries made, held, one epoch, validation",
        )
    }


def growth_over_matrix(queries: int) -> dict[str, int]:
    """Bytes of the features, and of what the process grew by at its peak to make, hold and train on them."""
    settings = Settings(epochs=1)
    train(rankloop.synthetic("yahoo", queries=WARM_UP), "mlp", settings=settings)
    before = resident("VmRSS")
    data = rankloop.synthetic("yahoo", queries=queries)
    train(data, "mlp", settings=settings)
    matrix = sum(part.features.nbytes for part in (data.train, data.validation, data.test))
    return {"matrix": matrix, "growth": resident("VmHWM") - before}


def resident(field: str) -> int:
    """Bytes of this process in memory: now (``VmRSS``) or at its peak (``VmHWM``).

    Linux counts the peak of a process from its start, where `getrusage` would hand down its parent's. Other
    systems tell the peak alone, so there growth is what the peak grew by.
    """
    if not STATUS.exists():
        import resource  # not on every system

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


DATASET = Benchmark((MEMORY,), measure)

if __name__ == "__main__":
    print(json.dumps(growth_over_matrix(int(sys.argv[1]))))
