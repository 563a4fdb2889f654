"""Every ranking of a few documents, with its probability: the oracle for everything expected."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray


def all_rankings(scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All full rankings of finite scores, rankings × documents, and their log-probabilities."""
    rankings = np.array(list(permutations(range(len(scores)))))
    placed = scores[rankings]
    remaining = np.logaddexp.accumulate(placed[:, ::-1], axis=1)[:, ::-1]
    return rankings, (placed - remaining).sum(axis=1)


def marginals(scores: NDArray[np.float64], ranks: int) -> NDArray[np.float64]:
    """P(rank of d is k), documents × ranks, by listing."""
    rankings, log_probability = all_rankings(scores)
    n = len(scores)
    table = np.zeros((n, ranks))
    for k in range(min(n, ranks)):
        table[:, k] = np.bincount(rankings[:, k], np.exp(log_probability), n)
    return table


def metric_gradient(
    scores: NDArray[np.float64], document_weights: NDArray[np.float64], rank_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """∇ Σ_y π(y) R(y) = Σ_y π(y) R(y) ∇ log π(y), by listing."""
    rankings, log_probability = all_rankings(scores)
    n = len(scores)
    theta = np.zeros(n)
    theta[: len(rank_weights)] = rank_weights[:n]
    metric = (theta * document_weights[rankings]).sum(axis=1)
    placed = scores[rankings]
    remaining = np.logaddexp.accumulate(placed[:, ::-1], axis=1)[:, ::-1]
    slope = np.zeros((len(rankings), n))
    for k in range(n):
        for later in range(k, n):
            chance = np.exp(placed[:, later] - remaining[:, k])
            np.subtract.at(slope, (np.arange(len(rankings)), rankings[:, later]), chance)
        slope[np.arange(len(rankings)), rankings[:, k]] += 1
    return ((np.exp(log_probability) * metric)[:, None] * slope).sum(axis=0)
