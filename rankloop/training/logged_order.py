"""The order in which documents were logged, and trees that imitate it: what the logging policies know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop import rank_weights
from rankloop.models.lightgbm import EarlyStopping, LightGBMModel, boost
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress, report
from rankloop.ragged import segment_index
from rankloop.statistics import Statistics
from rankloop.types import Float32, Float64, Split

# Orders are dense and noisy: large steps, and few trees. More trees imitate better, but rank no better.
TREES = LightGBMSpec(rounds=100, patience=10, rate=0.1, leaves=31)
TASK = "imitate the logged order"


@dataclass(frozen=True, eq=False)
class LoggedOrder:
    """How high documents were shown, compared with the other documents of their queries.

        y_d = w_d − mean of w over the query's documents,   w_d = 1/N_q Σ_k n_dk / log2(k + 1)

    n_dk is how often d was shown at rank k, N_q how often its query came. Clicks are not used.

    Attributes:
        features: float32, documents × features.
        heights: float64, documents; y.
    """

    features: Float32
    heights: Float64

    @classmethod
    def of(cls, split: Split, statistics: Statistics, rng: np.random.Generator) -> Self:
        """The documents that were shown, and at most as many of each query that could have been and were not.

        Args:
            split: the documents; their labels are not read.
            statistics: where they were shown.
            rng: draws the documents that were not shown.
        """
        query, shown = segment_index(statistics.offsets), statistics.displays_by_rank.any(axis=1)
        visible = np.bincount(query, shown, statistics.n_queries)
        share = np.minimum(1.0, visible / np.maximum(np.diff(statistics.offsets) - visible, 1.0))
        chosen = np.flatnonzero(shown | (rng.random(len(query)) < share[query]))
        discounts = rank_weights.dcg(statistics.displays_by_rank.shape[1])
        own = query[chosen]
        weight = statistics.displays_by_rank[chosen] @ discounts / np.maximum(statistics.query_counts[own], 1)
        count = np.maximum(np.bincount(own, minlength=statistics.n_queries), 1)
        mean = np.bincount(own, weight, statistics.n_queries) / count
        return cls(split.features[chosen], weight - mean[own])

    def __len__(self) -> int:
        return len(self.features)


def imitate_order(
    parts: tuple[LoggedOrder, LoggedOrder], rng: np.random.Generator, *, progress: Progress | None = None
) -> LightGBMModel | None:
    """Grow trees that predict how high the logging policies show a document, by least squares.

    Args:
        parts: the documents to learn from, and those to stop on.
        rng: draws the seed of LightGBM.
        progress: called after every tree.

    Returns:
        the trees; None if features do not tell how high documents are shown.
    """
    orders, held_out = parts
    if len(orders) < 4 * TREES.min_docs or not orders.heights.any():
        return None
    grown = 0

    def watch(_value: float) -> None:
        nonlocal grown
        grown += 1
        report(progress, TASK, grown / TREES.rounds, f"tree {grown}")

    stopping = EarlyStopping(
        held_out.features,
        lambda scores: -float(((held_out.heights - scores) ** 2).sum()),
        TREES.patience,
    )
    model = boost(
        orders.features,
        lambda scores: (orders.heights - scores, np.ones(len(scores))),
        rounds=TREES.rounds,
        held_out=stopping,
        parameters=TREES.parameters,
        seed=int(rng.integers(2**31)),
        watch=watch,
    )
    return model if model.n_trees else None
