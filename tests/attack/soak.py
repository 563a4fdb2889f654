"""Hours of the same work in one process: memory stays flat, threads and open files do not grow.

``python -m tests.attack.soak --seconds 900``; ``make soak``. Every round runs the loop, imports a log, counts
and checks it. After the first rounds, in which caches fill, the slope of memory over rounds is estimated by
least squares, and compared with its standard error.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import rankloop
from rankloop.logs import import_columns
from rankloop.loop import Loop, SimulatedUsers
from rankloop.training import Settings
from tests.attack.moments import random_table

# Rounds in which caches, pools and allocators fill up.
WARM_UP = 5
# Kilobytes per round that are called growth, if they are also this many standard errors.
GROWTH, ERRORS = 20.0, 4.0


def main() -> int:
    """Work for a while, and say how memory, threads and files developed."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--journal", type=Path, default=None, help="JSON lines, one per round")
    given = parser.parse_args()
    rows, end = [], time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder))
        while time.monotonic() < end or len(rows) < WARM_UP + 3:
            work.round()
            gc.collect()
            rows.append(measured())
            if given.journal is not None:
                with given.journal.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    return report(rows)


class Work:
    """What one round does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = rankloop.synthetic(queries=60, features=5)
        self._users = SimulatedUsers.of(self._data, "paper@3")
        self._start = rankloop.train(self._data, "mlp", settings=Settings(epochs=1)).model
        (folder / "rows.csv").write_text(random_table(0, 300))

    def round(self) -> None:
        """Run the loop, and read a log in all ways."""
        list(Loop(self._data, self._users, self._start, horizon=2000, interventions=(500, 1000)).run())
        shutil.rmtree(self._folder / "log", ignore_errors=True)
        import_columns(self._folder / "rows.csv", self._folder / "log")
        log = rankloop.open_log(self._folder / "log")
        log.count()
        log.check()


def measured() -> dict[str, float]:
    """Kilobytes of memory, threads, and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") / 1024,
        "threads": threading.active_count(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def slope_of(values: list[float]) -> tuple[float, float]:
    """The slope per round by least squares, and its standard error.

    >>> slope_of([1.0, 2.0, 3.0])
    (1.0, 0.0)
    """
    y = np.array(values)
    x = np.arange(len(y)) - (len(y) - 1) / 2
    slope = float(x @ y / (x @ x))
    residuals = y - y.mean() - slope * x
    return slope, float(np.sqrt(residuals @ residuals / max(len(y) - 2, 1) / (x @ x)))


def report(rows: list[dict[str, float]]) -> int:
    """Print the slopes; 1 if anything grows."""
    later, failed = rows[WARM_UP:], False
    for name in ("kilobytes", "threads", "files"):
        values = [row[name] for row in later]
        slope, error = slope_of(values)
        grows = slope > (GROWTH if name == "kilobytes" else 0.0) and slope > ERRORS * error
        failed |= grows
        print(  # noqa: T201
            f"{name:10} {values[0]:,.0f} to {values[-1]:,.0f} in {len(values)} rounds, "
            f"{slope:+.2f} ± {error:.2f} per round{': grows' if grows else ''}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
