"""From a log in files to statistics: rows per second on all cores, and peak memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target
from benchmarks.memory import resident
from benchmarks.one_thread import any_threads
from rankloop.clicks import gather_log, users
from rankloop.clicks.base import bias_of
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import open_log
from rankloop.types import Split

# A hundred million rows per minute.
SPEED = Target("log_rows_per_second", "rows/s", "≥", 1e8 / 60)
PEAK = Target("log_peak_gb", "GB", "≤", 4)

# As many queries as in the larger public collections, with as many documents each as Yahoo's on average.
QUERIES, DOCUMENTS = 30_000, 24
POLICIES = 3
USERS = users("paper@5")
# Number of impressions that are simulated and written at a time.
BLOCK = 500_000
# High enough that queries come more than once even in the smallest log.
ROWS_PER_QUERY = 60


def measure(effort: Effort) -> dict[str, Result]:
    """Write a log, then compute its statistics in a new process."""
    with tempfile.TemporaryDirectory(prefix="rankloop-bench-") as folder:
        log = write(Path(folder) / "log", effort.log_rows)
        command = [sys.executable, "-m", "benchmarks.logs", str(log)]
        done = subprocess.run(command, env=any_threads(), check=True, stdout=subprocess.PIPE, text=True)
        size = sum(file.stat().st_size for file in log.iterdir())
    answer = json.loads(done.stdout)
    # On a busy machine, the CPU time of all threads is closer to the time of the work itself. It is more than
    # two idle cores would need.
    seconds = min(answer["seconds"], answer["cpu"])
    return {
        SPEED.name: Result(
            answer["rows"] / seconds,
            f"{answer['rows']:,} rows, {size / 1e9:.2f} GB of Parquet, in {answer['seconds']:.1f} s; "
            f"{answer['cpu']:.1f} s of CPU time; includes exact exposures of {POLICIES} policies",
        ),
        PEAK.name: Result(answer["peak"] / 1e9, "the whole process, including Python and its libraries"),
    }


def write(folder: Path, rows: int) -> Path:
    """Write a simulated log with this many rows, from several policies in sequence."""
    rng = np.random.default_rng(11)
    queries = min(QUERIES, max(1, rows // ROWS_PER_QUERY))
    documents = queries * DOCUMENTS
    # Counting does not read features, so none are written.
    split = Split.build(
        np.zeros((documents, 1)),
        rng.integers(5, size=documents),
        sizes=np.full(queries, DOCUMENTS),
        query_ids=[f"query-{number}" for number in range(queries)],
        doc_ids=[f"document-{number}" for number in range(documents)],
    )
    return write_simulated(folder, split, _traffic(split, rows, rng), features=False)


def _traffic(split: Split, rows: int, rng: np.random.Generator) -> Iterator[PolicyTraffic]:
    impressions = rows // USERS.behaviour.positions // POLICIES
    for policy in range(POLICIES):
        scores = rng.normal(size=split.n_documents)
        for start in range(0, impressions, BLOCK):
            now = min(BLOCK, impressions - start)
            yield PolicyTraffic(
                f"policy-{policy}",
                scores,
                gather_log(scores, split.offsets, split.labels / 4, USERS, now, rng),
            )


def statistics_of(folder: Path) -> dict[str, float]:
    """Measure the time and memory of computing the statistics of a log; kernels are loaded beforehand."""
    bias = bias_of(USERS)
    with tempfile.TemporaryDirectory(prefix="rankloop-bench-") as small:
        open_log(write(Path(small) / "log", ROWS_PER_QUERY)).statistics(bias)
    start, used = perf_counter(), process_time()
    result = open_log(folder).statistics(bias)
    seconds, cpu = perf_counter() - start, process_time() - used
    rows = int(result.statistics.displays_by_position.sum()) + result.left_out
    return {"rows": rows, "seconds": seconds, "cpu": cpu, "peak": resident("VmHWM")}


LOGS = Benchmark((SPEED, PEAK), measure)

if __name__ == "__main__":
    print(json.dumps(statistics_of(Path(sys.argv[1]))))
