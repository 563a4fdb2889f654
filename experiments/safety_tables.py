"""The numbers of docs/evidence.md: many small loops in worlds where something is wrong.

    python -m experiments.safety_tables run WORLD FIRST LAST FILE # seeds FIRST to LAST, one line of FILE each
    python -m experiments.safety_tables show FILE…                # one row per world and setting

WORLD is one of

- noise: all documents of a query are equally relevant, so that whatever is learned is noise (an A/A loop);
- perfect: the start sorts by relevance, so that whatever is learned is worse;
- inverted: users click as if relevant documents were irrelevant, and the other way round;
- honest: users click as assumed.

Each loop has 100 queries, a linear model that starts from a ranker trained on a few labels, the paper's users
and eight looks up to 10,000 impressions. Loops that are already in the file are skipped.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rankloop
from experiments.rows import read_rows
from rankloop.evidence import ClickNoise, evidence
from rankloop.loop import exponential_times
from rankloop.loop.deployment import Clicks, Deployment
from rankloop.models import Adam
from rankloop.ragged import segment_std
from rankloop.statistics import Exposure, Statistics
from rankloop.training import ROBUST, LearningProblem, Settings, learn
from rankloop.types import Float64, Model

HORIZON, LOOKS, METRIC = 10_000, 8, "ndcg@5"
QUERIES, FEATURES, LABELLED = 100, 10, 5
EXPLORED, SPREAD = 0.1, 1.5
LEARNING = replace(ROBUST, settings=Settings(Adam(rate=0.01), epochs=12, patience=4))

RULE = ClickNoise(looks=LOOKS)
# What each world is run with: the default, and what it is compared with.
SETTINGS = {
    "noise": {"no margin": Deployment(replace(RULE, margin=0.0), None)},
    "perfect": {"default": Deployment(RULE), "no evidence": Deployment(evidence("off"), None, 1)},
    "inverted": {"default": Deployment(RULE), "no trust region": Deployment(RULE, None)},
    "honest": {"default": Deployment(RULE), "no trust region": Deployment(RULE, None)},
}


class World:
    """Data, users and a start.

    Args:
        name: what is wrong.
        seed: the random seed.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.data = rankloop.synthetic(queries=QUERIES, features=FEATURES, seed=seed)
        self.users = rankloop.SimulatedUsers.of(self.data, "paper@5")
        if name == "noise":
            self.users = replace(self.users, relevance=np.full(len(self.users.relevance), 0.5))
        if name == "inverted":
            self.users = replace(self.users, relevance=1.0 - self.users.relevance)
        self.start = self._start(LABELLED if name != "perfect" else self.data.train.n_queries, seed)
        splits = self.data.train, self.data.validation
        self.features = np.concatenate([split.features for split in splits])

    def _start(self, labelled: int, seed: int) -> Model:
        problem = LearningProblem.from_labels(
            replace(self.data, train=self.data.train.select(np.arange(labelled))), METRIC
        )
        settings = Settings(Adam(rate=0.01), epochs=30, patience=10)
        return learn("linear", problem, settings=settings, rng=np.random.default_rng(seed)).model

    def value(self, model: Model) -> float:
        """The true metric of a policy on the test queries."""
        test = self.data.test
        return rankloop.policy_metrics(model.scores(test.features), test, [METRIC])[METRIC]

    def gather(self, model: Model, policy: str, impressions: int, rng: np.random.Generator) -> Statistics:
        """Log impressions of a policy, some of which explore."""
        scores, offsets, bias = model.scores(self.features), self.users.offsets, self.users.bias
        soft = min(1.0, SPREAD / float(segment_std(scores, offsets).mean()))
        exploring = int(rng.binomial(impressions, EXPLORED))
        gathered = Statistics.empty(offsets, bias.positions)
        for name, scale, times in (
            (policy, 1.0, impressions - exploring),
            (f"{policy} explores", soft, exploring),
        ):
            exposure = Exposure.of_scores(scale * scores, offsets, bias)
            gathered += self.users.gather(name, scale * scores, exposure, times, rng)
        return gathered


def run(world: str, setting: str, seed: int) -> dict[str, Any]:
    """Run one loop: gather, learn, look at the evidence, deploy."""
    place = World(world, seed)
    deployment = SETTINGS[world][setting]
    data, bias, start = place.data, place.users.bias, place.start
    rng = np.random.default_rng([seed, 1])
    weights: Float64 = LEARNING.rank_weights(bias)

    def fit(splits: Any, statistics: Any) -> Model:
        problem = LEARNING.problem(splits, statistics, bias)
        return learn(start, problem, settings=LEARNING.settings, rng=np.random.default_rng(seed)).model

    logged, logging, shares, values = Statistics.empty(place.users.offsets, bias.positions), start, [], []
    splits = data.train, data.validation
    trained = np.arange(data.train.n_queries)
    held_out = np.arange(data.train.n_queries, logged.n_queries)
    for look, time in enumerate(exponential_times(200, HORIZON, LOOKS), start=1):
        logged += place.gather(logging, f"policy {look}", time - logged.impressions, rng)
        parts = logged.select(trained), logged.select(held_out)
        if parts[1].impressions == 0:
            continue
        learned = fit(splits, parts)
        clicks = Clicks(splits, parts, bias)
        step = deployment.step(start, learned, clicks, weights, look, learn=fit, deployed=logging)
        logging = step.policy(start, learned, logging)
        shares.append(step.share)
        values.append(place.value(logging))
    return {
        "world": world,
        "setting": setting,
        "seed": seed,
        "start": place.value(start),
        "shares": shares,
        "values": values,
    }


def run_world(world: str, first: int, last: int, path: Path) -> None:
    """Run the loops that are missing in the file, and append their results."""
    done = {(row["world"], row["setting"], row["seed"]) for row in read_rows(path)}
    for seed in range(first, last + 1):
        for setting in SETTINGS[world]:
            if (world, setting, seed) not in done:
                line = json.dumps(run(world, setting, seed))
                with path.open("a") as file:
                    file.write(line + "\n")


def show(paths: list[Path]) -> None:
    """Print a row for every world and setting as a Markdown table."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in read_rows(*paths):
        groups.setdefault((row["world"], row["setting"]), []).append(row)
    print("| world | rule | loops | ever deployed | start | at the end | furthest below the start |")
    print("|---|---|---|---|---|---|---|")
    for (world, setting), rows in groups.items():
        deployed = np.mean([max(row["shares"]) > 0.0 for row in rows])
        lowest = max(row["start"] - min(row["values"]) for row in rows)
        start, end = (np.mean([value(row) for row in rows]) for value in (_start, _end))
        cells = [
            world,
            setting,
            str(len(rows)),
            f"{deployed:.1%}",
            f"{start:.4f}",
            f"{end:.4f}",
            f"{lowest:.4f}",
        ]
        print("|", " | ".join(cells), "|")


def _start(row: dict[str, Any]) -> float:
    return float(row["start"])


def _end(row: dict[str, Any]) -> float:
    return float(row["values"][-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m experiments.safety_tables")
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help=run_world.__doc__)
    running.add_argument("world", choices=SETTINGS)
    running.add_argument("first", type=int, help="the first seed")
    running.add_argument("last", type=int, help="the last seed")
    running.add_argument("path", type=Path, help="the file of results, one JSON object per line")
    running.set_defaults(command=run_world)
    showing = commands.add_parser("show", help=show.__doc__)
    showing.add_argument("paths", type=Path, nargs="+", help="files that `run` wrote")
    showing.set_defaults(command=show)
    options = vars(parser.parse_args())
    options.pop("command")(**options)
