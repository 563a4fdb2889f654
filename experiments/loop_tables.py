"""The tables of docs/results/loop.md: what is learned and what users are shown, over many seeds.

    python -m experiments.loop_tables run TABLE FILE --seeds 0 19   # one line of FILE per learner and seed
    python -m experiments.loop_tables show TABLE FILE…              # Markdown, with 90 % intervals over seeds

TABLE is one of

    efficiency   the new default, the one before it, PDGD, biased PDGD and the paper's form; 10⁶ impressions
    static       no interventions: one log of the production ranker, 3·10⁵ impressions
    small        300 queries, 30 of them held out, 50,000 impressions
    exploration  shares of the traffic that explore, and how much; 10⁵ impressions
    evidence     caution over queries, or the rule of evidence with its trust region; 10⁵ impressions
    real         MQ2008, the MSLR sample and LightGBM's example, 10⁵ impressions; set RANKLOOP_DATA
    estimators   estimators with and without interventions; 10⁶ impressions
    online       online methods next to the estimator; 10⁶ impressions

Unless stated otherwise a seed has its own collection of 2,000 Yahoo-shaped queries with 100 features, its own
production ranker, and the paper's users. Runs that are already in FILE are skipped, so an interrupted
command resumes; --learners picks some of the learners.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from experiments.rows import read_rows
from rankloop import online
from rankloop.experiments.baselines import oracle as learn_oracle
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.summary import Mean
from rankloop.loop import Deployment, Evaluated, Loop, exploration, exponential_times
from rankloop.training import DOUBLY_ROBUST, LEARNING
from rankloop.types import Dataset, Model

FIRST_TIME, INTERVENTIONS = 100, 20
METRIC = "ndcg@5"
# A policy this far below its start is counted as one that harmed users.
HARM = 0.005


@dataclass(frozen=True)
class Learner:
    """One line of a table.

    Attributes:
        interventions: their number, or ``all`` for an online method that logs itself.
        options: further options of `Loop`.
    """

    interventions: int | str = INTERVENTIONS
    options: dict[str, Any] = field(default_factory=dict)

    def loop(
        self, data: Dataset, users: rankloop.SimulatedUsers, start: Model, table: Table, seed: int
    ) -> Loop:
        """Build the loop of this learner."""
        times = exponential_times(FIRST_TIME, table.horizon, INTERVENTIONS)
        options: dict[str, Any] = {"seed": seed, "evaluations": table.horizons[:-1], **self.options}
        if self.interventions == "all":
            options |= {"interventions": "all", "evaluations": tuple(sorted({*times, *table.horizons[:-1]}))}
        elif self.interventions:
            chosen = exponential_times(FIRST_TIME, table.horizon, int(self.interventions))
            options |= {
                "interventions": chosen,
                "evaluations": tuple(t for t in table.horizons[:-1] if t not in chosen),
            }
        return Loop(data, users, start, table.horizon, **options)


@dataclass(frozen=True)
class Table:
    """A table: learners at horizons.

    Attributes:
        learners: by the names of the lines.
        horizons: the numbers of impressions that are columns; the last one ends the run.
        collections: from a seed to the data of each collection, by name.
    """

    learners: dict[str, Learner]
    horizons: tuple[int, ...]
    collections: Callable[[int], Iterator[tuple[str, Dataset]]]

    @property
    def horizon(self) -> int:
        """The number of impressions of a run."""
        return self.horizons[-1]


def generated(queries: int) -> Callable[[int], Iterator[tuple[str, Dataset]]]:
    """One generated collection per seed."""

    def collections(seed: int) -> Iterator[tuple[str, Dataset]]:
        yield "yahoo-shaped", rankloop.synthetic(queries=queries, features=100, seed=seed)

    return collections


def real(seed: int) -> Iterator[tuple[str, Dataset]]:
    """The public collections in the folder that RANKLOOP_DATA names; each seed splits them anew."""
    from experiments.supervised_on_real_data import SETS

    for name, path in SETS.items():
        yield name, rankloop.data.load(Path(os.environ["RANKLOOP_DATA"]) / path, seed=seed)


def preset(name: str, interventions: int = INTERVENTIONS) -> Learner:
    """A preset of learning, with its own exploration."""
    return Learner(interventions, {"learning": LEARNING[name]})


def method(name: str, interventions: int | str = "all") -> Learner:
    """An online method."""
    return Learner(interventions, {"method": online.method(name)})


COMPARED = {
    "doubly robust": preset("doubly-robust"),
    "robust": preset("robust"),
    "pdgd": method("pdgd"),
    "biased-pdgd": method("biased-pdgd"),
    "paper": preset("paper"),
}
EXPLORATIONS = (
    "explore(share=0.1, decay=0.25, to=1.5)",
    "explore(share=0.3, decay=0.25, to=1.5)",
    "explore(share=0.5, decay=0.5, to=1.5)",
    "explore(share=0.3, decay=0.25, to=3)",
    "explore(share=0.6, decay=0.25, to=3)",
    "explore(share=0.6, decay=0.25, to=4)",
    "spread(to=4)",
)
ESTIMATORS = ("intervention-aware", "intervention-oblivious", "policy-aware", "affine")
TABLES = {
    "efficiency": Table(COMPARED, (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000), generated(2_000)),
    "static": Table(
        {name: preset(name, 0) for name in ("doubly-robust", "robust")},
        (3_000, 30_000, 300_000),
        generated(2_000),
    ),
    "small": Table(
        {
            **{name: preset(name, 10) for name in ("doubly-robust", "robust")},
            "click-noise": Learner(10, {"deployment": Deployment()}),
        },
        (1_000, 10_000, 50_000),
        generated(300),
    ),
    "exploration": Table(
        {
            name: Learner(15, {"learning": DOUBLY_ROBUST, "exploration": exploration(name)})
            for name in EXPLORATIONS
        },
        (1_000, 3_000, 10_000, 30_000, 100_000),
        generated(2_000),
    ),
    "evidence": Table(
        {
            "doubly robust": preset("doubly-robust", 15),
            "click-noise": Learner(15, {"deployment": Deployment()}),
            "click-noise, no trust region": Learner(15, {"deployment": Deployment(trust=None)}),
        },
        (1_000, 3_000, 10_000, 30_000, 100_000),
        generated(2_000),
    ),
    "real": Table(COMPARED, (1_000, 10_000, 100_000), real),
    "estimators": Table(
        {
            f"{name}, {interventions}": Learner(
                interventions, {"learning": LEARNING["robust"], "estimator": rankloop.estimator(name)}
            )
            for name in (str(LEARNING["robust"].estimator), *ESTIMATORS)
            for interventions in (INTERVENTIONS, 0)
        },
        (10_000, 100_000, 1_000_000),
        generated(2_000),
    ),
    "online": Table(
        {
            **{f"{name}, online": method(name) for name in ("pdgd", "biased-pdgd", "coltr")},
            "pdgd, 0": method("pdgd", 0),
            "pdgd, 100": method("pdgd", 100),
            "doubly robust, 0": preset("doubly-robust", 0),
            "doubly robust, 100": preset("doubly-robust", 100),
        },
        (10_000, 100_000, 1_000_000),
        generated(2_000),
    ),
}
ORACLE = "oracle"


def truth(model: Model, data: Dataset) -> float:
    """Compute the true metric of a model's policy on the test queries."""
    return rankloop.policy_metrics(model.scores(data.test.features), data.test, [METRIC])[METRIC]


def run_learner(name: str, table: Table, data: Dataset, start: Model, seed: int) -> dict[str, Any]:
    """Run one learner, or train the oracle, and return its results."""
    users = rankloop.SimulatedUsers.of(data, "paper@5", relevance=f"linear(max_label={data.max_label:g})")
    begin = time.process_time()
    curve: list[list[Any]] = []
    if name == ORACLE:
        rng = np.random.default_rng(seed)
        bound = learn_oracle(start, data, users.relevance, DOUBLY_ROBUST, users.bias, rng=rng)
        curve.append([0, truth(bound, data), None])
    else:
        events = table.learners[name].loop(data, users, start, table, seed).run()
        curve = [[e.impressions, e.learned, e.logging] for e in events if isinstance(e, Evaluated)]
    return {"start": truth(start, data), "cpu": time.process_time() - begin, "curve": curve}


def run_table(table: str, path: Path, seeds: tuple[int, int], learners: list[str]) -> None:
    """Run what is missing in the file, and append it."""
    chosen = TABLES[table]
    names = learners or [ORACLE, *chosen.learners]
    done = {(row["collection"], row["learner"], row["seed"]) for row in read_rows(path)}
    for seed in range(seeds[0], seeds[1] + 1):
        for collection, data in chosen.collections(seed):
            missing = [name for name in names if (collection, name, seed) not in done]
            if not missing:
                continue
            start = production_ranker(data, seed=seed)
            for name in missing:
                found = run_learner(name, chosen, data, start, seed)
                line = json.dumps({"collection": collection, "learner": name, "seed": seed, **found})
                with path.open("a") as file:
                    file.write(line + "\n")
                print(collection, name, seed, f"{found['cpu']:.0f} s of CPU time", flush=True)


def learned_at(row: dict[str, Any], horizon: int) -> float:
    """What had been learned after so many impressions."""
    return next(learned for impressions, learned, _ in reversed(row["curve"]) if impressions <= horizon)


def shown_until(row: dict[str, Any], horizon: int, *, changing: bool) -> float:
    """What users were shown on average until then; a policy that changes all the time is interpolated."""
    total, before, last = 0.0, 0, row["start"]
    for impressions, _, logging in row["curve"]:
        if impressions > horizon:
            break
        total += (impressions - before) * (0.5 * (last + logging) if changing else logging)
        before, last = impressions, logging
    return total / before


def show(table: str, paths: list[Path]) -> None:
    """Print the means over seeds as Markdown tables."""
    chosen, rows = TABLES[table], read_rows(*paths)
    for collection in dict.fromkeys(row["collection"] for row in rows):
        mine = [row for row in rows if row["collection"] == collection]
        by_learner = {
            name: [row for row in mine if row["learner"] == name]
            for name in dict.fromkeys(row["learner"] for row in mine)
        }
        starts = {row["seed"]: row["start"] for row in mine}
        print(f"\n**{collection}**: starting policy {Mean.of(list(starts.values()))}", end="")
        if bounds := by_learner.pop(ORACLE, None):
            print(f"; oracle {Mean.of([row['curve'][0][1] for row in bounds])}", end="")
        print(f"; {len(starts)} seeds\n")
        first = next(iter(by_learner))
        for caption, value in (("learned", _learned), ("shown on average", _shown)):
            found = {
                name: {row["seed"]: [value(chosen, row, h) for h in chosen.horizons] for row in lines}
                for name, lines in by_learner.items()
            }
            _show_means(caption, chosen.horizons, found)
            # Differences on the same collection are far more precise than differences of means.
            differences = {
                f"{first} − {name}": {
                    seed: np.subtract(found[first][seed], values)
                    for seed, values in found[name].items()
                    if seed in found[first]
                }
                for name in list(by_learner)[1:]
            }
            _show_means(f"{caption}, same collection", chosen.horizons, differences)
        _show_safety(by_learner)


def _show_means(caption: str, horizons: tuple[int, ...], found: dict[str, dict[int, Any]]) -> None:
    if not any(found.values()):
        return
    print(f"| {caption} | seeds |", " | ".join(f"{h:,}" for h in horizons), "|")
    print("|---" * (2 + len(horizons)) + "|")
    for name, by_seed in found.items():
        if by_seed:
            columns = zip(*by_seed.values(), strict=True)
            print(f"| {name} | {len(by_seed)} |", " | ".join(_cell(list(c)) for c in columns), "|")
    print()


def _learned(_table: Table, row: dict[str, Any], horizon: int) -> float:
    return learned_at(row, horizon)


def _shown(table: Table, row: dict[str, Any], horizon: int) -> float:
    return shown_until(row, horizon, changing=table.learners[row["learner"]].interventions == "all")


def _show_safety(by_learner: dict[str, list[dict[str, Any]]]) -> None:
    print("| | first learned policy by | most below its start | runs with more than .005 | CPU seconds |")
    print("|---|---|---|---|---|")
    for name, lines in by_learner.items():
        below = np.array([row["start"] - min(learned for _, learned, _ in row["curve"]) for row in lines])
        first = [
            next((t for t, learned, _ in row["curve"] if learned != row["start"]), np.inf) for row in lines
        ]
        cpu = np.mean([row["cpu"] for row in lines])
        print(
            f"| {name} | {np.median(first):,.0f} (median), {np.max(first):,.0f} (last) | {below.max():.4f} | "
            f"{(below > HARM).sum()} of {len(lines)} | {cpu:.0f} |"
        )


def _cell(values: list[float]) -> str:
    return str(Mean.of(values)).replace("0.", ".").replace("-", "−")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m experiments.loop_tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help=run_table.__doc__)
    running.add_argument("table", choices=TABLES)
    running.add_argument("path", type=Path, help="the file of results, one JSON object per line")
    running.add_argument("--seeds", type=int, nargs=2, default=(0, 19), metavar=("FIRST", "LAST"))
    running.add_argument("--learners", nargs="*", default=[], help="only these, such as pdgd or oracle")
    running.set_defaults(command=run_table)
    showing = commands.add_parser("show", help=show.__doc__)
    showing.add_argument("table", choices=TABLES)
    showing.add_argument("paths", type=Path, nargs="+", help="files that `run` wrote")
    showing.set_defaults(command=show)
    options = vars(parser.parse_args())
    options.pop("command")(**options)
