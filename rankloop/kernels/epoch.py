"""One training pass over the queries, in one compiled loop: scores, exact gradient, step."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.expectations import LARGEST_SCORE, gradient_workspace
from rankloop.kernels.jit import kernel
from rankloop.kernels.metric_gradient import gradient_scratch
from rankloop.kernels.network_layers import backward, forward
from rankloop.kernels.optimiser_steps import SGD_METHOD, ascend
from rankloop.kernels.query_sizes import longest_query
from rankloop.kernels.training_objectives import gradient_of_query


@kernel
def run_epoch(
    objective,
    order,
    batch,
    offsets,
    features,
    document_weights,
    rank_weights,
    widths,
    activation,
    parameters,
    method,
    constants,
    first_moment,
    second_moment,
    step,
):
    """Ascend the objective of this number on the queries in ``order``, ``batch`` queries per step.

    Parameters and moments change in place. A query whose documents all have the same weight cannot be ranked
    better or worse, so it is skipped. Return the number of steps taken so far, and whether scores stayed
    within `LARGEST_SCORE`; the epoch ends where they do not.
    """
    longest = longest_query(offsets)
    activations = np.empty(longest * widths[1:].sum(), parameters.dtype)
    deltas = np.empty_like(activations)
    gradient = np.zeros_like(parameters)
    work = gradient_workspace(longest, len(rank_weights))
    scratch, slopes = gradient_scratch(longest)
    scores, slope, unused = np.empty(longest), np.empty(longest), np.empty(longest)
    # A step of SGD on one query is its gradient times the rate: added to the parameters at once.
    alone = method == SGD_METHOD and batch == 1
    pending = 0
    for i in range(len(order)):
        a, b = offsets[order[i]], offsets[order[i] + 1]
        weights = document_weights[a:b]
        if np.any(weights != weights[0]):
            n = b - a
            scores[:n] = forward(features, a, b, widths, parameters, activation, activations)
            if not np.all(np.abs(scores[:n]) <= LARGEST_SCORE):
                return step, False
            s, g = scores[:n], slope[:n]
            gradient_of_query(objective, s, weights, rank_weights, work, scratch, slopes, g, unused[:n])
            if alone:
                g *= constants[0]
                backward(features, a, b, widths, parameters, activation, activations, g, deltas, parameters)
                step += 1
                continue
            backward(features, a, b, widths, parameters, activation, activations, g, deltas, gradient)
            pending += 1
        if pending and ((i + 1) % batch == 0 or i + 1 == len(order)):
            step += 1
            ascend(method, constants, parameters, gradient, first_moment, second_moment, step)
            gradient[:] = 0
            pending = 0
    return step, True
