"""The ladder that every experiment stands on: random, the production ranker, full information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankloop.errors import DataError
from rankloop.evaluation import policy_metrics, ranking_metrics
from rankloop.training import Epoch, Settings, Training, train
from rankloop.types import Dataset, Float64

# The paper trains its production ranker on 1 % of the training queries.
PRODUCTION_SHARE = 0.01
# Fewer queries than this say nothing about ranking, however small the collection.
PRODUCTION_QUERIES = 10
METRIC = "ndcg@5"


@dataclass(frozen=True)
class Rung:
    """One ranker, measured on the test queries.

    Attributes:
        name: what it is called in tables and figures.
        queries: how many labelled queries it was trained on.
        ranking: the metric when documents are sorted by score.
        policy: its exact expectation when rankings are drawn from the Plackett–Luce policy.
        training: how it came about; None for the random ranker.
    """

    name: str
    queries: int
    ranking: float
    policy: float
    training: Training | None


Watch = Callable[[str, Epoch], None]


def production_queries(n_queries: int, share: float = PRODUCTION_SHARE) -> int:
    """How many training queries the production ranker sees."""
    return min(n_queries, max(PRODUCTION_QUERIES, round(share * n_queries)))


def production_data(dataset: Dataset, n_queries: int, rng: np.random.Generator) -> Dataset:
    """The few labelled queries that the production ranker is trained on, and as many to stop on.

    A production ranker has no more labels to stop on than to learn from: validation is cut alike.
    """
    if not 1 <= n_queries <= dataset.train.n_queries:
        raise DataError(f"there are {dataset.train.n_queries} training queries, {n_queries} were asked for")
    chosen = rng.choice(dataset.train.n_queries, n_queries, replace=False)
    held_out = rng.choice(
        dataset.validation.n_queries, min(n_queries, dataset.validation.n_queries), replace=False
    )
    return Dataset(
        dataset.name, dataset.train.select(chosen), dataset.validation.select(held_out), dataset.test
    )


def climb(
    dataset: Dataset,
    *,
    metric: str = METRIC,
    settings: Settings | None = None,
    seed: int = 0,
    watch: Watch | None = None,
) -> list[Rung]:
    """Train and measure the rungs, from random to full information."""
    few = production_queries(dataset.train.n_queries)
    start = production_data(dataset, few, np.random.default_rng(seed))
    plans = [
        ("production", "mlp", start),
        ("full information, linear", "linear", dataset),
        ("full information", "mlp", dataset),
    ]
    rungs = [_measured("random", 0, np.zeros(dataset.test.n_docs), dataset, metric, None)]
    for name, model, data in plans:
        training = train(
            data,
            model,
            metric=metric,
            settings=settings,
            seed=seed,
            watch=None if watch is None else _naming(watch, name),
        )
        scores = training.model.scores(dataset.test.features)
        rungs.append(_measured(name, data.train.n_queries, scores, dataset, metric, training))
    return rungs


def _naming(watch: Watch, name: str) -> Callable[[Epoch], None]:
    return lambda epoch: watch(name, epoch)


def _measured(
    name: str, queries: int, scores: Float64, dataset: Dataset, metric: str, training: Training | None
) -> Rung:
    (policy,) = policy_metrics(scores, dataset.test, [metric]).values()
    # Equal scores would keep the order of the file, which is no random order: expect it instead.
    (ranking,) = (policy,) if training is None else ranking_metrics(scores, dataset.test, [metric]).values()
    return Rung(name, queries, ranking, policy, training)
