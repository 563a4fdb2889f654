"""The rankers that every experiment is measured against: random, the production ranker, the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.errors import DataError
from rankloop.models import MLP, Adam
from rankloop.progress import Progress
from rankloop.training import DOUBLY_ROBUST, PAPER, Learning, LearningProblem, Settings, learn, train
from rankloop.types import Bias, Dataset, Float64, Model

# The paper trains its production ranker on 1 % of the training queries.
PRODUCTION_SHARE = 0.01
# Fewer queries than this say nothing about ranking, however small the collection.
PRODUCTION_QUERIES = 10
# The authors' programs train it on this many, for at most so many epochs.
AUTHORS_QUERIES, AUTHORS_EPOCHS = 20, 200
# They stop when five more epochs gain nothing on the queries that are learned from.
AUTHORS_PATIENCE, AUTHORS_OPTIMISER = 5, Adam(rate=0.001)
# "Full information" has the paper's optimiser, at most so many epochs, and stops when one gains nothing.
FULL_INFORMATION_EPOCHS = 100


def production_queries(n_queries: int, share: float = PRODUCTION_SHARE) -> int:
    """The number of training queries of the production ranker."""
    return min(n_queries, max(PRODUCTION_QUERIES, round(share * n_queries)))


def production_data(dataset: Dataset, n_queries: int, rng: np.random.Generator) -> Dataset:
    """The few labelled queries that the production ranker is trained on, and as many for early stopping.

    A production ranker has no more labels to stop on than to learn from, so validation is as small.
    """
    if not 1 <= n_queries <= dataset.train.n_queries:
        raise DataError(
            f"there are {dataset.train.n_queries} training queries, {n_queries} were requested: choose from "
            f"1 to {dataset.train.n_queries}"
        )
    chosen = rng.choice(dataset.train.n_queries, n_queries, replace=False)
    held_out = rng.choice(
        dataset.validation.n_queries, min(n_queries, dataset.validation.n_queries), replace=False
    )
    return replace(
        dataset, train=dataset.train.select(chosen), validation=dataset.validation.select(held_out)
    )


def production_ranker(
    dataset: Dataset, *, n_queries: int | None = None, seed: int = 0, progress: Progress | None = None
) -> Model:
    """The ranker that a search engine has before it learns from clicks: trained on a few labelled queries."""
    few = production_queries(dataset.train.n_queries) if n_queries is None else n_queries
    labelled = production_data(dataset, few, np.random.default_rng(seed))
    return train(labelled, "mlp", seed=seed, progress=progress).model


def authors_ranker(
    dataset: Dataset,
    *,
    model: str = "mlp",
    n_queries: int = AUTHORS_QUERIES,
    seed: int = 0,
    progress: Progress | None = None,
) -> Model:
    """The production ranker as the authors' programs train it: stopped on the queries that it learns from.

    No other queries tell it when to stop, so it becomes far more peaked than `production_ranker`.

    Args:
        dataset: its training queries are learned from.
        model: what is trained; theirs was a network.
        n_queries: how many of them, drawn at random.
        seed: random seed.
        progress: called after every epoch.
    """
    labelled = production_data(dataset, n_queries, np.random.default_rng(seed))
    settings = Settings(AUTHORS_OPTIMISER, epochs=AUTHORS_EPOCHS, patience=AUTHORS_PATIENCE)
    stopped_on_itself = replace(labelled, validation=labelled.train)
    return train(stopped_on_itself, model, settings=settings, seed=seed, progress=progress).model


def random_ranker(n_features: int, rng: np.random.Generator) -> MLP:
    """A network that ranks uniformly at random, and can learn: its hidden layers are drawn, its output is 0.

    >>> random_ranker(3, np.random.default_rng(0)).scores(np.eye(3, dtype=np.float32))
    array([0., 0., 0.])
    """
    return MLP.initialise(n_features, rng).times(0.0)


def oracle(
    start: Model,
    dataset: Dataset,
    relevance: Float64,
    learning: Learning,
    bias: Bias,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Model:
    """Learn from the true relevance: an upper bound for learning from clicks.

    The network, the starting policy, the training objective, the optimiser and early stopping are those of
    the loop; only the weights are the true relevance instead of estimates from clicks. There is no caution,
    because true values need no significance test.

    Args:
        start: the policy that every training starts from.
        dataset: its training queries are learned from, its validation queries decide when to stop.
        relevance: the relevance of every document, training queries first, then validation queries.
        learning: how the loop learns.
        bias: how users click: it may say what a rank is worth.
        rng: draws the order of the queries.
        progress: called after every epoch.
    """
    train_weights, held_out_weights = np.split(relevance, [dataset.train.n_documents])
    splits = (dataset.train, dataset.validation)
    problem = LearningProblem.from_weights(
        splits,
        (train_weights, held_out_weights),
        learning.rank_weights(bias),
        objective=learning.objective,
    )
    settings = learning.settings.without_caution()
    return learn(start, problem, settings=settings, rng=rng, progress=progress).model


def best_supervised(dataset: Dataset, *, seed: int = 0, progress: Progress | None = None) -> Model:
    """A competent supervised learner: the paper's network, trained on all labels as the default trains.

    The loss is a softmax per query, the optimiser Adam, and training waits for ten epochs without a gain. The
    paper's "full information" stops much earlier: it bounds the paper's optimiser, not what can be learned.
    """
    settings = DOUBLY_ROBUST.settings.without_caution()
    objective = str(DOUBLY_ROBUST.objective)
    return train(dataset, "mlp", objective=objective, settings=settings, seed=seed, progress=progress).model


def full_information(
    dataset: Dataset, relevance: Float64, bias: Bias, *, seed: int = 0, progress: Progress | None = None
) -> Model:
    """Learn from the true relevance as the authors' programs do: what the paper calls "full information".

    It is the oracle of the paper's learning with two differences: it starts from a random network, and it
    stops when an epoch gains nothing instead of when it gains little.
    """
    settings = replace(
        PAPER.settings,
        epochs=FULL_INFORMATION_EPOCHS,
        patience=FULL_INFORMATION_EPOCHS,
        least_gain=0.0,
    )
    rng = np.random.default_rng(seed)
    start = MLP.initialise(dataset.n_features, rng)
    learning = replace(PAPER, settings=settings)
    return oracle(start, dataset, relevance, learning, bias, rng=rng, progress=progress)
