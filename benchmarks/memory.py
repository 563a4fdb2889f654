"""Peak memory of holding and training on a large data set, in a separate process."""

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
# Enough queries to load every kernel that training uses.
WARM_UP = 10


def measure(effort: Effort) -> dict[str, Result]:
    """Measure in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", str(effort.held)]
    done = subprocess.run(command, env=any_threads(), check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout)
    return {
        MEMORY.name: Result(
            answer["growth"] / answer["matrix"],
            f"peak {answer['growth'] / 1e9:.2f} GB above imports and kernels for features of "
            f"{answer['matrix'] / 1e9:.2f} GB: {effort.held:,} queries, one epoch, validation",
        )
    }


def growth_over_matrix(queries: int) -> dict[str, int]:
    """Measure the bytes of the features, and the growth of the process at its peak when it trains on them."""
    settings = Settings(epochs=1)
    train(rankloop.synthetic("yahoo", queries=WARM_UP), "mlp", settings=settings)
    before = resident("VmRSS")
    data = rankloop.synthetic("yahoo", queries=queries)
    train(data, "mlp", settings=settings)
    matrix = sum(part.features.nbytes for part in (data.train, data.validation, data.test))
    return {"matrix": matrix, "growth": resident("VmHWM") - before}


def resident(field: str) -> int:
    """Return the bytes of this process in memory: now (``VmRSS``) or at its peak (``VmHWM``).

    On Linux the peak is counted from the start of the process, whereas `getrusage` inherits the peak of the
    parent. Other systems report only the peak, so there the growth of the peak is measured.
    """
    if not STATUS.exists():
        import resource  # not on every system

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


DATASET = Benchmark((MEMORY,), measure)

if __name__ == "__main__":
    print(json.dumps(growth_over_matrix(int(sys.argv[1]))))
