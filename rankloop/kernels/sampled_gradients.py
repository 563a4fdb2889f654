"""Gradients estimated from sampled rankings, one query at a time."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.ranking_samples import log_remaining, shown_length

REINFORCE, PL_RANK = range(2)


@kernel
def sum_from_rank(rank_weights, document_weights, ranking, length, to_come):
    """``to_come[k] = R_k``: the metric of a ranking from rank k on."""
    to_come[length] = 0.0
    for k in range(length - 1, -1, -1):
        to_come[k] = to_come[k + 1] + rank_weights[k] * document_weights[ranking[k]]


@kernel
def add_reinforce(scores, ranking, length, placed, remaining, to_come, gradient):
    """Add ``Σ_k R_k ∇ log π(y_k | y_1 … y_{k−1})`` of one ranking y."""
    for k in range(length):
        gradient[ranking[k]] += to_come[k]
        for d in range(len(scores)):
            if not placed[d]:
                gradient[d] -= to_come[k] * math.exp(scores[d] - remaining[k])
        for later in range(k, length):
            d = ranking[later]
            gradient[d] -= to_come[k] * math.exp(scores[d] - remaining[k])


@kernel
def add_pl_rank(
    scores, document_weights, rank_weights, ranking, length, placed, remaining, to_come, gradient
):
    """Add PL-Rank-3 of one ranking, in O(documents + ranks).

    The sums are kept relative to the weight that remains at the current rank, which no document that comes
    later exceeds: nothing overflows, however far scores are apart. A ranking without documents, of a query
    that shows none, adds nothing.
    """
    if not length:
        return
    direct, risk, unit = 0.0, 0.0, remaining[0]
    for k in range(length):
        shrink = math.exp(remaining[k] - unit)
        unit = remaining[k]
        direct = direct * shrink + rank_weights[k]
        risk = risk * shrink + to_come[k]
        d = ranking[k]
        gradient[d] += to_come[k + 1] + math.exp(scores[d] - unit) * (document_weights[d] * direct - risk)
    for d in range(len(scores)):
        if not placed[d]:
            gradient[d] += math.exp(scores[d] - unit) * (document_weights[d] * direct - risk)


@kernel
def sampled_gradients(
    first, last, offsets, scores, document_weights, rank_weights, rankings, method, gradient
):
    """The mean over the sampled rankings of `REINFORCE` or `PL_RANK`, for the queries ``first … last``."""
    ranks = min(len(rank_weights), rankings.shape[2])
    remaining, to_come = np.empty(ranks + 1), np.empty(ranks + 1)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        own, r, out = scores[a:b], document_weights[a:b], gradient[a:b]
        placed = np.empty(b - a, np.bool_)
        out[:] = 0.0
        for i in range(len(rankings)):
            ranking = rankings[i, q, :ranks]
            length = shown_length(ranking)
            log_remaining(own, ranking, length, placed, remaining)
            sum_from_rank(rank_weights, r, ranking, length, to_come)
            if method == REINFORCE:
                add_reinforce(own, ranking, length, placed, remaining, to_come, out)
            else:
                add_pl_rank(own, r, rank_weights, ranking, length, placed, remaining, to_come, out)
        out /= len(rankings)
