"""The tables of docs/loop.md and docs/online.md: many loops at one size, and their means.

    python -m examples.loop_tables run TABLE FIRST LAST FILE   # seeds FIRST to LAST, one line of FILE each
    python -m examples.loop_tables show FILE…                  # means over seeds with 90 % intervals

TABLE is safety, estimators or online. Each run has 2,000 Yahoo-shaped queries of 100 features (another
collection and another production ranker for each seed), the paper's users and 10⁶ interactions. Lines that
are in the file already are not run again.
"""

from __future__ import annotations

import json
import sys
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
    """What one line of a table runs.

    Attributes:
        learner: an estimator or an online method.
        interventions: how many, or ``all``.
    """

    learner: str
    interventions: int | str

    def loop(self, data: rankloop.Dataset, start: Model, seed: int) -> Loop:
        """The loop of this setting."""
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
    """The true metric of a model's policy on the test queries."""
    return rankloop.policy_metrics(model.scores(data.test.features), data.test, [METRIC])[METRIC]


def run(setting: Setting, seed: int) -> dict[str, Any]:
    """Run one loop and say what it came to."""
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
    """Run what is missing of a table, and add it to the file."""
    done = {(row["learner"], row["interventions"], row["seed"]) for row in read([path])}
    for seed in range(first, last + 1):
        for setting in TABLES[table]:
            if (setting.learner, setting.interventions, seed) not in done:
                line = json.dumps(run(setting, seed))
                with path.open("a") as file:
                    file.write(line + "\n")


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """The lines of these files, as far as they exist."""
    return [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]


def show(paths: list[Path]) -> None:
    """Print the means of every setting, as a table in Markdown."""
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
    if sys.argv[1] == "run":
        run_table(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    else:
        show([Path(name) for name in sys.argv[2:]])
