"""The usual notebook and rankloop on the same CSV, and the truth: the table of docs/story.md.

    python -m experiments.story run RESULTS.jsonl --seeds 20
    python -m experiments.story show RESULTS.jsonl
    python -m experiments.story csv clicks.csv --seed 0

A shop has 5,000 searches for 300 queries of 20 documents each, and shows ten of them. Production ranks by
text match and past sales, which vary from search to search. Users look less at lower ranks and trust the
first ones (affine users); what they want depends on more columns than production uses, on a product of two of
them, and on a part that no column tells. All of this is simulated, so that relevance is known.

    notebook   LightGBM's LambdaMART on clicks, tuned on queries that are held out, and compared with
               production by NDCG@10 of the clicks of other queries that are held out
    evaluate   the same ranker and the same queries, compared by `rankloop.evaluate`
    fit        `rankloop.fit`, each query judged by a model that never saw it

The truth is the mean DCG@10 of relevance if the ranker orders what each of these searches showed, minus that
of production, on the scale of relevance that the bias has: a document of relevance 1 is always clicked at
rank 1, one of relevance 0 never at rank 10.

`run` appends a row per seed and skips those that are in the file already.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd

import rankloop
from experiments.command import run as run_command
from experiments.rows import Row, append_row, read_rows
from rankloop import Bias
from rankloop.bias.anchor import anchored
from rankloop.offline import Comparison
from rankloop.statistics.intervals import wilson
from rankloop.types import Float64

QUERIES, DOCUMENTS, SHOWN, SEARCHES = 300, 20, 10, 5_000
FEATURES = ("match", "sales", "rating", "reviews", "price", "age")
# How production's scores vary from search to search, against the spread of its columns.
VARIES = 1.0
# Of the queries, for the notebook: to tune by, and to test on.
TUNED, TESTED = 0.2, 0.2
# Leaves, learning rate, and least documents per leaf.
GRID = tuple(product((7, 31), (0.05, 0.1), (20, 100)))
DISCOUNTS = 1.0 / np.log2(np.arange(2.0, SHOWN + 2.0))
# How users look and trust: those of the paper (Oosterhuis & de Rijke, 2021), with less trust.
EXAMINED = np.arange(1.0, SHOWN + 1.0) ** -0.7
TRUSTED = 0.3 / np.arange(1.0, SHOWN + 1.0)
USERS = Bias(EXAMINED * (1.0 - TRUSTED), EXAMINED * TRUSTED, EXAMINED)


@dataclass(frozen=True)
class Shop:
    """Searches of a shop, and what is known only because it is simulated.

    Attributes:
        clicks: a row per document shown, as the CSV has it.
        relevance: float64, rows; on the scale of `anchored` users.
    """

    clicks: pd.DataFrame
    relevance: Float64

    def gain(self, scores: Float64, queries: set[str]) -> float:
        """How much more relevant the order of these scores is than the one that was shown: DCG@10."""
        inside = self.clicks["query"].isin(queries).to_numpy().reshape(-1, SHOWN).all(axis=1)
        relevance = self.relevance.reshape(-1, SHOWN)[inside]
        order = np.argsort(-scores.reshape(-1, SHOWN)[inside], axis=1, kind="stable")
        return float((np.take_along_axis(relevance, order, axis=1) - relevance).mean(axis=0) @ DISCOUNTS)


def simulate(seed: int) -> Shop:
    """The searches of one seed."""
    rng = np.random.default_rng([seed, 7])
    columns = {name: rng.normal(size=(QUERIES, DOCUMENTS)) for name in FEATURES}
    hidden = rng.normal(size=(QUERIES, DOCUMENTS))
    wish = (
        0.6 * columns["match"]
        + 0.3 * columns["sales"]
        + 0.6 * columns["rating"]
        - 0.4 * columns["price"]
        + 0.5 * columns["rating"] * columns["reviews"]
        + 0.6 * hidden
    )
    relevance = 0.8 / (1.0 + np.exp(1.5 - wish))
    popularity = rng.dirichlet(np.full(QUERIES, 1.0))
    query = rng.choice(QUERIES, SEARCHES, p=popularity)
    usual = columns["match"] + columns["sales"]
    race = usual[query] + VARIES * rng.gumbel(size=(SEARCHES, DOCUMENTS))
    shown = np.argsort(-race, axis=1)[:, :SHOWN]
    chance = np.take_along_axis(relevance[query], shown, axis=1)
    clicked = rng.random(chance.shape) < USERS.alpha * chance + USERS.beta
    rows, documents = np.repeat(query, SHOWN), shown.ravel()
    frame = pd.DataFrame(
        {
            "search": np.repeat(np.arange(SEARCHES), SHOWN),
            "query": [f"query {number}" for number in rows],
            "sku": [f"sku-{q}-{d}" for q, d in zip(rows, documents, strict=True)],
            "position": np.tile(np.arange(1, SHOWN + 1), SEARCHES),
            "clicked": clicked.ravel().astype(int),
            **{name: values[rows, documents].round(4) for name, values in columns.items()},
        }
    )
    # α_k R + β_k = α'_k R' + β'_k
    scale = anchored(USERS)
    return Shop(frame, (USERS.alpha[0] * chance.ravel() + USERS.beta[0] - scale.beta[0]) / scale.alpha[0])


def ndcg(clicks: Float64, scores: Float64) -> float:
    """NDCG@10 of clicks, over searches with a click: what notebooks compute."""
    found = clicks.reshape(-1, SHOWN)
    order = np.argsort(-scores.reshape(-1, SHOWN), axis=1, kind="stable")
    best = -np.sort(-found, axis=1) @ DISCOUNTS
    some = best > 0
    return float(
        (np.take_along_axis(found, order, axis=1) @ DISCOUNTS)[some] @ (1.0 / best[some]) / some.sum()
    )


def tuned_ranker(clicks: pd.DataFrame, seed: int) -> tuple[lightgbm.LGBMRanker, set[str]]:
    """What the usual notebook trains, and the queries that it tests on."""
    names = np.random.default_rng([seed, 9]).permutation(clicks["query"].unique())
    tested, tuned = (int(share * len(names)) for share in (TESTED, TESTED + TUNED))
    test, validation = set(names[:tested]), clicks[clicks["query"].isin(names[tested:tuned])]
    train = clicks[clicks["query"].isin(names[tuned:])]
    best, most = None, -np.inf
    for leaves, rate, least in GRID:
        ranker = lightgbm.LGBMRanker(
            n_estimators=300,
            num_leaves=leaves,
            learning_rate=rate,
            min_child_samples=least,
            random_state=seed,
            n_jobs=1,
            verbose=-1,
        )
        ranker.fit(
            train[list(FEATURES)],
            train["clicked"],
            group=np.full(len(train) // SHOWN, SHOWN),
            eval_X=(validation[list(FEATURES)],),
            eval_y=(validation["clicked"],),
            eval_group=[np.full(len(validation) // SHOWN, SHOWN)],
            eval_at=[SHOWN],
            callbacks=[lightgbm.early_stopping(20, verbose=False)],
        )
        value = ranker.best_score_["valid_0"][f"ndcg@{SHOWN}"]
        if value > most:
            best, most = ranker, value
    assert best is not None
    return best, test


def measure(seed: int) -> Row:
    """What the notebook and rankloop say about the searches of one seed, and the truth."""
    shop = simulate(seed)
    clicks = shop.clicks
    ranker, tested = tuned_ranker(clicks, seed)
    scores = np.asarray(ranker.predict(clicks[list(FEATURES)]), np.float64)
    inside = clicks["query"].isin(tested).to_numpy()
    clicked = clicks["clicked"].to_numpy(float)
    of_new, of_old = (
        ndcg(clicked[inside], order[inside]) for order in (scores, -clicks["position"].to_numpy(float))
    )
    log = rankloop.log(
        clicks,
        impression="search",
        query="query",
        document="sku",
        position="position",
        clicked="clicked",
        features=FEATURES,
    )
    table = clicks[["query", "sku"]].assign(score=scores).drop_duplicates(["query", "sku"])
    table.columns = pd.Index(["query_id", "doc_id", "score"])
    bias = log.estimate_bias(seed=seed)
    evaluated = log.evaluate(table, against="production", bias=bias, queries=sorted(tested))
    fit = log.fit(bias=bias, seed=seed)
    judged = fit.judged_scores
    assert judged is not None
    assert fit.comparison is not None
    own = dict(zip(zip(judged.query_ids, judged.doc_ids, strict=True), judged.scores, strict=True))
    of_fit = np.array([own[pair] for pair in zip(clicks["query"], clicks["sku"], strict=True)])
    return {
        "seed": seed,
        "ndcg of clicks": [of_new, of_old],
        "evaluate": {**said(evaluated), "truth": shop.gain(scores, tested)},
        "fit": {**said(fit.comparison), "truth": shop.gain(of_fit, set(clicks["query"]))},
    }


def said(compared: Comparison) -> Row:
    """What a comparison says."""
    difference = compared.difference
    return {
        "gain": difference.estimate.value,
        "interval": [difference.estimate.low, difference.estimate.high],
        "decision": compared.decision.kind.value,
    }


def spread(values: list[float]) -> str:
    """The mean over seeds with its 90 % interval."""
    error = 1.645 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return f"{np.mean(values):+.3f} ± {error:.3f}"


def show(rows: list[Row]) -> None:
    """Print the table."""
    seeds = len(rows)
    clicks = [row["ndcg of clicks"][0] - row["ndcg of clicks"][1] for row in rows]
    print(f"{seeds} seeds; means with their 90 % intervals\n")
    print("| | says new − production | says better | truth | sign right | interval holds the truth |")
    print("|---|---:|---:|---:|---:|---:|")
    truths = [row["evaluate"]["truth"] for row in rows]
    right = sum((said > 0) == (true > 0) for said, true in zip(clicks, truths, strict=True))
    print(
        f"| notebook: NDCG@10 of clicks | {spread(clicks)} | {sum(said > 0 for said in clicks)} of {seeds} "
        f"| {spread(truths)} | {right} of {seeds} | |"
    )
    names = {"evaluate": "`evaluate`, the same ranker", "fit": "`fit`, rankloop's ranker"}
    for key, name in names.items():
        said = [row[key] for row in rows]
        better = sum(one["decision"].endswith("better") for one in said)
        firm = sum(one["decision"] == "better" for one in said)
        right = sum((one["gain"] > 0) == (one["truth"] > 0) for one in said)
        held = sum(one["interval"][0] <= one["truth"] <= one["interval"][1] for one in said)
        low, high = wilson(held, seeds)
        print(
            f"| {name} | {spread([one['gain'] for one in said])} | {better} of {seeds}, {firm} firmly "
            f"| {spread([one['truth'] for one in said])} | {right} of {seeds} "
            f"| {held} of {seeds} ({low:.0%} to {high:.0%}) |"
        )


def main() -> None:
    """Run, or show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=("run", "show", "csv"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.action == "csv":
        simulate(given.seed).clicks.to_csv(given.path, index=False)
        return
    rows = read_rows(given.path)
    if given.action == "run":
        for seed in sorted(set(range(given.seeds)) - {row["seed"] for row in rows}):
            append_row(given.path, measure(seed))
        rows = read_rows(given.path)
    show(rows)


if __name__ == "__main__":
    run_command(main)
