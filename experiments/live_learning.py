"""What a step of the live learner costs after so many sealed pages, and how much of it is reading them.

    python -m experiments.live_learning 10000 100000 1000000

The 1,333 training queries of a collection of Yahoo's shape, with 20 features, are shown by a noisy order to
users who examine ten positions. The learner then does what it does when it is due: it estimates the bias,
trains with the default settings and tests the log. Each size has a process of its own, in which the pages are
read once more before, to time that alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rankloop import synthetic
from rankloop.clicks import gather_log, users
from rankloop.live.learner.learning import learn
from rankloop.live.learner.settings import LearnerSettings
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.logs.features import read_features
from rankloop.offline.log import open_log

QUERIES, FEATURES, RANKS = 2_000, 20, 10
USERS = f"position@{RANKS}"


def write(folder: Path, pages: int) -> Path:
    """A log of so many pages, as one policy served them."""
    rng, split = np.random.default_rng(0), synthetic(queries=QUERIES, features=FEATURES).train
    scores = split.labels / 4 + rng.normal(size=split.n_documents)
    shown = gather_log(scores, split.offsets, split.labels / 4, users(USERS), pages, rng)
    return write_simulated(folder / "log", split, [PolicyTraffic("incoming-order", scores, shown)])


def measure(folder: Path) -> dict[str, Any]:
    """CPU seconds of reading a log and of a step, and the peak of memory."""
    begun, log = time.process_time(), open_log(folder)
    counts = log.count(RANKS)
    read_features(log, counts)
    log.impression_table()
    read = time.process_time()
    learn(folder, LearnerSettings())
    return {
        "reading": round(read - begun, 1),
        "step": round(time.process_time() - read, 1),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Measure some sizes, or one log in this process."""
    parser = argparse.ArgumentParser(prog="python -m experiments.live_learning", description=__doc__)
    parser.add_argument("pages", type=int, nargs="*", default=[10_000, 100_000], help="how many pages")
    parser.add_argument("--log", type=Path, help="measure this log; for the experiment itself")
    options = parser.parse_args()
    if options.log is not None:
        print(json.dumps(measure(options.log)))
        return
    for pages in options.pages:
        with tempfile.TemporaryDirectory() as folder:
            log = write(Path(folder), pages)
            words = [sys.executable, "-m", "experiments.live_learning", "--log", str(log)]
            result = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(json.dumps({"pages": pages, **json.loads(result.splitlines()[-1])}), flush=True)


if __name__ == "__main__":
    main()
