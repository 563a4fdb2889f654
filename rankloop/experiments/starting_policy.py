"""Starting policies: what logs before anything is learned, and how much it leaves to learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.experiments.baselines import production_ranker, random_ranker, scaled
from rankloop.loop import SUPPORT_LEVELS
from rankloop.model_files import load
from rankloop.models.mlp import Network
from rankloop.policies import expected_rank_weights
from rankloop.progress import Progress
from rankloop.ragged import segment_max
from rankloop.types import Dataset, Float64, Int64, Model

PRODUCTION, RANDOM = "production", "random"

# A policy counts as nearly deterministic if its favourite comes first this often, or if half of the items are
# shown so rarely that 10,000 interactions with their query may pass without a click that tells of them.
NEARLY_ALWAYS = 0.9
HARDLY_EVER, MANY_ITEMS = 1e-4, 0.5
PEAKED_ADVICE = (
    "nearly deterministic. It shows almost the same ranking every time, so that its clicks say next to "
    "nothing of most items; a softer start helps: --temperature 5, for instance, divides its scores by 5."
)


class Peakedness(BaseModel):
    """How sure of itself a policy is.

    Attributes:
        top_first: the mean chance that a query's highest-scored item is shown first; queries of one item,
            which leave no choice, do not count.
        support: the share of items whose expected α is below each level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top_first: float
    support: dict[str, float]

    @classmethod
    def of(cls, scores: Float64, offsets: Int64, alpha: Float64) -> Peakedness:
        """Measure the policy of these scores, under users of this α by rank.

        Two items, one twice as likely to come first; both are always shown.

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
        """Whether there is next to nothing to learn from what the policy shows."""
        return self.top_first >= NEARLY_ALWAYS or self.support[f"{HARDLY_EVER:g}"] >= MANY_ITEMS

    def __str__(self) -> str:
        rare = ", ".join(f"{share:.0%} below {level}" for level, share in self.support.items())
        return f"its favourite comes first with a chance of {self.top_first:.2f}; expected α of items: {rare}"


def starting_policy(
    name: str,
    dataset: Dataset,
    *,
    production_queries: int | None = None,
    temperature: float = 1.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Model:
    """The policy that logs first, and that every training starts from.

    Args:
        name: ``production``, ``random``, or the path of a stored model.
        dataset: what the production ranker is trained on, and what a stored model has to fit.
        production_queries: labelled queries that the production ranker sees; None for 1 % of them.
        temperature: what its scores are divided by; above 1 it is softer.
        seed: of everything random.
        progress: told of every epoch of the production ranker.
    """
    if production_queries is not None and name != PRODUCTION:
        raise RankloopError(f"production queries train the production ranker, but the start is {name!r}")
    model: Model
    if name == PRODUCTION:
        model = production_ranker(dataset, n_queries=production_queries, seed=seed, progress=progress)
    elif name == RANDOM:
        model = random_ranker(dataset.n_features, np.random.default_rng(seed))
    else:
        model = _stored(name, dataset)
    return model if temperature == 1.0 else _softened(model, temperature)


def _stored(path: str, dataset: Dataset) -> Model:
    if not Path(path).exists():
        raise ModelFileError(
            f"{path} does not exist: start from {PRODUCTION}, {RANDOM}, or the path of a stored model"
        )
    model = load(path)
    if model.n_features != dataset.n_features:
        raise DataError(
            f"{path} takes {model.n_features} features, the documents of {dataset.name} have "
            f"{dataset.n_features}: start from a model that was trained on such documents"
        )
    if not hasattr(model, "learner"):
        raise RankloopError(
            f"{path} holds a {model.kind} model, which does not learn in steps: start from a network"
        )
    return model


def _softened(model: Model, temperature: float) -> Model:
    if not isinstance(model, Network):
        raise RankloopError(
            "a temperature is for networks (mlp or linear), whose output layer it scales; the starting "
            f"policy is of another kind: {model.kind}"
        )
    return scaled(model, 1.0 / temperature)
