"""Whether PDGD is ahead at first, at the size of the medium preset, with more seeds than its long runs have.

    python -m experiments.early_impressions FILE --seeds 0 19

What happens before 2·10⁴ impressions does not depend on what follows: these are the first impressions of
the runs of the medium preset, cut off there. Seeds that are already in FILE are skipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.command import run as run_command
from experiments.rows import append_row, read_rows
from rankloop.experiments.reproduce.claims import CLAIMS, judge
from rankloop.experiments.reproduce.claims.online import AWARE_100, INITIAL_PERIOD, PDGD_ONLINE
from rankloop.experiments.reproduce.presets import MEDIUM, Arm
from rankloop.experiments.reproduce.results import AllRuns, RunCurves
from rankloop.experiments.setup import Environment, Setup
from rankloop.loop import Evaluated

ARMS = {"aware": AWARE_100, "pdgd": PDGD_ONLINE}


def run(file: Path, seeds: Sequence[int]) -> None:
    """Make the runs that are not in the file yet."""
    known = {line["seed"] for line in read_rows(file)}
    environment = Environment.load(MEDIUM.setup_spec(0))
    for seed in sorted(set(seeds).difference(known)):
        spec = MEDIUM.setup_spec(seed).model_copy(update={"oracle": False, "supervised": False})
        setup = Setup.build(spec, environment)
        line = {"seed": seed, **{name: _early(setup, arm, seed) for name, arm in ARMS.items()}}
        append_row(file, line)
        print(seed, flush=True)


def _early(setup: Setup, arm: Arm, seed: int) -> dict[int, float]:
    """The NDCG of the learned policy at the times of evaluation that both arms have."""
    values = {}
    for event in setup.loop(MEDIUM.spec(arm, seed)).run():
        if event.impressions >= INITIAL_PERIOD:
            break
        if isinstance(event, Evaluated) and event.impressions in MEDIUM.grid:
            values[event.impressions] = round(event.learned, 5)
    return values


def show(file: Path) -> None:
    """Print the decision and the numbers behind it."""
    lines = sorted(read_rows(file), key=lambda line: int(line["seed"]))
    seeds = tuple(line["seed"] for line in lines)
    curves = {}
    for name, arm in ARMS.items():
        times = np.array([int(time) for time in lines[0][name]])
        curves[arm] = RunCurves(times, np.array([list(line[name].values()) for line in lines]), seeds)
    claim = next(claim for claim in CLAIMS if claim.name == "pdgd-ahead-early")
    judged = judge(claim, AllRuns(curves, curves, {}))
    print(f"{judged.name}: {judged.decision}")
    for finding in judged.findings:
        print(f"{finding.what}: {finding.value:.4f} ({finding.low:.4f} to {finding.high:.4f})")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 19), metavar=("FIRST", "LAST"))
    given = parser.parse_args()
    run(given.file, range(given.seeds[0], given.seeds[1] + 1))
    show(given.file)


if __name__ == "__main__":
    run_command(main)
