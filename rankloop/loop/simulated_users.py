"""Simulated users as a source of clicks for the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop import clicks, online
from rankloop.clicks.simulation import gather_arrays
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, Dataset, Float64, Int64


@dataclass(frozen=True, eq=False)
class SimulatedUsers:
    """Users whose clicks are simulated from the labels of a data set.

    Attributes:
        users: how they click.
        relevance: the relevance of every document, training queries first, then validation queries.
        offsets: the offsets of these queries.
        bias: how the estimators assume that they click.
    """

    users: clicks.Users
    relevance: Float64
    offsets: Int64
    bias: Bias

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        users: str | clicks.Users = "paper@5",
        *,
        relevance: str = "linear",
        bias: Bias | None = None,
    ) -> SimulatedUsers:
        """Build users for the training and the validation queries of a data set.

        Args:
            dataset: its labels give the relevance.
            users: a name such as ``paper@5``, ``position@5`` or ``cascade@5``, or users of your own.
            relevance: how a label becomes a probability, such as ``linear``.
            bias: the bias to assume instead of the true one; required for users who are not affine.

        Example:
            >>> from rankloop.data import synthetic
            >>> SimulatedUsers.of(synthetic(queries=30, features=5)).bias.alpha.round(2)
            array([0.35, 0.53, 0.55, 0.54, 0.52])
        """
        simulated = clicks.users(users) if isinstance(users, str) else users
        mapping = clicks.relevance(relevance)
        parts = (dataset.train, dataset.validation)
        offsets = np.concatenate([parts[0].offsets, parts[0].n_documents + parts[1].offsets[1:]])
        probabilities = np.concatenate([mapping.of(part.labels) for part in parts])
        return cls(simulated, probabilities, offsets, clicks.bias_of(simulated) if bias is None else bias)

    def gather(
        self, policy: str, scores: Float64, exposure: Exposure, impressions: int, rng: np.random.Generator
    ) -> Statistics:
        """Show rankings of the policy this many times, and count displays and clicks."""
        users, relevance = self.users, self.relevance
        came, displays, clicked = gather_arrays(scores, self.offsets, relevance, users, impressions, rng)
        return Statistics.of_policy(
            policy,
            self.offsets,
            exposure,
            impressions_by_query=came,
            displays_by_position=displays,
            clicks_by_position=clicked,
        )

    def interact(
        self,
        method: online.Method,
        state: online.MethodState,
        queries: online.Queries,
        impressions: int,
        *,
        logging: Float64 | None,
    ) -> online.MethodState:
        """Show rankings this many times while a method learns from each impression."""
        traffic = online.Traffic(queries, self.relevance, self.users)
        later, _counts = online.interact(method, state, traffic, impressions, logging=logging)
        return later
