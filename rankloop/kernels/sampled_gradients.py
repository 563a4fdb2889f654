"""Gradients estimated from rankings, one query at a time."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.ranking_samples import log_remaining


@kernel
def sum_from_rank(rank_weights, doc_weights, ranking, length, to_come):
    """``to_come[k] = R_k``: the reward of a ranking from rank k on."""
    to_come[length] = 0.0
    for k in range(length - 1, -1, -1):
        to_come[k] = to_come[k + 1] + rank_weights[k] * doc_weights[ranking[k]]


@kernel
def reinforce_of_queries(first, last, offsets, scores, doc_weights, rank_weights, rankings, gradient):
    """``1/N Σ_y Σ_k R_k ∇ log π(y_k | y_1 … y_{k−1})`` for the queries ``first … last``."""
    ranks = min(len(rank_weights), rankings.shape[2])
    remaining, to_come = np.empty(ranks), np.empty(ranks + 1)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        own, r, out = scores[a:b], doc_weights[a:b], gradient[a:b]
        placed = np.empty(b - a, np.bool_)
        out[:] = 0.0
        for i in range(len(rankings)):
            ranking = rankings[i, q, :ranks]
            length = log_remaining(own, ranking, placed, remaining)
            sum_from_rank(rank_weights, r, ranking, length, to_come)
            for k in range(length):
                out[ranking[k]] += to_come[k]
                for d in range(b - a):
                    if not placed[d]:
                        out[d] -= to_come[k] * math.exp(own[d] - remaining[k])
                for later in range(k, length):
                    d = ranking[later]
                    out[d] -= to_come[k] * math.exp(own[d] - remaining[k])
        out /= len(rankings)


@kernel
def pl_rank_of_queries(first, last, offsets, scores, doc_weights, rank_weights, rankings, gradient):
    """PL-Rank-3 for the queries ``first … last``: O(items + ranks) a sampled ranking."""
    ranks = min(len(rank_weights), rankings.shape[2])
    remaining, to_come = np.empty(ranks), np.empty(ranks + 1)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        own, r, out = scores[a:b], doc_weights[a:b], gradient[a:b]
        placed = np.empty(b - a, np.bool_)
        # Weights relative to the heaviest item: ratios to what remains are all that counts.
        top = np.max(own)
        out[:] = 0.0
        for i in range(len(rankings)):
            ranking = rankings[i, q, :ranks]
            length = log_remaining(own, ranking, placed, remaining)
            sum_from_rank(rank_weights, r, ranking, length, to_come)
            direct, risk = 0.0, 0.0
            for k in range(length):
                share = math.exp(top - remaining[k])
                direct += rank_weights[k] * share
                risk += to_come[k] * share
                d = ranking[k]
                out[d] += to_come[k + 1] + math.exp(own[d] - top) * (r[d] * direct - risk)
            for d in range(b - a):
                if not placed[d]:
                    out[d] += math.exp(own[d] - top) * (r[d] * direct - risk)
        out /= len(rankings)
