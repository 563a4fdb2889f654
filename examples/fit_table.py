"""What a log of three policies teaches `rankloop fit`, and LightGBM's own ways: a table of docs/offline.md.

    python -m examples.fit_table run FIRST LAST FILE           # seeds FIRST to LAST, one line of FILE each
    python -m examples.fit_table run FIRST LAST FILE SPREAD    # with policies that explore more, or less
    python -m examples.fit_table show FILE                     # means over seeds with 90 % intervals

Each seed has 2,000 Yahoo-shaped queries of 100 features and the paper's users. A production ranker (trained
on 13 labelled queries) logs a third of 10⁶ impressions, a policy fitted to them the next third, and one
fitted to both the last; each draws its rankings from scores whose standard deviation within a query is SPREAD
(1.5 if not given; with 5 policies hardly explore). NDCG@5 is that of the true labels of the 467 test queries,
sorted by score. `rankloop fit` is given the users' true bias, or
one that was estimated from the same log. Lines that are in the file already are not run again.

LightGBM's own objective, lambdarank, is given the clicks as people give them to it: one row a document with
its clicks a display as the label, or one group an impression with clicks as labels, without and with
LightGBM's `position`. The latter two take one row a displayed document, 5 · 10⁶ of them, of which a sample of
a fifth is used: with all, one fit takes hours. All of them stop on held-out queries by NDCG@5 of their own
labels, and the number of leaves is chosen by the same.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

import rankloop
from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.summary import Mean
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.offline import open_log
from rankloop.ragged import segment_std
from rankloop.types import Dataset, Float64, Model, Split

IMPRESSIONS, POLICIES, SPREAD = 1_000_000, 3, 1.5
# Of the impressions, for methods that take one row a displayed document.
SAMPLE = 200_000
HELD_OUT = 0.2
METRIC = "ndcg@5"
USERS = users("paper@5")
TREES = LightGBMSpec()
LEAVES = (7, 31)
# Labels of lambdarank are whole numbers: click rates are told in so many steps.
LEVELS = 30


@dataclass(frozen=True, eq=False)
class World:
    """A log of three policies, and what made it.

    Attributes:
        data: the collection; its test queries are never logged.
        split: the queries that are logged: training and validation queries.
        parts: what each policy gathered.
        folder: where the log is.
    """

    data: Dataset
    split: Split
    parts: list[PolicyTraffic]
    folder: Path


def joined(data: Dataset) -> Split:
    """Training and validation queries as one split."""
    first, second = data.train, data.validation
    return Split.build(
        np.concatenate([first.features, second.features]),
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.sizes, second.sizes]),
    )


def soft(model: Model, split: Split, spread: float) -> Float64:
    """A model's scores, such that they spread by so much within a query."""
    scores = model.scores(split.features)
    result: Float64 = scores * (spread / segment_std(scores, split.offsets).mean())
    return result


def world_of(seed: int, folder: Path, spread: float) -> World:
    """Let three policies log, the later two fitted to what was logged before."""
    data = rankloop.synthetic(queries=2_000, features=100, seed=seed)
    split, rng = joined(data), np.random.default_rng([seed, 1])
    model: Model = production_ranker(data, seed=seed)
    parts: list[PolicyTraffic] = []
    for number in range(POLICIES):
        scores = soft(model, split, spread)
        interactions = gather_log(
            scores, split.offsets, split.labels / 4, USERS, IMPRESSIONS // POLICIES, rng
        )
        parts.append(PolicyTraffic(f"policy-{number}", scores, interactions))
        write_simulated(folder, split, parts, overwrite=True)
        if number < POLICIES - 1:
            model = open_log(folder).fit("mlp", bias=bias_of(USERS), seed=seed).model
    return World(data, split, parts, folder)


def held_out_queries(world: World, seed: int) -> Any:
    """Which queries LightGBM's own ways stop on: as many as `fit` holds out."""
    chosen = np.zeros(world.split.n_queries, np.bool_)
    count = round(HELD_OUT * world.split.n_queries)
    chosen[np.random.default_rng([seed, 2]).choice(len(chosen), count, replace=False)] = True
    return chosen


def fitted(world: World, model: str, seed: int, *, estimate: bool = False) -> Model:
    """What `rankloop fit` gives, with the bias that users have or with one estimated from the log."""
    log, bias = open_log(world.folder), bias_of(USERS)
    if estimate:
        bias = log.estimate_bias(resamples=0, held_out=False, seed=seed).bias
    return log.fit(model, bias=bias, seed=seed).model


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
            "num_threads": rankloop.ragged.threads(),
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


def click_rates(world: World, seed: int) -> Any:
    """One row a document that was shown, its label the clicks a display."""
    displays, clicks = (
        sum(getattr(part.interactions.counts(world.split.offsets), name).sum(axis=1) for part in world.parts)  # type: ignore[attr-defined]
        for name in ("displays_by_rank", "clicks_by_rank")
    )
    labels = np.round(LEVELS * clicks / np.maximum(displays, 1))
    shown = displays > 0
    query = np.repeat(np.arange(world.split.n_queries), world.split.sizes)
    held_out = held_out_queries(world, seed)

    def rows(which: Any) -> dict[str, Any]:
        chosen = np.flatnonzero(shown & which[query])
        sizes = np.bincount(query[chosen], minlength=len(which))
        return {"data": world.split.features[chosen], "label": labels[chosen], "group": sizes[sizes > 0]}

    train = lightgbm.Dataset(**rows(~held_out), free_raw_data=False)
    return lambdarank(train, lightgbm.Dataset(**rows(held_out), reference=train), seed, LEVELS)


def single_clicks(world: World, seed: int, *, position: bool) -> Any:
    """One group an impression, its labels the clicks; with or without the positions."""
    rng = np.random.default_rng([seed, 3])
    logs: list[Impressions] = [part.interactions for part in world.parts]  # type: ignore[misc]
    queries, rankings, clicks = (
        np.concatenate([getattr(log, name) for log in logs]) for name in ("queries", "rankings", "clicks")
    )
    chosen = rng.choice(len(queries), SAMPLE, replace=False)
    held_out = held_out_queries(world, seed)

    def rows(impressions: Any) -> dict[str, Any]:
        number, rank = np.nonzero(rankings[impressions] >= 0)
        # In random order: LightGBM's NDCG leaves ties as they stand, and they stood by rank.
        order = np.lexsort((rng.random(len(number)), number))
        rank, own = rank[order], impressions[number[order]]
        items = world.split.offsets[queries[own]] + rankings[own, rank]
        columns = {"data": world.split.features[items], "label": clicks[own, rank].astype(np.float64)}
        sizes = np.bincount(number)
        return {**columns, "group": sizes, **({"position": rank} if position else {})}

    inside = held_out[queries[chosen]]
    train = lightgbm.Dataset(**rows(chosen[~inside]), free_raw_data=False)
    valid = lightgbm.Dataset(**rows(chosen[inside]), reference=train)
    return lambdarank(train, valid, seed, 1)


Scores = Callable[[World, int], Float64]


def of_model(name: str, *, estimate: bool = False) -> Scores:
    """Test scores of what `rankloop fit` gives."""
    return lambda world, seed: fitted(world, name, seed, estimate=estimate).scores(world.data.test.features)


def of_booster(grown: Callable[[World, int], Any]) -> Scores:
    """Test scores of LightGBM's own trees."""
    return lambda world, seed: np.asarray(grown(world, seed).predict(world.data.test.features))


METHODS: dict[str, Scores] = {
    "production ranker": lambda world, seed: production_ranker(world.data, seed=seed).scores(
        world.data.test.features
    ),
    "lambdarank, click rates": of_booster(click_rates),
    "`rankloop fit`, LightGBM": of_model("lightgbm"),
    "`rankloop fit`, LightGBM, bias estimated": of_model("lightgbm", estimate=True),
    "`rankloop fit`, MLP": of_model("mlp"),
    "lambdarank, single clicks": of_booster(lambda world, seed: single_clicks(world, seed, position=False)),
    "lambdarank, single clicks, `position`": of_booster(
        lambda world, seed: single_clicks(world, seed, position=True)
    ),
    "supervised, LightGBM": lambda world, seed: rankloop.train(
        world.data, "lightgbm", metric=METRIC, seed=seed
    ).model.scores(world.data.test.features),
}


def run(first: int, last: int, path: Path, spread: float) -> None:
    """Run what is missing, and add it to the file."""
    done = {(row["method"], row["seed"], row["spread"]) for row in read(path)}
    for seed in range(first, last + 1):
        missing = [method for method in METHODS if (method, seed, spread) not in done]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            world = world_of(seed, Path(folder) / "log", spread)
            for method in missing:
                scores = METHODS[method](world, seed)
                value = rankloop.ranking_metrics(scores, world.data.test, [METRIC])[METRIC]
                row = {"method": method, "seed": seed, "spread": spread, METRIC: value}
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, if it exists."""
    return iter([json.loads(line) for line in path.read_text().splitlines()] if path.exists() else [])


def show(path: Path) -> None:
    """Print means over seeds, as tables in Markdown; differences are taken seed by seed."""
    rows = list(read(path))
    for spread in sorted({row["spread"] for row in rows}):
        print(f"\nspread {spread:g}\n")
        show_one([row for row in rows if row["spread"] == spread])


def show_one(rows: list[dict[str, Any]]) -> None:
    """Print the table of one spread."""
    values: dict[str, dict[int, float]] = {method: {} for method in METHODS}
    for row in rows:
        values[row["method"]][row["seed"]] = row[METRIC]
    best = values["`rankloop fit`, LightGBM"]
    print(f"| | {METRIC} | `rankloop fit`, LightGBM − this | seeds |\n|---|---|---|---|")
    for method, by_seed in values.items():
        if not by_seed:
            continue
        gains = [best[seed] - value for seed, value in by_seed.items() if seed in best]
        gain = str(Mean.of(gains)) if gains and by_seed is not best else ""
        print(f"| {method} | {Mean.of(list(by_seed.values()))} | {gain} | {len(by_seed)} |")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        first_seed, last_seed, file, *more = sys.argv[2:]
        run(int(first_seed), int(last_seed), Path(file), float(more[0]) if more else SPREAD)
    else:
        show(Path(sys.argv[2]))
