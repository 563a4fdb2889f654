"""PDGD: one step of gradient ascent per impression, in one compiled loop."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.kernels.impression import next_query, show
from rankloop.kernels.jit import kernel
from rankloop.kernels.network_layers import backward, forward
from rankloop.kernels.preference_pairs import prefer, ranks_considered
from rankloop.kernels.query_sizes import longest_query
from rankloop.kernels.ranking_samples import log_remaining


@kernel
def keep_rows(rows, n, widths, activations, kept):
    """Copy what a forward pass over n documents left in ``activations``, for these rows only."""
    start, at = 0, 0
    for layer in range(1, len(widths)):
        width = widths[layer]
        for k in range(len(rows)):
            row = start + rows[k] * width
            for unit in range(width):
                kept[at + unit] = activations[row + unit]
            at += width
        start += n * width


@kernel
def run_pdgd(simulated, log, traffic, logging, network, options, parameters, memory, stream):  # noqa: ARG001
    """Process the log; `rankloop.online.base.Method.run` documents the arguments."""
    queries, rankings, _ = log
    _, _, offsets, _, _, _ = traffic
    widths, activation = network
    rate, debiased = options[0], options[1] > 0.0
    online = len(logging) == 0
    ranks, longest = rankings.shape[1], longest_query(offsets)
    ranking, clicked, arrivals = np.empty(ranks, np.int64), np.empty(ranks, np.bool_), np.empty(ranks)
    scores, placed, remaining = np.empty(longest), np.empty(longest, np.bool_), np.empty(ranks + 1)
    activations = np.empty(longest * widths[1:].sum(), parameters.dtype)
    # Only for documents that are shown: no others get a gradient.
    own_features = np.empty((ranks, widths[0]), np.float32)
    own_activations = np.empty(ranks * widths[1:].sum(), parameters.dtype)
    deltas = np.empty_like(own_activations)
    own_scores, slope = np.empty(ranks), np.empty(ranks)

    for i in range(len(queries)):
        features, first, last, a, b = next_query(i, simulated, log, traffic, stream)
        n = b - a
        policy = scores[:n]
        if online:
            policy[:] = forward(features, first, last, widths, parameters, activation, activations)
            if not np.all(np.abs(policy) <= LARGEST_SCORE):
                return i
        else:
            policy[:] = logging[a:b]
        length = show(i, simulated, policy, a, b, log, traffic, stream, arrivals, ranking, clicked)
        considered = ranks_considered(clicked, length)
        if considered == 0 or np.all(clicked[:considered]):
            continue
        rows = ranking[:considered]
        for k in range(considered):
            own_features[k] = features[first + rows[k]]
        if online:
            keep_rows(rows, n, widths, activations, own_activations)
            for k in range(considered):
                own_scores[k] = policy[rows[k]]
        else:
            own_scores[:considered] = forward(
                own_features, 0, considered, widths, parameters, activation, own_activations
            )
            if not np.all(np.abs(own_scores[:considered]) <= LARGEST_SCORE):
                return i
        if debiased:
            log_remaining(policy, ranking, length, placed, remaining)
        prefer(own_scores, policy, ranking, clicked, considered, remaining, debiased, slope)
        step = slope[:considered]
        step *= rate
        backward(
            own_features,
            0,
            considered,
            widths,
            parameters,
            activation,
            own_activations,
            step,
            deltas,
            parameters,
        )
    return len(queries)
