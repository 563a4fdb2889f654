"""Metrics that stop growing where a policy leaves the neighbourhood of another: PRPO with exact exposure."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.expectations import expected_weights, gradient_workspace, metric_of_query, shown, take
from rankloop.kernels.jit import kernel
from rankloop.kernels.query_sizes import longest_query


@kernel
def stop_metrics(scores, document_weights, rank_weights, anchor, width, work, remaining):
    """Write the weights of documents that may still move to ``remaining``; return the value of the others.

    A document of positive weight stops earning at ``(1 + width) · anchor``, one of negative weight stops
    costing at ``(1 − width) · anchor``.
    """
    keep = shown(scores)
    exposed = np.zeros(len(scores))
    if len(keep):
        part = np.empty((len(keep), 1))
        expected_weights(take(scores, keep), rank_weights.reshape(1, -1), work.race, part)
        for i in range(len(keep)):
            exposed[keep[i]] = part[i, 0]
    value = 0.0
    for d in range(len(scores)):
        r = document_weights[d]
        bound = (1.0 + width) * anchor[d] if r >= 0.0 else (1.0 - width) * anchor[d]
        stopped = exposed[d] > bound if r >= 0.0 else exposed[d] < bound
        remaining[d] = 0.0 if stopped else r
        if stopped:
            value += r * bound
    return value


@kernel
def proximal_metrics_of_queries(
    first, last, offsets, scores, document_weights, rank_weights, anchor, width, values, derivatives
):
    """The value and the derivatives of the proximal metric of the queries ``first … last``."""
    longest = longest_query(offsets[first : last + 1])
    work = gradient_workspace(longest, len(rank_weights))
    remaining = np.empty(longest)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        weights = remaining[: b - a]
        stopped = stop_metrics(
            scores[a:b], document_weights[a:b], rank_weights, anchor[a:b], width, work, weights
        )
        values[q] = stopped + metric_of_query(
            scores[a:b],
            weights,
            rank_weights,
            work,
            derivatives[0, a:b],
            derivatives[1, a:b],
            derivatives[2, a:b],
        )
