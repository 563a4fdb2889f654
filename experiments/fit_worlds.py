"""What logs of several worlds teach every kind of learner: tables of docs/offline.md.

    python -m experiments.fit_worlds run RESULTS.jsonl --seeds 0 1 --worlds yahoo smooth --densities 3 30 300
    python -m experiments.fit_worlds show RESULTS.jsonl

A world is a collection, what its users find relevant, and a ranker trained on 20 labelled queries that logs
all impressions, drawn from its scores at a standard deviation of 3 within a query. NDCG@5 is that of the
labels of test queries that are not in the log, sorted by score. `run` adds a line per world, density, seed,
and learner, and skips those that are in the file. Averages are of scores standardised within queries.
Files come from the folder RANKLOOP_DATA.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

import rankloop
from experiments.command import run as run_command
from experiments.fit_table import (
    TREES,
    World,
    held_out_queries,
    join,
    of_booster,
    train_on_click_rates,
    train_on_single_clicks,
)
from experiments.rows import append_row, read_rows
from rankloop.bias import BiasOptions
from rankloop.clicks import bias_of, gather_log, users
from rankloop.data import dataset
from rankloop.data.synthetic import SHAPES, synthetic
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.summary import Mean
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import open_log
from rankloop.ragged import segment_index, segment_std, segment_sum
from rankloop.types import Dataset, Float64, Split

USERS, METRIC, LABELLED, SPREAD = users("paper@5"), "ndcg@5", 20, 3.0
QUERIES, FEATURES = 1_500, 40
# Standard deviation of what all documents of a query add to the logit of their relevance.
QUERY_EFFECT = 1.5
DATA = Path(os.environ.get("RANKLOOP_DATA", "data"))


def smooth(seed: int) -> Dataset:
    """A world of another kind: relevance is a smooth function of eight of twenty features, without noise."""
    rng = np.random.default_rng([seed, 11])
    data = synthetic(
        replace(SHAPES["yahoo"], zeros=0.0, documents=20), queries=QUERIES, features=20, seed=seed
    )
    weights, phases = rng.normal(0.0, 1.5, 8), rng.uniform(0.0, np.pi, 8)

    def graded(split: Split) -> Split:
        waves = np.sin(2.0 * split.features[:, :8] + phases) @ weights
        return replace(split, labels=np.round(400.0 * expit(2.0 * (waves - waves.mean()) - 1.0)) / 100.0)

    return replace(data, train=graded(data.train), validation=graded(data.validation), test=graded(data.test))


def graded_as(data: Dataset, factor: float) -> Dataset:
    """The same with labels on the scale of 0 to 4."""
    parts = {name: getattr(data, name) for name in ("train", "validation", "test")}
    return replace(
        data, **{name: replace(split, labels=split.labels * factor) for name, split in parts.items()}
    )


WORLDS: dict[str, Callable[[int], Dataset]] = {
    "yahoo": lambda seed: synthetic(queries=QUERIES, features=FEATURES, seed=seed),
    "mslr": lambda seed: synthetic(
        replace(SHAPES["mslr"], documents=40, max_documents=100),
        queries=QUERIES,
        features=FEATURES,
        seed=seed,
    ),
    "noisy": lambda seed: synthetic(queries=QUERIES, features=FEATURES, noise=2.0, seed=seed),
    "smooth": smooth,
    "query-effects": lambda seed: synthetic(queries=QUERIES, features=FEATURES, seed=100 + seed),
    "mq2008": lambda _: graded_as(dataset(str(DATA / "mq2008")), 2.0),
}


def make_world(name: str, density: float, seed: int, folder: Path) -> World:
    """Let the ranker log."""
    data = WORLDS[name](seed)
    split, rng = join(data), np.random.default_rng([seed, 1])
    relevance = split.labels / 4.0
    if name == "query-effects":
        shift = QUERY_EFFECT * rng.standard_normal(split.n_queries)
        relevance = expit(logit(np.clip(relevance, 0.02, 0.98)) + shift[segment_index(split.offsets)])
    ranker = production_ranker(data, n_queries=LABELLED, seed=seed)
    scores = ranker.scores(split.features)
    scores = scores * (SPREAD / segment_std(scores, split.offsets).mean())
    shown = gather_log(scores, split.offsets, relevance, USERS, round(density * split.n_queries), rng)
    parts = [PolicyTraffic("production", scores, shown)]
    write_simulated(folder, split, parts)
    return World(data, split, ranker, parts, folder, seed)


def train_xgboost(world: World) -> Float64:
    """XGBoost's unbiased lambdarank: one group per impression, clicks as labels, in the order of display."""
    import xgboost

    (shown,) = (part.impressions for part in world.parts)
    number, rank = np.nonzero(shown.rankings >= 0)  # type: ignore[union-attr]
    documents = world.split.offsets[shown.queries[number]] + shown.rankings[number, rank]  # type: ignore[union-attr]
    labels = shown.clicks[number, rank].astype(np.float64)  # type: ignore[union-attr]
    held_out = held_out_queries(world)[shown.queries][number]  # type: ignore[union-attr]

    def rows(which: Any) -> Any:
        rows_of, sizes = documents[which], np.bincount(number[which], minlength=number.max() + 1)
        group = sizes[sizes > 0]
        return xgboost.DMatrix(world.split.features[rows_of], labels[which], group=group, nthread=1)

    parameters = {
        "objective": "rank:ndcg", "lambdarank_unbiased": True, "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": 5, "ndcg_exp_gain": False, "eta": TREES.rate, "max_leaves": 31,
        "max_depth": 0, "grow_policy": "lossguide", "subsample": 0.8, "seed": world.seed,
        "eval_metric": "ndcg@5", "nthread": 1,
    }  # fmt: skip
    booster = xgboost.train(
        parameters,
        rows(~held_out),
        TREES.rounds,
        evals=[(rows(held_out), "held out")],
        early_stopping_rounds=TREES.patience,
        verbose_eval=False,
    )
    last = booster.best_iteration + 1
    found: Float64 = booster.predict(
        xgboost.DMatrix(world.data.test.features, nthread=1), iteration_range=(0, last)
    ).astype(np.float64)
    return found


def fitted(model: str, *, estimate: bool = False) -> Callable[[World], Float64]:
    """The test scores of `rankloop fit`."""

    def scores(world: World) -> Float64:
        log, bias = open_log(world.folder), bias_of(USERS)
        if estimate:
            bias = log.estimate_bias(BiasOptions(resamples=0, held_out=False), seed=world.seed).bias
        model_of = log.fit(model, bias=bias, judge="none", seed=world.seed).model
        return model_of.scores(world.data.test.features)

    return scores


LEARNERS: dict[str, Callable[[World], Float64]] = {
    "production": lambda world: world.production.scores(world.data.test.features),
    "trees, likelihood": fitted("lightgbm(objective=click-likelihood)"),
    "trees, lambdarank": fitted("lightgbm(objective=lambdarank)"),
    "network, likelihood": fitted("mlp(objective=click-likelihood)"),
    "network, weights": fitted("mlp(objective=weights)"),
    "two-tower": fitted("two-tower"),
    "trees, click rates": fitted("lightgbm(objective=click-rates)"),
    "trees, IPS": fitted("lightgbm(objective=ips)"),
    "lambdarank, click rates": of_booster(train_on_click_rates),
    "lambdarank, `position`": of_booster(lambda world: train_on_single_clicks(world, position=True)),
    "XGBoost, unbiased": train_xgboost,
    "network, likelihood, bias estimated": fitted("mlp(objective=click-likelihood)", estimate=True),
    "trees, likelihood, bias estimated": fitted("lightgbm(objective=click-likelihood)", estimate=True),
}
# What is averaged, two or all three at a time.
AVERAGED = ("trees, likelihood", "trees, lambdarank", "network, likelihood")
REFERENCE = "network, likelihood"
DEFAULT = [name for name in LEARNERS if "estimated" not in name]


def standardised(scores: Float64, offsets: Any) -> Float64:
    """Scores in standard deviations from the mean of their query."""
    query, deviation = segment_index(offsets), segment_std(scores, offsets)
    centred = scores - (segment_sum(scores, offsets) / np.diff(offsets))[query]
    result: Float64 = centred / np.where(deviation > 0.0, deviation, 1.0)[query]
    return result


def run(
    path: Path, seeds: Sequence[int], worlds: Sequence[str], densities: Sequence[float], chosen: Sequence[str]
) -> None:
    """Run what is missing, and add it to the file."""
    done = {(row["world"], row["density"], row["seed"], row["learner"]) for row in read_rows(path)}
    for seed in seeds:
        for density in densities:
            for name in worlds:
                missing = [learner for learner in chosen if (name, density, seed, learner) not in done]
                if not missing:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    world = make_world(name, density, seed, Path(folder) / "log")
                    test, scores, seconds = world.data.test, {}, {}
                    for learner in missing:
                        start = time.process_time()
                        scores[learner] = LEARNERS[learner](world)
                        seconds[learner] = time.process_time() - start
                    if set(AVERAGED) <= scores.keys():
                        for size in (2, 3):
                            for parts in combinations(AVERAGED, size):
                                mean = sum(standardised(scores[part], test.offsets) for part in parts)
                                scores[" + ".join(parts)] = np.asarray(mean)
                    for learner, values in scores.items():
                        value = rankloop.ranking_metrics(values, test, [METRIC])[METRIC]
                        row = {"world": name, "density": density, "seed": seed, "learner": learner}
                        append_row(path, {**row, METRIC: value, "cpu": seconds.get(learner)})


def show(path: Path) -> None:
    """Print a table per density: means over seeds by world, and paired differences over all."""
    rows = read_rows(path)
    found = {(r["world"], r["density"], r["seed"], r["learner"]): r[METRIC] for r in rows}
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    for density in sorted({row["density"] for row in rows}):
        cells = sorted({(r["world"], r["seed"]) for r in rows if r["density"] == density})
        worlds = [world for world in WORLDS if any(cell[0] == world for cell in cells)]
        print(f"\n{density:g} impressions per query\n\n| | {' | '.join(worlds)} | network − this | least |")
        print("|---" * (len(worlds) + 3) + "|")
        for learner in learners:
            means = []
            for world in worlds:
                values = [found.get((world, density, s, learner)) for w, s in cells if w == world]
                known = [value for value in values if value is not None]
                means.append(f"{np.mean(known):.4f}".lstrip("0") if known else "")
            pairs = [
                found[w, density, s, REFERENCE] - found[w, density, s, learner]
                for w, s in cells
                if {(w, density, s, learner), (w, density, s, REFERENCE)} <= found.keys()
            ]
            gain = f"{Mean.of(pairs)} | {min(pairs):.4f}" if len(pairs) > 1 else " | "
            print(f"| {learner} | {' | '.join(means)} | {gain} |")


def main() -> None:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("path", type=Path)
    runs.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    runs.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    runs.add_argument("--densities", type=float, nargs="+", default=[3, 30, 300])
    runs.add_argument("--learners", nargs="+", choices=LEARNERS, default=DEFAULT)
    shows = commands.add_parser("show")
    shows.add_argument("path", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run(given.path, given.seeds, given.worlds, given.densities, given.learners)
    else:
        show(given.path)


if __name__ == "__main__":
    run_command(main)
