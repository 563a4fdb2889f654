"""The rankers that every experiment is measured against: random, the production ranker, the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.experiments.spec import AUTHORS, HELD_OUT, PRODUCTION, RANDOM
from rankloop.loop import SUPPORT_LEVELS
from rankloop.model_files import load
from rankloop.models import MLP, Adam
from rankloop.models.mlp import Network
from rankloop.policies import expected_rank_weights
from rankloop.progress import Progress, rename_task
from rankloop.ragged import segment_max
from rankloop.training import DOUBLY_ROBUST, PAPER, Learning, LearningProblem, Settings, learn, train
from rankloop.types import Bias, Dataset, Float64, Int64, Model

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
    # Networks on clicks have no objective for true relevance: that of weights takes its place.
    learning = DOUBLY_ROBUST if learning.cross_fitted else learning
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


# The task that training the starting policy is called in progress.
STARTING_POLICY = "starting policy"

# The seed of rankers that all runs share.
SHARED_SEED = 0

# A policy counts as nearly deterministic if its favourite comes first this often, or if half of the documents
# are shown so rarely that 10,000 impressions with their query may pass without an informative click.
NEARLY_ALWAYS = 0.9
HARDLY_EVER, MANY_DOCUMENTS = 1e-4, 0.5
PEAKED_ADVICE = (
    "nearly deterministic. It shows almost the same ranking every time, so its clicks say next to nothing "
    "about most documents. A softer start helps: --temperature 5, for example, divides its scores by 5."
)


class Peakedness(BaseModel):
    """The peakedness of a policy.

    Attributes:
        top_first: the mean probability that a query's highest-scored document is shown first; queries with
            one document, which leave no choice, do not count.
        support: the share of documents whose expected α is below each level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top_first: float
    support: dict[str, float]

    @classmethod
    def of(cls, scores: Float64, offsets: Int64, alpha: Float64) -> Peakedness:
        """Measure the policy of these scores, for users with this α by rank.

        Two documents, one twice as likely to come first; both are always shown:

        >>> Peakedness.of(np.log([2.0, 1.0]), np.array([0, 2]), np.array([0.5, 0.5])).top_first.__round__(6)
        0.666667
        """
        first = expected_rank_weights(scores, offsets, [1.0])
        several = np.diff(offsets) > 1
        exposed = expected_rank_weights(scores, offsets, alpha)
        return cls(
            top_first=float(segment_max(first, offsets)[several].mean()) if several.any() else 1.0,
            support={f"{level:g}": float(np.mean(exposed < level)) for level in SUPPORT_LEVELS},
        )

    @property
    def nearly_deterministic(self) -> bool:
        """Whether the policy shows too few documents for its clicks to teach anything about the others."""
        return self.top_first >= NEARLY_ALWAYS or self.support[f"{HARDLY_EVER:g}"] >= MANY_DOCUMENTS

    def __str__(self) -> str:
        rare = ", ".join(f"{share:.0%} below {level}" for level, share in self.support.items())
        return f"its favourite comes first with probability {self.top_first:.2f}; α of documents: {rare}"


def starting_policy(
    name: str,
    dataset: Dataset,
    *,
    production_queries: int | None = None,
    supervision: str = HELD_OUT,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Model:
    """The policy that logs first, and that every training starts from.

    Args:
        name: ``production``, ``random``, or the path of a stored model.
        dataset: what the production ranker is trained on; a stored model must have its features.
        production_queries: labelled queries that the production ranker is trained on; None for 1 % of them,
            or for the 20 of the authors' programs.
        supervision: how it learns from labels: ``held-out`` or ``authors``.
        temperature: what its scores are divided by; above 1 it is softer.
        seed: random seed.
        progress: called after every epoch of the production ranker.
    """
    if production_queries is not None and name != PRODUCTION:
        raise RankloopError(
            f"production queries are what the production ranker is trained on, but the start is {name!r}"
        )
    model: Model
    renamed = rename_task(progress, STARTING_POLICY)
    if name == PRODUCTION and supervision == AUTHORS:
        few = min(production_queries or AUTHORS_QUERIES, dataset.train.n_queries)
        model = authors_ranker(dataset, n_queries=few, seed=SHARED_SEED, progress=renamed)
    elif name == PRODUCTION:
        model = production_ranker(dataset, n_queries=production_queries, seed=seed, progress=renamed)
    elif name == RANDOM:
        model = random_ranker(dataset.n_features, np.random.default_rng(seed))
    else:
        model = _load_start(name, dataset)
    return model if temperature == 1.0 else _soften(model, temperature)


def _load_start(path: str, dataset: Dataset) -> Model:
    if not Path(path).exists():
        raise ModelFileError(
            f"{path} does not exist: the start is {PRODUCTION}, {RANDOM}, or the path of a stored model"
        )
    model = load(path)
    if model.n_features != dataset.n_features:
        raise DataError(
            f"{path} takes {model.n_features} features, the documents of {dataset.name} have "
            f"{dataset.n_features}: choose a model that was trained on the same features"
        )
    if not hasattr(model, "learner"):
        raise RankloopError(
            f"{path} holds a {model.kind} model, which cannot be trained in steps: start from a network"
        )
    return model


def _soften(model: Model, temperature: float) -> Model:
    if not isinstance(model, Network):
        raise RankloopError(
            "a temperature scales the output layer of a network (mlp or linear); the starting policy is of "
            f"another kind: {model.kind}"
        )
    return model.times(1.0 / temperature)
