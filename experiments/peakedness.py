"""The table of docs/paper/peakedness.md: the paper's learners from starts that differ only in peakedness.

    python -m experiments.peakedness run FILE --seeds 0 2   # one line of FILE per run
    python -m experiments.peakedness show FILE…             # Markdown, with 90 % intervals over seeds

All runs start from one ranker: the one that the authors' programs train on 20 queries. Its scores are divided
by a temperature, which changes how peaked it is and not what it ranks higher. Everything else is the quick
preset of `rankloop reproduce`. Runs that are already in FILE are skipped, so an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.command import run as run_command
from experiments.rows import append_row, read_rows
from rankloop.experiments.reproduce.figures import AWARE, BIASED_PDGD, OBLIVIOUS, PDGD, POLICY_AWARE
from rankloop.experiments.reproduce.presets import QUICK, Arm
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Environment, Setup
from rankloop.experiments.spec import AUTHORS, RunSpec
from rankloop.experiments.summary import Mean

# From the most to the least peaked; 1 is the authors' ranker as it is.
TEMPERATURES = (0.5, 1.0, 2.0, 4.0)
ARMS = (
    *(Arm(learner=name, interventions=50) for name in (AWARE, OBLIVIOUS, POLICY_AWARE)),
    *(Arm(learner=name, interventions="all") for name in (PDGD, BIASED_PDGD)),
)
# PDGD and biased PDGD are compared here; they take longest, and see two temperatures only.
ONLINE_HORIZON, ONLINE_TEMPERATURES = 1_000_000, (1.0, 4.0)
# Trainings from here on have enough clicks: one that keeps the start has collapsed.
LATE = 100_000


def specs(seeds: Sequence[int]) -> Iterator[tuple[Arm, RunSpec]]:
    """All runs, seed by seed."""
    for seed in seeds:
        for temperature in TEMPERATURES:
            preset = QUICK.model_copy(
                update={
                    "supervision": AUTHORS,
                    "temperature": temperature,
                    "horizons": dict.fromkeys((PDGD, BIASED_PDGD), ONLINE_HORIZON),
                }
            )
            for arm in ARMS:
                if not arm.is_online or temperature in ONLINE_TEMPERATURES:
                    # The supervised baseline does not depend on the temperature, and nothing here needs it.
                    yield arm, preset.spec(arm, seed).model_copy(update={"supervised": False})


def run(file: Path, seeds: Sequence[int]) -> None:
    """Make the runs that are not in the file yet."""
    lines = read_rows(file)
    known = {(line["temperature"], line["learner"], line["seed"]) for line in lines}
    environment, setups = None, dict[tuple[float, int], Setup]()
    for arm, spec in specs(seeds):
        if (spec.temperature, arm.name, spec.seed) in known:
            continue
        environment = environment or Environment.load(spec)
        key = (spec.temperature, spec.seed)
        begin = time.process_time()
        if key not in setups:
            setups = {key: Setup.build(spec, environment)}
        with tempfile.TemporaryDirectory() as folder:
            result = Run(spec, Path(folder)).resume(setups[key])
        facts = result.facts
        line = {
            "temperature": spec.temperature,
            "learner": arm.name,
            "seed": spec.seed,
            "top_first": facts.peakedness.top_first,
            "start": facts.start,
            "oracle": facts.oracle,
            "times": [row.impressions for row in result.rows],
            "learned": [round(row.learned, 5) for row in result.rows],
            "kept_start": [int(row.kept_start) for row in result.rows],
            "cpu_seconds": round(time.process_time() - begin, 1),
        }
        append_row(file, line)
        print(f"T={spec.temperature:g} {arm.name} seed {spec.seed}: {line['learned'][-1]}", flush=True)


def show(files: Sequence[Path]) -> None:
    """Print the table."""
    lines = read_rows(*files)
    print("| temperature | favourite first | start | learner | end | above start | kept the start |")
    print("|---|---|---|---|---|---|---|")
    for temperature in TEMPERATURES:
        for arm in ARMS:
            own = [one for one in lines if (one["temperature"], one["learner"]) == (temperature, arm.name)]
            if own:
                print(_table_row(temperature, arm.name, own))


def _table_row(temperature: float, name: str, own: Sequence[dict[str, Any]]) -> str:
    ends = [one["learned"][-1] for one in own]
    gains = [one["learned"][-1] - one["start"] for one in own]
    kept = [
        start for one in own for at, start in zip(one["times"], one["kept_start"], strict=True) if at >= LATE
    ]
    cells = (
        f"{temperature:g}", f"{own[0]['top_first']:.2f}", f"{own[0]['start']:.4f}", name,
        str(Mean.of(ends)), str(Mean.of(gains)), f"{sum(kept)} of {len(kept)}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--seeds", type=int, nargs=2, default=(0, 2), metavar=("FIRST", "LAST"))
    running.set_defaults(call=lambda given: run(given.file, range(given.seeds[0], given.seeds[1] + 1)))
    showing = commands.add_parser("show")
    showing.add_argument("files", type=Path, nargs="+")
    showing.set_defaults(call=lambda given: show(given.files))
    given = parser.parse_args()
    given.call(given)


if __name__ == "__main__":
    run_command(main)
