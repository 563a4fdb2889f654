"""How far loops fall below their start, and how much they learn: the tables of docs/results/loop.md#safety.

    python -m experiments.loop_safety run RESULTS.jsonl --worlds small mq2008 --seeds 0 1
    python -m experiments.loop_safety show RESULTS.jsonl

A run that is in the file is skipped. Every run has 20 interventions. MQ2008 and the MSLR sample come from
the folder RANKLOOP_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from experiments.command import run as run_command
from experiments.rows import append_row, read_rows
from rankloop import online
from rankloop.data.synthetic import synthetic
from rankloop.experiments.baselines import authors_ranker, production_ranker
from rankloop.experiments.summary import Mean
from rankloop.loop import Evaluated, Loop, exponential_times
from rankloop.training import LEARNING
from rankloop.types import Dataset, Model

METRIC, INTERVENTIONS, FIRST = "ndcg@5", 20, 100
# A policy this far below its start is counted as one that harmed users.
HARM = 0.005
DATA = Path(os.environ.get("RANKLOOP_DATA", "data"))
Start = Callable[[Dataset, int], Model]
WORLDS: dict[str, tuple[Callable[[int], Dataset], Start]] = {
    "authors": (
        lambda seed: synthetic(queries=6_000, features=136, seed=seed),
        lambda data, seed: authors_ranker(data, seed=seed),
    ),
    "medium": (
        lambda seed: synthetic(queries=2_000, features=100, seed=seed),
        lambda data, seed: production_ranker(data, seed=seed),
    ),
    "small": (
        lambda seed: synthetic(queries=300, features=100, seed=seed),
        lambda data, seed: production_ranker(data, seed=seed),
    ),
    "mq2008": (
        lambda seed: rankloop.data.load(DATA / "mq2008" / "Fold1", seed=seed),
        lambda data, seed: production_ranker(data, seed=seed),
    ),
    "mslr": (
        lambda seed: rankloop.data.load(DATA / "mslr-sample" / "all.txt", seed=seed),
        lambda data, seed: production_ranker(data, seed=seed),
    ),
}
PDGD = "pdgd"


def values(model: Model, data: Dataset) -> tuple[float, float]:
    """The true metric of a policy on the test queries, and on all queries."""
    splits = (data.train, data.validation, data.test)
    each = [rankloop.policy_metrics(model.scores(s.features), s, [METRIC])[METRIC] for s in splits]
    return each[-1], float(np.average(each, weights=[split.n_queries for split in splits]))


def run(
    path: Path, worlds: Sequence[str], seeds: Sequence[int], learners: Sequence[str], horizon: int
) -> None:
    """Run what is missing, and add it to the file."""
    done = {(row["world"], row["seed"], row["learning"], row["horizon"]) for row in read_rows(path)}
    times = exponential_times(FIRST, horizon, INTERVENTIONS)
    for seed in seeds:
        for world in worlds:
            missing = [name for name in learners if (world, seed, name, horizon) not in done]
            if not missing:
                continue
            make, begin = WORLDS[world]
            data = make(seed)
            start = begin(data, seed)
            relevance = f"linear(max_label={data.max_label:g})"
            users = rankloop.SimulatedUsers.of(data, "paper@5", relevance=relevance)
            before = values(start, data)
            for name in missing:
                options: dict[str, Any] = {"interventions": times}
                if name == PDGD:
                    options = {"interventions": "all", "evaluations": times, "method": online.method(PDGD)}
                else:
                    options["learning"] = LEARNING[name]
                first, curve = time.process_time(), []
                for event in Loop(data, users, start, horizon, seed=seed, **options).run():
                    if isinstance(event, Evaluated):
                        everywhere = values(event.state.learned, data)[1]
                        curve.append([event.impressions, event.learned, event.logging, everywhere])
                row = {"world": world, "seed": seed, "learning": name, "horizon": horizon}
                numbers = {"start": before[0], "start_everywhere": before[1], "curve": curve}
                append_row(path, {**row, **numbers, "cpu": time.process_time() - first})


def show(path: Path) -> None:
    """Print how far policies fell below their start, and what was learned."""
    rows = read_rows(path)
    learners = list(dict.fromkeys(row["learning"] for row in rows))
    print("| | learning | runs | harmful | lowest, all queries | lowest, test queries | learned | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for world in WORLDS:
        for horizon in sorted({row["horizon"] for row in rows if row["world"] == world}):
            for name in learners:
                mine = [
                    r for r in rows if (r["world"], r["learning"], r["horizon"]) == (world, name, horizon)
                ]
                if not mine:
                    continue
                low = [
                    min(r["start_everywhere"] if point[3] is None else point[3] for point in r["curve"])
                    - r["start_everywhere"]
                    for r in mine
                ]
                test = [min(point[1] for point in r["curve"]) - r["start"] for r in mine]
                end = Mean.of([r["curve"][-1][1] for r in mine])
                cpu = np.mean([r["cpu"] for r in mine])
                harmful = sum(each < -HARM for each in low)
                print(
                    f"| {world}, {horizon:,} | {name} | {len(mine)} | {harmful} | {min(low):.4f} | "
                    f"{min(test):.4f} | {end} | {cpu:.0f} |"
                )


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("path", type=Path)
    runs.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    runs.add_argument("--seeds", type=int, nargs="+", default=[0])
    runs.add_argument("--learning", nargs="+", default=["click-likelihood", "doubly-robust"])
    runs.add_argument("--horizon", type=int, default=10_000)
    shows = commands.add_parser("show")
    shows.add_argument("path", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given.path, given.worlds, given.seeds, given.learning, given.horizon)
    else:
        show(given.path)


if __name__ == "__main__":
    run_command(main)
