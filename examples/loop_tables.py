"""The tables of docs/loop.md and docs/online.md: means over many loops of the same size.

    python -m examples.loop_tables run TABLE FIRST LAST FILE   # seeds FIRST to LAST, one line of FILE each
    python -m examples.loop_tables show FILE…                  # means over seeds with 90 % intervals

TABLE is safety, estimators or online. Each run has 2,000 Yahoo-shaped queries of 100 features (each seed has
its own collection and production ranker), the paper's users and 10⁶ interactions. Runs that are already in
the file are skipped.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from rankloop import online
from rankloop.experiments.baselines import oracle as learn_oracle
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.spec import short_name
from rankloop.experiments.summary import Mean
from rankloop.loop import Evaluated, Loop, exponential_times
from rankloop.training import ROBUST
from rankloop.types import Model

HORIZON, FIRST_TIME, MEASURED_ONLINE = 1_000_000, 100, 20
METRIC = "ndcg@5"
AWARE = str(ROBUST.estimator)


@dataclass(frozen=True)
class Setting:
    """The setting of one line of a table.

    Attributes:
        learner: an estimator or an online method.
        interventions: their number, or ``all``.
    """

    learner: str
    interventions: int | str

    def loop(self, data: rankloop.Dataset, start: Model, seed: int) -> Loop:
        """Build the loop of this setting."""
        options: dict[str, Any] = {"seed": seed, "interventions": self.interventions}
        if isinstance(self.interventions, int):
            options["interventions"] = exponential_times(FIRST_TIME, HORIZON, self.interventions)
        if self.learner.split("(")[0] in online.METHODS:
            options["method"] = online.method(self.learner)
            options["evaluations"] = exponential_times(FIRST_TIME, HORIZON, MEASURED_ONLINE)
        else:
            options["estimator"] = rankloop.estimator(self.learner)
        return Loop(data, rankloop.SimulatedUsers.of(data, "paper@5"), start, HORIZON, **options)


TABLES = {
    "safety": [Setting(AWARE, 20)],
    "estimators": [
        Setting(name, interventions)
        for name in (AWARE, "intervention-aware", "intervention-oblivious", "policy-aware", "affine")
        for interventions in (20, 0)
    ],
    "online": [
        Setting("pdgd", "all"),
        Setting("biased-pdgd", "all"),
        Setting("coltr", "all"),
        Setting("pdgd", 0),
        Setting("pdgd", 100),
        Setting(AWARE, 0),
        Setting(AWARE, 100),
    ],
}


def truth(model: Model, data: rankloop.Dataset) -> float:
    """Compute the true metric of a model's policy on the test queries."""
    return rankloop.policy_metrics(model.scores(data.test.features), data.test, [METRIC])[METRIC]


def run(setting: Setting, seed: int) -> dict[str, Any]:
    """Run one loop and return its results."""
    data = rankloop.synthetic(queries=2_000, features=100, seed=seed)
    start = production_ranker(data, seed=seed)
    users = rankloop.SimulatedUsers.of(data, "paper@5")
    oracle = learn_oracle(
        start,
        data,
        users.relevance,
        ROBUST.rank_weights(users.bias),
        settings=ROBUST.settings,
        rng=np.random.default_rng(seed),
    )
    events = [event for event in setting.loop(data, start, seed).run() if isinstance(event, Evaluated)]
    times = np.array([event.timesteps for event in events])
    logging = np.array([event.logging for event in events])
    return {
        "learner": setting.learner,
        "interventions": setting.interventions,
        "seed": seed,
        "start": truth(start, data),
        "oracle": truth(oracle, data),
        "learned": events[-1].learned,
        "logging": events[-1].logging,
        "shown": float(np.diff(times, prepend=0) @ logging / HORIZON),
        "lowest": min(event.learned for event in events),
        "curve": [[event.timesteps, event.learned, event.logging] for event in events],
    }


def run_table(table: str, first: int, last: int, path: Path) -> None:
    """Run the settings that are missing in the file, and append their results."""
    done = {(row["learner"], row["interventions"], row["seed"]) for row in read([path])}
    for seed in range(first, last + 1):
        for setting in TABLES[table]:
            if (setting.learner, setting.interventions, seed) not in done:
                line = json.dumps(run(setting, seed))
                with path.open("a") as file:
                    file.write(line + "\n")


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """Read the lines of these files; a file that does not exist has none."""
    return [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]


def show(paths: list[Path]) -> None:
    """Print the means of every setting as a Markdown table."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in read(paths):
        groups.setdefault((row["learner"], str(row["interventions"])), []).append(row)
    print(
        "| learner | interventions | seeds | learned | oracle − learned | shown on average | logging last |"
    )
    print("|---|---|---|---|---|---|---|")
    for (learner, interventions), rows in groups.items():
        columns = [
            [row["learned"] for row in rows],
            [row["oracle"] - row["learned"] for row in rows],
            [row["shown"] for row in rows],
            [row["logging"] for row in rows],
        ]
        cells = [
            short_name(learner),
            interventions,
            str(len(rows)),
            *map(str, map(Mean.of, columns)),
        ]
        print("|", " | ".join(cells), "|")
    first = next(iter(groups.values()))
    for name in ("start", "oracle"):
        print(f"{name}: {Mean.of([row[name] for row in first])}")
    for (learner, interventions), rows in groups.items():
        below = np.array([row["start"] - row["lowest"] for row in rows])
        behind = np.array([row["oracle"] - row["learned"] for row in rows])
        print(
            f"{short_name(learner)}, {interventions}: furthest below the start {below.max():.4f}, "
            f"more than .005 on {np.sum(below > 0.005)} of {len(rows)}; furthest behind the oracle "
            f"{behind.max():.4f}, more than .006 on {np.sum(behind > 0.006)}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.loop_tables")
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help=run_table.__doc__)
    running.add_argument("table", choices=TABLES)
    running.add_argument("first", type=int, help="the first seed")
    running.add_argument("last", type=int, help="the last seed")
    running.add_argument("path", type=Path, help="the file of results, one JSON object per line")
    running.set_defaults(command=run_table)
    showing = commands.add_parser("show", help=show.__doc__)
    showing.add_argument("paths", type=Path, nargs="+", help="files that `run` wrote")
    showing.set_defaults(command=show)
    options = vars(parser.parse_args())
    options.pop("command")(**options)
