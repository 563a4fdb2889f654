"""Training on labels, against LightGBM's lambdarank and a network in torch: the table of docs/training.md.

    python -m experiments.supervised_on_real_data FOLDER

FOLDER contains mq2008/Fold1, mslr-sample and lightgbm-rank, as described in docs/training.md. Each line has
the mean and the standard deviation over seeds of NDCG@5 (linear gain) on the test queries, with documents
sorted by score. The network in torch is left out where torch is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
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
TORCH = "pairwise logistic, the same network in torch"
HIDDEN = (32, 32)
TORCH_PATIENCE = 10


def exact(data: rankloop.Dataset, model: str, seed: int, objective: str | None = None) -> np.ndarray:
    """Train a model on the exact metric or another objective, and score the test queries."""
    trained = rankloop.train(data, model, metric=METRIC, objective=objective, seed=seed)
    return trained.model.scores(data.test.features)


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


def torch_pairs(data: rankloop.Dataset, seed: int) -> np.ndarray:
    """Train a network of the same layers in torch on pairs of documents, as people write it."""
    import torch

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    layers: list[torch.nn.Module] = []
    for width, units in itertools.pairwise((data.n_features, *HIDDEN)):
        layers += [torch.nn.Linear(width, units), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN[-1], 1))
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    train, held_out, test = (
        torch.tensor(split.features) for split in (data.train, data.validation, data.test)
    )
    labels = torch.tensor(data.train.labels, dtype=torch.float32)
    best, result, since = -np.inf, np.empty(0), 0
    while since < TORCH_PATIENCE:
        for query in rng.permutation(data.train.n_queries):
            rows = slice(*data.train.offsets[query : query + 2].tolist())
            preferred = torch.relu(labels[rows, None] - labels[None, rows])
            if not preferred.any():
                continue
            scores = network(train[rows])[:, 0]
            pairs = torch.nn.functional.softplus(scores[None, :] - scores[:, None])
            optimiser.zero_grad()
            ((preferred * pairs).sum() / len(scores)).backward()
            optimiser.step()
        with torch.no_grad():
            scores, tested = (network(each)[:, 0].double().numpy() for each in (held_out, test))
        value = rankloop.ranking_metrics(scores, data.validation, [METRIC])[METRIC]
        since += 1
        if value > best:
            best, result, since = value, tested, 0
    return result


METHODS = {
    "lambdarank (LightGBM)": lambdarank,
    "exact, LightGBM": lambda data, seed: exact(data, "lightgbm", seed),
    "exact, MLP": lambda data, seed: exact(data, "mlp", seed),
    "exact, linear": lambda data, seed: exact(data, "linear", seed),
    "pairwise logistic, MLP": lambda data, seed: exact(data, "mlp", seed, "pairwise-logistic"),
    "softmax, MLP": lambda data, seed: exact(data, "mlp", seed, "softmax"),
    TORCH: torch_pairs,
}


def main(folder: Path) -> None:
    """Print one line per data set and method as soon as it is known."""
    print("| data | method | NDCG@5 | over seeds |\n|---|---|---|---|", flush=True)
    for name, path in SETS.items():
        for method, scores_of in METHODS.items():
            if method == TORCH and importlib.util.find_spec("torch") is None:
                continue
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
