"""COLTR: draw candidates, evaluate them on the current impression, and move towards those that win."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.activations import activate
from rankloop.kernels.directions import complete, copy_documents, factorise, is_direct, lengthen
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.kernels.impression import next_query, show
from rankloop.kernels.jit import kernel
from rankloop.kernels.matrix_product import add_product
from rankloop.kernels.network_layers import forward
from rankloop.kernels.normal_numbers import draw_chi_square, fill_normal
from rankloop.kernels.query_sizes import longest_query
from rankloop.kernels.snips_risk import log_chances, log_chances_beside, mark_losses, risk


@kernel
def score_hidden(hidden, widths, tail, activation, activations, scores):
    """Scores from the inputs of the first layer's units, documents × units, which are overwritten."""
    if len(widths) == 2:
        scores[:] = hidden[:, 0]
        return
    n = len(hidden)
    activate(hidden.reshape(-1), activation)
    scores[:] = forward(hidden, 0, n, widths[1:], tail, activation, activations)


@kernel
def draw_direction(stream, seen, tail, freedom, reach):
    """A direction of length ``reach``: what documents see of it, and what of it lies in the other layers.

    Return the length of what they do not see, which has ``freedom`` dimensions.
    """
    square = fill_normal(stream, seen) + fill_normal(stream, tail)
    outside = draw_chi_square(stream, freedom)
    scale = reach / math.sqrt(square + outside)
    seen *= scale
    tail *= scale
    return scale * math.sqrt(outside)


@kernel
def run_coltr(simulated, log, traffic, logging, network, options, parameters, memory, stream):  # noqa: ARG001
    """Process the log; `rankloop.online.base.Method.run` documents the arguments."""
    queries, rankings, _ = log
    _, _, offsets, _, _, _ = traffic
    widths, activation = network
    candidates, rate, reach, caution = np.int64(options[0]), options[1], options[2], options[3]
    beside_logging = options[4] > 0.0
    number = parameters.dtype
    ranks, longest = rankings.shape[1], longest_query(offsets)
    inputs, units = widths[0] + 1, widths[1]
    # Weights and biases of the first layer, inputs × units, and all layers above it.
    layer, tail = parameters[: inputs * units].reshape(inputs, units), parameters[inputs * units :]
    ranking, clicked, arrivals = np.empty(ranks, np.int64), np.empty(ranks, np.bool_), np.empty(ranks)
    losses, logged, judged = np.empty(ranks), np.empty(ranks + 1), np.empty(ranks + 1)
    all_scores, policy, placed = np.empty(longest), np.empty(longest), np.empty(longest, np.bool_)
    all_base, all_hidden = np.empty((longest, units), number), np.empty((longest, units), number)
    activations = np.empty(longest * widths[1:].sum(), number)
    factor, pivots, rest = np.empty((longest, longest)), np.empty(longest, np.int64), np.empty(longest)
    most_seen = inputs if is_direct(longest, widths, candidates) else longest
    view, all_seen = np.empty((longest, most_seen), number), np.empty((most_seen, units), number)
    seen_sum, tail_sum = np.empty((most_seen, units)), np.empty(len(tail))
    tail_step, tail_moved = np.empty_like(tail), np.empty_like(tail)
    whole, images = np.empty((inputs, units)), np.empty((2, longest, units))

    for i in range(len(queries)):
        features, first, last, a, b = next_query(i, simulated, log, traffic, stream)
        n = b - a
        scores, base, hidden = all_scores[:n], all_base[:n], all_hidden[:n]
        forward(features, first, last, widths[:2], layer.reshape(-1), activation, base.reshape(-1))
        hidden[:] = base
        score_hidden(hidden, widths, tail, activation, activations, scores)
        if not np.all(np.abs(scores) <= LARGEST_SCORE):
            return i
        policy[:n] = logging[a:b] if len(logging) else scores
        length = show(i, simulated, policy[:n], a, b, log, traffic, stream, arrivals, ranking, clicked)
        if mark_losses(clicked, length, losses) == 0.0:
            continue
        log_chances(policy[:n], ranking, length, placed, logged)
        if beside_logging:
            log_chances_beside(scores, ranking, length, logged[length], judged)
        else:
            log_chances(scores, ranking, length, placed, judged)
        bar = risk(judged, logged, losses, length, caution)

        rows = features[first:last]
        direct = is_direct(n, widths, candidates)
        if direct:
            rank = copy_documents(rows, view)
        else:
            rank = factorise(rows, factor, pivots, rest)
            view[:n, :rank] = factor[:n, :rank]
        seen, freedom = all_seen[:rank], (inputs - rank) * units
        seen_sum[:rank] = 0.0
        tail_sum[:] = 0.0
        winners, spread = 0, 0.0
        for _ in range(candidates):
            outside = draw_direction(stream, seen.reshape(-1), tail_step, freedom, reach)
            hidden[:] = base
            add_product(view[:n, :rank], seen, hidden)
            for k in range(len(tail)):
                tail_moved[k] = tail[k] + tail_step[k]
            score_hidden(hidden, widths, tail_moved, activation, activations, scores)
            if beside_logging:
                # `logged` has one place more than there are ranks: the weight of all that was not shown.
                log_chances_beside(scores, ranking, length, logged[length], judged)
            else:
                log_chances(scores, ranking, length, placed, judged)
            if risk(judged, logged, losses, length, caution) < bar:
                winners += 1
                seen_sum[:rank] += seen
                tail_sum += tail_step
                if freedom > 0:
                    spread = lengthen(spread, outside, freedom, stream)

        if winners == 0:
            continue
        step = rate / (reach * winners)
        tail += step * tail_sum
        if direct:
            layer += step * seen_sum[:rank]
        else:
            complete(rows, factor, pivots, seen_sum[:rank], spread, stream, whole, images)
            layer += step * whole
    return len(queries)
