"""The causes of docs/paper/README.md: runs of the medium preset with one thing changed.

    python -m experiments.paper_causes optimiser FILE --seeds 0 2   # one line of FILE per run
    python -m experiments.paper_causes queries FILE --seeds 0 0
    python -m experiments.paper_causes model FILE --seeds 0 0
    python -m experiments.paper_causes show FILE REPRODUCTION       # beside unchanged runs of the same seeds

Each change removes what is believed to be the cause of a claim that does not hold: another optimiser for the
intervention-aware estimator; and for PDGD, five times as many queries, or a linear model, which hardly
overfits. Runs that are already in FILE are skipped, so an interrupted command resumes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.command import run
from experiments.rows import append_row, read_rows
from rankloop.experiments.baselines import SHARED_SEED, authors_ranker, oracle
from rankloop.experiments.reproduce.figures import AWARE, PDGD
from rankloop.experiments.reproduce.presets import MEDIUM, Arm
from rankloop.experiments.reproduce.results import AllRuns, read_table
from rankloop.experiments.setup import Environment, Setup
from rankloop.experiments.summary import Mean
from rankloop.loop import Evaluated, Loop
from rankloop.models import Adam
from rankloop.training import PAPER, ROBUST, Learning

# As many deployments as tell the story: a run with 100 takes five times as long.
ARM = Arm(learner=AWARE, interventions=20)
ONLINE = Arm(learner=PDGD, interventions="all")
PATIENT = replace(PAPER.settings, least_gain=None, patience=10, epochs=100)
CHANGES: dict[str, Learning] = {
    "paper": PAPER,
    "patience": replace(PAPER, settings=PATIENT),
    "Adam and patience": replace(PAPER, settings=replace(PATIENT, optimiser=Adam(rate=0.001))),
    "robust": ROBUST,
}
# Those that have runs; of the others, only the oracle is made. Unchanged runs are in the reproduction.
UNCHANGED, LOOPED = "paper", ("Adam and patience", "robust")
LARGER = "synthetic(queries=30000, features=136)"
# PDGD as Figure 5 shows it.
COMPARED = (Arm(learner=PDGD, interventions=0), Arm(learner=PDGD, interventions=100), ONLINE)
SMALLER_MODEL = "linear"


def change_optimiser(file: Path, seeds: Sequence[int]) -> None:
    """Make the runs that are not in the file yet, and the oracle of each change."""
    known = _known(file)
    environment = Environment.load(MEDIUM.setup_spec(0))
    for seed in seeds:
        setup = Setup.build(MEDIUM.setup_spec(seed).model_copy(update={"oracle": False}), environment)
        for change, learning in CHANGES.items():
            if (change, seed) in known:
                continue
            begin = time.process_time()
            line: dict[str, Any] = {
                "change": change,
                "seed": seed,
                "oracle": _oracle(setup, learning, seed),
            }
            if change in LOOPED:
                loop = setup.loop(MEDIUM.spec(ARM, seed))
                # None: the exploration that goes with the learning.
                line |= _curves(replace(loop, learning=learning, exploration=None))
            _append(file, line, begin)


def change_queries(file: Path, seeds: Sequence[int]) -> None:
    """PDGD on more queries, to the same horizon: each is seen less often."""
    preset, known = MEDIUM.model_copy(update={"data": LARGER}), _known(file)
    environment = None
    for seed in seeds:
        if (LARGER, seed) in known:
            continue
        environment = environment or Environment.load(preset.setup_spec(0))
        spec = preset.setup_spec(seed).model_copy(update={"oracle": False, "supervised": False})
        setup, begin = Setup.build(spec, environment), time.process_time()
        line = {"change": LARGER, "seed": seed, **_curves(setup.loop(preset.spec(ONLINE, seed)))}
        _append(file, line, begin)


def change_model(file: Path, seeds: Sequence[int]) -> None:
    """PDGD of a linear model, from a linear production ranker that is trained as the authors' is."""
    known, environment = _known(file), Environment.load(MEDIUM.setup_spec(0))
    start = authors_ranker(environment.collection, model=SMALLER_MODEL, seed=SHARED_SEED)
    for seed in seeds:
        spec = MEDIUM.setup_spec(seed).model_copy(update={"oracle": False, "supervised": False})
        setup = Setup.build(spec, environment)
        for arm in COMPARED:
            change = f"{SMALLER_MODEL} {arm.name}"
            if (change, seed) in known:
                continue
            begin, loop = time.process_time(), setup.loop(MEDIUM.spec(arm, seed))
            _append(file, {"change": change, "seed": seed, **_curves(replace(loop, start=start))}, begin)


def _curves(loop: Loop) -> dict[str, list[float]]:
    rows = [event for event in loop.run() if isinstance(event, Evaluated)]
    return {
        "times": [row.impressions for row in rows],
        "learned": [round(row.learned, 5) for row in rows],
        "logging": [round(row.logging, 5) for row in rows],
    }


def _append(file: Path, line: dict[str, Any], begin: float) -> None:
    line["cpu_seconds"] = round(time.process_time() - begin, 1)
    append_row(file, line)
    print(line["change"], line["seed"], line.get("oracle", ""), line.get("learned", [""])[-1], flush=True)


def _known(file: Path) -> set[tuple[str, int]]:
    return {(line["change"], line["seed"]) for line in read_rows(file)}


def _oracle(setup: Setup, learning: Learning, seed: int) -> float:
    env = setup.environment
    model = oracle(
        setup.start,
        env.collection,
        env.users.relevance,
        learning,
        env.users.bias,
        rng=np.random.default_rng(seed),
    )
    return round(env.value(model.scores(env.collection.test.features), "ndcg@5"), 5)


def show(file: Path, reproduction: Path) -> None:
    """Print the table: the end of the runs and its difference to PDGD, by change."""
    evidence = AllRuns.of(read_table(reproduction))
    lines = read_rows(file)
    print("| training | runs | oracle | learned at the end | PDGD − learned, same seeds |")
    print("|---|---|---|---|---|")
    for change in CHANGES:
        own = {line["seed"]: line for line in lines if line["change"] == change}
        ends = {seed: line["learned"][-1] for seed, line in own.items() if "learned" in line}
        if change == UNCHANGED:
            unchanged = evidence.curves(ARM)
            ends = dict(zip(unchanged.seeds, unchanged.last.tolist(), strict=True))
            ends = {seed: end for seed, end in ends.items() if seed in own}
        pdgd = evidence.curves(ONLINE)
        behind = [
            float(end) - ends[seed] for seed, end in zip(pdgd.seeds, pdgd.last, strict=True) if seed in ends
        ]
        cells = (
            change,
            str(len(ends)),
            str(Mean.of([line["oracle"] for line in own.values()])),
            str(Mean.of(list(ends.values()))) if ends else "not run",
            str(Mean.of(behind)) if behind else "",
        )
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    makers = {"optimiser": change_optimiser, "queries": change_queries, "model": change_model}
    for name, make in makers.items():
        running = commands.add_parser(name)
        running.add_argument("file", type=Path)
        running.add_argument("--seeds", type=int, nargs=2, default=(0, 2), metavar=("FIRST", "LAST"))
        running.set_defaults(call=make)
    showing = commands.add_parser("show")
    showing.add_argument("file", type=Path)
    showing.add_argument("reproduction", type=Path)
    showing.set_defaults(call=show)
    given = parser.parse_args()
    if given.call is show:
        show(given.file, given.reproduction)
    else:
        given.call(given.file, range(given.seeds[0], given.seeds[1] + 1))


if __name__ == "__main__":
    run(main)
