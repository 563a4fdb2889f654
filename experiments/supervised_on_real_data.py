"""The exact objective against LightGBM's lambdarank, with the same trees: the table of docs/training.md.

    python -m experiments.supervised_on_real_data FOLDER

FOLDER contains mq2008/Fold1, mslr-sample and lightgbm-rank, as described in docs/training.md. Each line has
the mean and the standard deviation over seeds of NDCG@5 (linear gain) on the test queries, with documents
sorted by score.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightgbm
import numpy as np

import rankloop
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec

SETS = {
    "MQ2008, fold 1": "mq2008/Fold1",
    "MSLR sample": "mslr-sample/all.txt",
    "LightGBM example": "lightgbm-rank",
}
SEEDS = range(5)
METRIC = "ndcg@5"
TREES = LightGBMSpec()


def exact(data: rankloop.Dataset, model: str, seed: int) -> np.ndarray:
    """Train a model on the exact objective, and score the test queries."""
    return rankloop.train(data, model, metric=METRIC, seed=seed).model.scores(data.test.features)


def lambdarank(data: rankloop.Dataset, seed: int) -> np.ndarray:
    """Train LightGBM with its own objective and the same trees and patience, and score the test queries."""
    parameters = {
        **DEFAULTS,
        **TREES.parameters,
        # LightGBM's default; rankloop's is for curvatures of another scale.
        "min_sum_hessian_in_leaf": 1e-3,
        "seed": seed,
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [5],
        # Linear gains, like the reported metric.
        "label_gain": list(range(32)),
    }
    train = lightgbm.Dataset(data.train.features, data.train.labels, group=data.train.sizes)
    held_out = lightgbm.Dataset(
        data.validation.features, data.validation.labels, group=data.validation.sizes, reference=train
    )
    booster = lightgbm.train(
        parameters,
        train,
        num_boost_round=TREES.rounds,
        valid_sets=[held_out],
        callbacks=[lightgbm.early_stopping(TREES.patience, verbose=False)],
    )
    return np.asarray(booster.predict(data.test.features, raw_score=True))


METHODS = {
    "lambdarank (LightGBM)": lambdarank,
    "exact, LightGBM": lambda data, seed: exact(data, "lightgbm", seed),
    "exact, MLP": lambda data, seed: exact(data, "mlp", seed),
    "exact, linear": lambda data, seed: exact(data, "linear", seed),
}


def main(folder: Path) -> None:
    """Print one line per data set and method as soon as it is known."""
    print("| data | method | NDCG@5 | over seeds |\n|---|---|---|---|", flush=True)
    for name, path in SETS.items():
        for method, scores_of in METHODS.items():
            values = []
            for seed in SEEDS:
                data = rankloop.data.load(folder / path, seed=seed)
                values.append(rankloop.ranking_metrics(scores_of(data, seed), data.test, [METRIC])[METRIC])
            each = " ".join(f"{value:.4f}" for value in values)
            mean, deviation = np.mean(values), np.std(values, ddof=1)
            print(f"| {name} | {method} | {mean:.4f} ± {deviation:.4f} | {each} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m experiments.supervised_on_real_data", description=main.__doc__
    )
    parser.add_argument("folder", type=Path, help="the folder of the data sets")
    main(**vars(parser.parse_args()))
