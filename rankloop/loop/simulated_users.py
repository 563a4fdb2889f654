"""Simulated users as a source of clicks for the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop import clicks, online
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, Dataset, Float64, Int64


@dataclass(frozen=True, eq=False)
class SimulatedUsers:
    """Users whose clicks are drawn by chance from the labels of a data set.

    Attributes:
        users: who clicks.
        relevance: of every item, training queries first, then validation queries.
        offsets: of these queries.
        bias: how the estimators believe that they click.
    """

    users: clicks.Users
    relevance: Float64
    offsets: Int64
    bias: Bias

    @classmethod
    def of(
        cls, dataset: Dataset, users: str = "paper@5", *, relevance: str = "linear", bias: Bias | None = None
    ) -> SimulatedUsers:
        """Users by their name, over the training and the validation queries of a data set.

        Args:
            dataset: whose labels make the relevance.
            users: such as ``paper@5``, ``position@5`` or ``cascade@5``.
            relevance: how a label becomes a chance, such as ``linear``.
            bias: what to believe of them where it is not the truth; needed for users who are not affine.

        Example:
            >>> from rankloop.data import synthetic
            >>> SimulatedUsers.of(synthetic(queries=30, features=5)).bias.alpha.round(2)
            array([0.35, 0.53, 0.55, 0.54, 0.52])
        """
        who = clicks.users(users)
        mapping = clicks.relevance(relevance)
        parts = (dataset.train, dataset.validation)
        offsets = np.concatenate([parts[0].offsets, parts[0].n_docs + parts[1].offsets[1:]])
        chances = np.concatenate([mapping.of(part.labels) for part in parts])
        return cls(who, chances, offsets, clicks.bias_of(who) if bias is None else bias)

    def gather(
        self, policy: str, scores: Float64, exposure: Exposure, interactions: int, rng: np.random.Generator
    ) -> Statistics:
        """Show rankings of the policy this many times, and count what was shown and clicked."""
        counts = clicks.gather(scores, self.offsets, self.relevance, self.users, interactions, rng)
        return Statistics.of_policy(
            policy,
            self.offsets,
            exposure,
            query_counts=counts.query_counts,
            displays_by_rank=counts.displays_by_rank,
            clicks_by_rank=counts.clicks_by_rank,
        )

    def interact(
        self,
        method: online.Method,
        state: online.MethodState,
        queries: online.Queries,
        interactions: int,
        *,
        logging: Float64 | None,
    ) -> online.MethodState:
        """Show rankings this many times while a method learns from each."""
        traffic = online.Traffic(queries, self.relevance, self.users)
        later, _counts = online.interact(method, state, traffic, interactions, logging=logging)
        return later
