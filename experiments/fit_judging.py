"""How honest the judging of a fit is, on noise and on useful features: a table of docs/results/fit.md.

    python -m experiments.fit_judging run RESULTS.jsonl --logs 100
    python -m experiments.fit_judging show RESULTS.jsonl

Each log has two policies that draw rankings (Plackett–Luce), and the paper's users, whose bias is given. In
worlds of noise, features say nothing about relevance, so that no ranker is better than another on queries
that it has not seen: every interval above 0 is false. In informative worlds they do; the truth is the gain of
the model that is kept on 2,000 other queries. A fit is judged in two ways:

    folds     each query by a model that never saw it
    stopping  by the queries that decided when to stop and which trees are blended, as a warning

`run` appends a row per log and skips those that are in the file. `show` prints shares with 90 % intervals
(Wilson).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import rankloop
from experiments.command import run as run_command
from experiments.rows import Row, append_row, read_rows
from rankloop import rank_weights
from rankloop.clicks import gather_log, users
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import Comparison, Fit, open_log
from rankloop.policies import expected_rank_weights, sorted_rank_weights
from rankloop.ragged import segment_std
from rankloop.statistics.intervals import wilson
from rankloop.types import Float64, Split

USERS, RANKS = users("paper@5"), 5
FEATURES, SPREAD, FRESH = 10, 1.5, 2_000
QUERIES, IMPRESSIONS = 150, 10_000
KINDS = ("noise", "informative")
# How far the policies' scores are from the labels, in standard deviations of labels.
NOISE = 1.0
WAYS = ("folds", "stopping")
MODEL = "lightgbm(rounds=200, rate=0.1)"


def world(kind: str, queries: int, seed: int) -> tuple[Split, Split]:
    """The queries of a log, and others."""
    rng = np.random.default_rng([seed, 1])
    data = rankloop.synthetic(queries=2 * (queries + FRESH), features=FEATURES, seed=seed).train
    if kind == "noise":
        data = replace(data, features=rng.random(data.features.shape).astype(np.float32))
    order = rng.permutation(data.n_queries)
    return data.select(np.sort(order[:queries])), data.select(np.sort(order[queries : queries + FRESH]))


def policy_scores(kind: str, split: Split, rng: np.random.Generator) -> Float64:
    """The scores of a policy: it knows labels but for some noise, or nothing where features say nothing."""
    scores = rng.normal(size=split.n_documents)
    if kind == "informative":
        scores = split.labels / split.labels.std() + NOISE * scores
    return scores * (SPREAD / segment_std(scores, split.offsets).mean())


def true_gain(fit: Fit, fresh: Split, scores: Float64) -> float:
    """The DCG of the model that is kept minus that of a policy."""
    discounts = rank_weights.dcg(RANKS)
    new = sorted_rank_weights(fit.model.scores(fresh.features), fresh.offsets, discounts)
    old = expected_rank_weights(scores, fresh.offsets, discounts)
    return float((fresh.labels / 4) @ (new - old)) / fresh.n_queries


def judged(kind: str, seed: int) -> Row:
    """One log, and what each way of judging says about a fit to it."""
    split, fresh = world(kind, QUERIES, seed)
    rng = np.random.default_rng([seed, 2])
    traffic = []
    for name in ("first", "second"):
        scores = policy_scores(kind, split, rng)
        shown = gather_log(scores, split.offsets, split.labels / 4, USERS, IMPRESSIONS // 2, rng)
        traffic.append(PolicyTraffic(name, scores, shown))
    other = policy_scores(kind, fresh, rng)
    row: Row = {"kind": kind, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(write_simulated(f"{folder}/log", split, traffic))
        fit = log.fit(MODEL, bias="paper@5", seed=seed)
        stopped = replace(fit, judged_scores=None, held_out_queries=fit.stop_queries, stop_queries=())
        for way, one in zip(WAYS, (fit, stopped), strict=True):
            comparison = log.evaluate(one, against="second") if way == "stopping" else one.comparison
            assert isinstance(comparison, Comparison)
            truth = 0.0 if kind == "noise" else true_gain(one, fresh, other)
            found = comparison.difference.estimate
            row[way] = {
                "estimate": found.value,
                "low": found.low,
                "high": found.high,
                "truth": truth,
            }
    return row


def show(rows: list[Row]) -> None:
    """Print the table."""
    head = ("features", "judged by", "logs", "error", "interval above 0", "covered", "width")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        for way in WAYS if len(own) > 1 else ():
            found = [row[way] for row in own]
            errors = np.array([one["estimate"] - one["truth"] for one in found])
            better = share([one["low"] > 0.0 for one in found])
            holds = share([one["low"] <= one["truth"] <= one["high"] for one in found])
            width = np.mean([one["high"] - one["low"] for one in found])
            error = f"{errors.mean():+.4f} ± {1.645 * errors.std(ddof=1) / len(own) ** 0.5:.4f}"
            cells = (kind, way, f"{len(own)}", error, better, holds, f"{width:.3f}")
            print(f"| {' | '.join(cells)} |")


def share(truths: list[bool]) -> str:
    """A share with its interval."""
    low, high = wilson(sum(truths), len(truths))
    return f"{np.mean(truths):.0%} ({low:.0%} to {high:.0%})"


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "show"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--logs", type=int, default=100)
    chosen = parser.parse_args()
    rows = read_rows(chosen.results)
    if chosen.command == "show":
        return show(rows)
    known = {(row["kind"], row["seed"]) for row in rows}
    for seed in range(chosen.logs):
        for kind in KINDS:
            if (kind, seed) not in known:
                append_row(chosen.results, judged(kind, seed))
    return None


if __name__ == "__main__":
    run_command(main)
