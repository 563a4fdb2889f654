"""Trees on clicks against LightGBM's own lambdarank, on the same displays and with as many trees."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from rankloop import extras, synthetic
from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.relevance import ClickTask, train_trees_on_clicks
from rankloop.relevance.click_model import QUERY_VARIANCE
from rankloop.relevance.logged_order import LoggedOrder, combine_trees, imitate_order
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Split

# With the trees that imitate the logged order, which are not counted among the trees.
RATIO = Target("fit_ratio", "times", "≤", 2)

TREES, FEATURES, PER_QUERY = 200, 40, 5
SPEC = LightGBMSpec(rounds=TREES, patience=TREES, objective="click-likelihood")
USERS = users("paper@5")


def measure(effort: Effort) -> dict[str, Result]:
    """Grow trees on the clicks of a production ranker that uses one feature; a fifth of them is held out."""
    data = synthetic(queries=2 * effort.loop_queries, features=FEATURES, seed=1)
    parts = [_gather(split, seed) for seed, split in enumerate((data.train, data.validation))]
    bias = bias_of(USERS)

    def own() -> object:
        rng = np.random.default_rng(0)
        train, held_out = (
            ClickTask.of(split.features, statistics, bias, variance=QUERY_VARIANCE)
            for split, statistics, _ in parts
        )
        grown = train_trees_on_clicks(train, held_out, SPEC, rng=rng)
        orders = [LoggedOrder.of(split, statistics, rng) for split, statistics, _ in parts]
        on_order = imitate_order((orders[0], orders[1]), rng)
        return combine_trees(grown.model, on_order, held_out, start=0.0)  # type: ignore[arg-type]

    def lambdarank() -> object:
        lightgbm = extras.load("lightgbm")
        ranking = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [5], "num_threads": 1}
        train = lightgbm.Dataset(**_rows(*parts[0]))
        valid = lightgbm.Dataset(**_rows(*parts[1]), reference=train)
        # It evaluates after every tree, as it does to stop early.
        return lightgbm.train({**DEFAULTS, **SPEC.parameters, **ranking}, train, TREES, valid_sets=[valid])

    ours, theirs = best_times(min(effort.rounds, 3), own, lambdarank)
    return {
        RATIO.name: Result(
            ours / theirs,
            f"{TREES} trees in {ours:.1f} CPU s, imitation included; LightGBM's lambdarank {theirs:.1f} s",
        )
    }


def _gather(split: Split, seed: int) -> tuple[Split, Statistics, Impressions]:
    scores = 3.0 * split.features[:, 0].astype(np.float64)
    rng = np.random.default_rng(seed)
    shown = gather_log(scores, split.offsets, split.labels / 4, USERS, PER_QUERY * split.n_queries, rng)
    exposure = Exposure.of_scores(scores, split.offsets, bias_of(USERS))
    statistics = of_impressions(
        "production",
        split.offsets,
        exposure,
        queries=shown.queries,
        rankings=shown.rankings,
        clicks=shown.clicks,
    )
    return split, statistics, shown


def _rows(split: Split, _statistics: Statistics, shown: Impressions) -> dict[str, object]:
    """One row per displayed document, and one group per impression."""
    number, rank = np.nonzero(shown.rankings >= 0)
    documents = split.offsets[shown.queries[number]] + shown.rankings[number, rank]
    labels = shown.clicks[number, rank].astype(np.float64)
    return {"data": split.features[documents], "label": labels, "group": np.bincount(number)}


FIT = Benchmark((RATIO,), measure)
