"""The rankers that every experiment is measured against: random, the production ranker, full information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from rankloop.errors import DataError
from rankloop.models import MLP
from rankloop.models.mlp import Network
from rankloop.training import Epoch, Settings, Task, train, train_network
from rankloop.types import Dataset, Float64, Model

# The paper trains its production ranker on 1 % of the training queries.
PRODUCTION_SHARE = 0.01
# Fewer queries than this say nothing about ranking, however small the collection.
PRODUCTION_QUERIES = 10

Watch = Callable[[Epoch], None]
AnyNetwork = TypeVar("AnyNetwork", bound=Network)


def production_queries(n_queries: int, share: float = PRODUCTION_SHARE) -> int:
    """How many training queries the production ranker sees."""
    return min(n_queries, max(PRODUCTION_QUERIES, round(share * n_queries)))


def production_data(dataset: Dataset, n_queries: int, rng: np.random.Generator) -> Dataset:
    """The few labelled queries that the production ranker is trained on, and as many to stop on.

    A production ranker has no more labels to stop on than to learn from, so validation is as small.
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


def production_ranker(
    dataset: Dataset, *, n_queries: int | None = None, seed: int = 0, watch: Watch | None = None
) -> Model:
    """The ranker that a search engine has before it learns from clicks: trained on a few labelled queries."""
    few = production_queries(dataset.train.n_queries) if n_queries is None else n_queries
    labelled = production_data(dataset, few, np.random.default_rng(seed))
    return train(labelled, "mlp", seed=seed, watch=watch).model


def random_ranker(n_features: int, rng: np.random.Generator) -> MLP:
    """A network that ranks uniformly at random, and can learn: its hidden layers are drawn, its output is 0.

    >>> random_ranker(3, np.random.default_rng(0)).scores(np.eye(3, dtype=np.float32))
    array([0., 0., 0.])
    """
    return scaled(MLP.initialise(n_features, rng), 0.0)


def full_information(
    start: Model,
    dataset: Dataset,
    relevance: Float64,
    rank_weights: Float64,
    *,
    settings: Settings,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> Model:
    """What the loop would learn if clicks told the whole truth: the bound that it strives for.

    The same network, from the same starting policy, by the same optimiser and the same early stopping; the
    true relevance stands where the loop has weights estimated from clicks. There is no caution: what is known
    need not convince.

    Args:
        start: the policy that every training starts from.
        dataset: its training queries are learned from, its validation queries stopped on.
        relevance: of every item, training queries first, then validation queries.
        rank_weights: θ, what a rank is worth.
        settings: of the optimiser.
        rng: for the order of the queries.
        watch: called after every epoch.
    """
    parts = np.split(relevance, [dataset.train.n_docs])
    task, held_out = (
        Task(split.features, split.offsets, part, rank_weights)
        for split, part in zip((dataset.train, dataset.validation), parts, strict=True)
    )
    sure = replace(settings, caution=0.0)
    return train_network(start, task, held_out=held_out, settings=sure, rng=rng, watch=watch).model


def scaled(network: AnyNetwork, by: float) -> AnyNetwork:
    """The network with all its scores multiplied by a number: its output layer is.

    >>> model = random_ranker(2, np.random.default_rng(0)).with_parameters(np.ones(1185, np.float32))
    >>> rows = np.eye(2, dtype=np.float32)
    >>> bool(np.all(scaled(model, 0.5).scores(rows) == 0.5 * model.scores(rows)))
    True
    """
    outputs = int(network.widths[-2]) + 1  # the weights of one output unit, and its bias
    parameters = network.parameters.copy()
    parameters[-outputs:] *= by
    return network.with_parameters(parameters)
