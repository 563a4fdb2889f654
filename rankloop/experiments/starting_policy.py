"""Starting policies: what logs before anything is learned, and how much its clicks can teach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.experiments.baselines import (
    AUTHORS_QUERIES,
    authors_ranker,
    production_ranker,
    random_ranker,
)
from rankloop.experiments.spec import PRODUCTION, RANDOM
from rankloop.experiments.spec_names import AUTHORS, HELD_OUT
from rankloop.loop import SUPPORT_LEVELS
from rankloop.model_files import load
from rankloop.models.mlp import Network
from rankloop.policies import expected_rank_weights
from rankloop.progress import Progress, rename_task
from rankloop.ragged import segment_max
from rankloop.types import Dataset, Float64, Int64, Model

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
