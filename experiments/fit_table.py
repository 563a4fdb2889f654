"""What logs teach `rankloop fit`, and LightGBM's own objectives: tables of docs/results/fit.md.

    python -m experiments.fit_table run RESULTS.jsonl --seeds 0 1 2 --settings long-tail sparse-1
    python -m experiments.fit_table show RESULTS.jsonl

A setting is a log: how many queries there are, how often each comes on average, how much the policies that
log explore. `run` appends a line per setting, seed and method as soon as it is known, and skips those that
are in the file already. `show` prints all seeds, and a table per setting: means over seeds with 90 %
intervals, and differences that are paired by seed. The rows of docs/results/fit.md are in
experiments/results.

Every seed has another Yahoo-shaped collection and the paper's users. Three rankers, trained on 13, 26 and 52
labelled queries, log a third of the impressions each; they draw rankings from scores whose standard deviation
within a query is SPREAD (1.5, or 5 where policies hardly explore). NDCG@5 is that of the true labels of test
queries that are not in the log, sorted by score.

LightGBM's own objective, lambdarank, is given the clicks as people give them to it: one row per document with
its clicks per display as the label, or one group per impression with clicks as labels, without and with
LightGBM's `position`. The latter two take one row per displayed document; of more than 200,000 impressions, a
sample of so many is used. All of them stop on held-out queries by NDCG@5 of their own labels, and choose 7 or
31 leaves in the same way.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

import rankloop
from experiments.rows import read_rows
from rankloop.bias import BiasOptions
from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.summary import Mean
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.offline import open_log
from rankloop.ragged import segment_index, segment_std, threads
from rankloop.types import Dataset, Float64, Model, Split

# Labelled queries of the rankers that log.
LABELLED = (13, 26, 52)
# The share of a collection's queries that is logged; the others are the test.
LOGGED = (19_944 + 2_994) / (19_944 + 2_994 + 6_983)
# The most impressions for methods that take one row per displayed document.
SAMPLE = 200_000
HELD_OUT = 0.2
METRIC = "ndcg@5"
USERS = users("paper@5")
TREES = LightGBMSpec()
LEAVES = (7, 31)
# Labels of lambdarank are whole numbers: click rates are rounded to so many steps.
LEVELS = 30


@dataclass(frozen=True)
class Setting:
    """The size of a log, and how much its policies explore.

    Attributes:
        queries: the number of queries that may come.
        per_query: impressions per query, on average.
        spread: the standard deviation of the policies' scores within a query.
        features: features per document.
    """

    queries: int
    per_query: float
    spread: float
    features: int


SETTINGS = {
    "long-tail": Setting(6_000, 5, 5.0, 100),
    "sparse-1": Setting(20_000, 1, 1.5, 40),
    "sparse-3": Setting(20_000, 3, 1.5, 40),
    "sparse-10": Setting(20_000, 10, 1.5, 40),
    "sparse-1-peaked": Setting(20_000, 1, 5.0, 40),
    "sparse-3-peaked": Setting(20_000, 3, 5.0, 40),
    "sparse-10-peaked": Setting(20_000, 10, 5.0, 40),
    "dense": Setting(1_533, 652, 1.5, 100),
    "dense-peaked": Setting(1_533, 652, 5.0, 100),
}


@dataclass(frozen=True, eq=False)
class World:
    """A log of three policies, and what made it.

    Attributes:
        data: the collection; its test queries are never logged.
        split: the queries that are logged: training and validation queries.
        production: the first of the rankers that logged.
        parts: what each policy gathered.
        folder: where the log is.
        seed: the seed of everything.
    """

    data: Dataset
    split: Split
    production: Model
    parts: list[PolicyTraffic]
    folder: Path
    seed: int


def join(data: Dataset) -> Split:
    """Training and validation queries as one split."""
    first, second = data.train, data.validation
    return Split.build(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.sizes, second.sizes]),
    )


def make_world(setting: Setting, seed: int, folder: Path) -> World:
    """Let three rankers log."""
    data = rankloop.synthetic(queries=round(setting.queries / LOGGED), features=setting.features, seed=seed)
    split, rng = join(data), np.random.default_rng([seed, 1])
    impressions = round(setting.per_query * split.n_queries / len(LABELLED))
    rankers = [production_ranker(data, n_queries=labelled, seed=seed) for labelled in LABELLED]
    parts = []
    for number, ranker in enumerate(rankers):
        scores = ranker.scores(split.features)
        scores = scores * (setting.spread / segment_std(scores, split.offsets).mean())
        shown = gather_log(scores, split.offsets, split.labels / 4, USERS, impressions, rng)
        parts.append(PolicyTraffic(f"policy-{number}", scores, shown))
    write_simulated(folder, split, parts)
    return World(data, split, rankers[0], parts, folder, seed)


def held_out_queries(world: World) -> Any:
    """Which queries LightGBM's own objectives stop on: as many as `fit` holds out."""
    chosen = np.zeros(world.split.n_queries, np.bool_)
    count = round(HELD_OUT * world.split.n_queries)
    chosen[np.random.default_rng([world.seed, 2]).choice(len(chosen), count, replace=False)] = True
    return chosen


def fit_log(world: World, model: str, *, estimate: bool = False) -> Model:
    """What `rankloop fit` gives, with the bias that users have or with one estimated from the log."""
    log, bias = open_log(world.folder), bias_of(USERS)
    if estimate:
        bias = log.estimate_bias(BiasOptions(resamples=0, held_out=False), seed=world.seed).bias
    return log.fit(model, bias=bias, judge="none", seed=world.seed).model


def lambdarank(train: lightgbm.Dataset, valid: lightgbm.Dataset, seed: int, levels: int) -> Any:
    """The best of LightGBM's own trees, by what they stop on."""
    best, best_value = None, -np.inf
    for leaves in LEAVES:
        parameters = {
            **DEFAULTS,
            **TREES.parameters,
            # LightGBM's own default; ours is for curvatures of another size.
            "min_sum_hessian_in_leaf": 1e-3,
            "num_leaves": leaves,
            "seed": seed,
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [5],
            "label_gain": list(range(levels + 1)),
            "num_threads": threads(),
        }
        booster = lightgbm.train(
            parameters,
            train,
            num_boost_round=TREES.rounds,
            valid_sets=[valid],
            callbacks=[lightgbm.early_stopping(TREES.patience, verbose=False)],
        )
        value = booster.best_score["valid_0"]["ndcg@5"]
        if value > best_value:
            best, best_value = booster, value
    return best


def train_on_documents(world: World, labels: Float64, chosen: Any, levels: int) -> Any:
    """Lambdarank on one row per document."""
    query = segment_index(world.split.offsets)
    held_out = held_out_queries(world)

    def rows(which: Any) -> dict[str, Any]:
        documents = np.flatnonzero(chosen & which[query])
        sizes = np.bincount(query[documents], minlength=len(which))
        return {
            "data": world.split.features[documents],
            "label": labels[documents],
            "group": sizes[sizes > 0],
        }

    train = lightgbm.Dataset(**rows(~held_out), free_raw_data=False)
    return lambdarank(train, lightgbm.Dataset(**rows(held_out), reference=train), world.seed, levels)


def train_on_click_rates(world: World) -> Any:
    """One row per document that was shown; the label is the clicks per display."""
    displays, clicks = (
        sum(getattr(part.impressions.counts(world.split.offsets), name).sum(axis=1) for part in world.parts)  # type: ignore[attr-defined]
        for name in ("displays_by_position", "clicks_by_position")
    )
    labels = np.round(LEVELS * clicks / np.maximum(displays, 1))
    return train_on_documents(world, labels, displays > 0, LEVELS)


def train_on_single_clicks(world: World, *, position: bool) -> Any:
    """One group per impression, with clicks as labels; with or without the positions."""
    rng = np.random.default_rng([world.seed, 3])
    logs: list[Impressions] = [part.impressions for part in world.parts]  # type: ignore[misc]
    queries, rankings, clicks = (
        np.concatenate([getattr(log, name) for log in logs]) for name in ("queries", "rankings", "clicks")
    )
    chosen = rng.choice(len(queries), min(SAMPLE, len(queries)), replace=False)
    held_out = held_out_queries(world)

    def rows(impressions: Any) -> dict[str, Any]:
        number, rank = np.nonzero(rankings[impressions] >= 0)
        # In random order: LightGBM's NDCG leaves ties as they stand, and they stood by rank.
        order = np.lexsort((rng.random(len(number)), number))
        rank, own = rank[order], impressions[number[order]]
        documents = world.split.offsets[queries[own]] + rankings[own, rank]
        columns = {"data": world.split.features[documents], "label": clicks[own, rank].astype(np.float64)}
        sizes = np.bincount(number)
        return {**columns, "group": sizes, **({"position": rank} if position else {})}

    inside = held_out[queries[chosen]]
    train = lightgbm.Dataset(**rows(chosen[~inside]), free_raw_data=False)
    valid = lightgbm.Dataset(**rows(chosen[inside]), reference=train)
    return lambdarank(train, valid, world.seed, 1)


def train_on_labels(world: World) -> Any:
    """Lambdarank on the true labels of all documents: what no click can tell better."""
    everything = np.ones(world.split.n_documents, np.bool_)
    return train_on_documents(world, world.split.labels.astype(np.float64), everything, 4)


Scores = Callable[[World], Float64]


def of_model(model: Callable[[World], Model]) -> Scores:
    """The test scores of a model of rankloop."""
    return lambda world: model(world).scores(world.data.test.features)


def of_booster(grown: Callable[[World], Any]) -> Scores:
    """The test scores of LightGBM's own trees."""
    return lambda world: np.asarray(grown(world).predict(world.data.test.features))


FIT = "`rankloop fit`"
METHODS: dict[str, Scores] = {
    "production ranker": of_model(lambda world: world.production),
    FIT: of_model(lambda world: fit_log(world, "lightgbm")),
    "lambdarank, `position`": of_booster(lambda world: train_on_single_clicks(world, position=True)),
    "lambdarank, single clicks": of_booster(lambda world: train_on_single_clicks(world, position=False)),
    "lambdarank, click rates": of_booster(train_on_click_rates),
    "`rankloop fit`, bias estimated": of_model(lambda world: fit_log(world, "lightgbm", estimate=True)),
    "`rankloop fit`, MLP": of_model(lambda world: fit_log(world, "mlp")),
    "lambdarank, true labels": of_booster(train_on_labels),
}
# On logs of 20,000 queries these take long and say little.
EXTRAS = ("`rankloop fit`, bias estimated", "`rankloop fit`, MLP", "lambdarank, true labels")


def methods_of(setting: Setting) -> list[str]:
    """The methods of a setting."""
    large = setting.queries >= SETTINGS["sparse-1"].queries
    return [method for method in METHODS if not (large and method in EXTRAS)]


def run(path: Path, seeds: Sequence[int], settings: Sequence[str], methods: Sequence[str] | None) -> None:
    """Run what is missing, and add it to the file."""
    done = {(row["setting"], row["seed"], row["method"]) for row in read_rows(path)}
    for seed in seeds:
        for name in settings:
            wanted = methods or methods_of(SETTINGS[name])
            missing = [method for method in wanted if (name, seed, method) not in done]
            if not missing:
                continue
            with tempfile.TemporaryDirectory() as folder:
                world = make_world(SETTINGS[name], seed, Path(folder) / "log")
                for method in missing:
                    start = time.process_time()
                    scores = METHODS[method](world)
                    seconds = time.process_time() - start
                    value = rankloop.ranking_metrics(scores, world.data.test, [METRIC])[METRIC]
                    row = {"setting": name, "seed": seed, "method": method, METRIC: value, "cpu": seconds}
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")


def show(path: Path) -> None:
    """Print all seeds, and a table per setting, in Markdown; differences are taken seed by seed."""
    rows = read_rows(path)
    show_seeds(rows)
    for name, setting in SETTINGS.items():
        of_setting = [row for row in rows if row["setting"] == name]
        if not of_setting:
            continue
        print(
            f"\n{name}: {setting.queries:,} queries, {setting.per_query:g} impressions each, spread "
            f"{setting.spread:g}\n\n| | {METRIC} | `rankloop fit` − this | seeds | CPU seconds |\n"
            f"|---|---|---|---|---|"
        )
        show_one(of_setting)


def show_seeds(rows: list[dict[str, Any]]) -> None:
    """Print a line per setting and seed for which all methods but the extras have run."""
    methods = [method for method in METHODS if method not in EXTRAS]
    print("| setting | seed | " + " | ".join(methods) + " |\n|---|---|" + "---|" * len(methods))
    found = {(row["setting"], row["seed"], row["method"]): row[METRIC] for row in rows}
    for name in SETTINGS:
        for seed in sorted({row["seed"] for row in rows if row["setting"] == name}):
            values = [found.get((name, seed, method)) for method in methods]
            if None not in values:
                cells = " | ".join(f"{value:.4f}".lstrip("0") for value in values)
                print(f"| {name} | {seed} | {cells} |")


def show_one(rows: list[dict[str, Any]]) -> None:
    """Print the rows of one setting."""
    values = {method: {row["seed"]: row for row in rows if row["method"] == method} for method in METHODS}
    best = values[FIT]
    for method, by_seed in values.items():
        if not by_seed:
            continue
        gains = [best[seed][METRIC] - row[METRIC] for seed, row in by_seed.items() if seed in best]
        gain = str(Mean.of(gains)) if len(gains) > 1 and method != FIT else ""
        mean = Mean.of([row[METRIC] for row in by_seed.values()])
        seconds = np.mean([row["cpu"] for row in by_seed.values()])
        print(f"| {method} | {mean} | {gain} | {len(by_seed)} | {seconds:.0f} |")


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.fit_table", description=__doc__.split("\n")[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run what is missing, and append it to the file")
    runs.add_argument("path", type=Path, metavar="RESULTS", help="a file of JSON lines")
    runs.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    runs.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    runs.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help="default: all")
    shows = commands.add_parser("show", help="print the tables")
    shows.add_argument("path", type=Path, metavar="RESULTS")
    given = parser.parse_args()
    if given.command == "run":
        run(given.path, given.seeds, given.settings, given.methods)
    else:
        show(given.path)


if __name__ == "__main__":
    main()
