"""One training pass on the likelihood of clicks, in one compiled loop, with one level of relevance per query.

A document d of query q is clicked at rank k with probability ``α_k σ(s_d + b_q) + β_k``. The level b_q has a
normal prior of the given precision around 0. What all documents of a query have in common is then not
mistaken for what their features say.
"""

from __future__ import annotations

import numpy as np

from rankloop.kernels.click_probabilities import click_derivatives
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.kernels.jit import kernel
from rankloop.kernels.network_layers import backward, forward
from rankloop.kernels.optimiser_steps import ascend
from rankloop.kernels.query_sizes import longest_query

# A Newton step for the level of a query is at most this long, and the last one at most `SMALL_STEP`.
LONGEST_STEP, SMALL_STEP = 1.0, 1e-6


@kernel
def fit_level(scores, cells, ranks, displays, clicks, alpha, beta, precision, level, steps, shifted, out):
    """Take Newton steps for the level of one query, whose documents' cells are ``cells``; return the level.

    Afterwards ``out`` has the derivatives of each document's likelihood at about this level.
    """
    n = len(scores)
    for _ in range(steps):
        for i in range(n):
            shifted[i] = scores[i] + level
        click_derivatives(0, n, cells, shifted, ranks, displays, clicks, alpha, beta, out)
        slope, bend = -precision * level, precision
        for i in range(n):
            slope += out[1, i]
            bend += out[2, i]
        step = min(max(slope / bend, -LONGEST_STEP), LONGEST_STEP)
        level += step
        if abs(step) < SMALL_STEP:
            break
    return level


@kernel
def levels_of_queries(
    first, last, offsets, scores, cells, ranks, displays, clicks, alpha, beta, precision, steps, levels, out
):
    """``fit_level`` of the queries ``first … last``, from the levels that are there.

    ``out`` has the derivatives of each document's likelihood before the last step.
    """
    shifted = np.empty(longest_query(offsets[first : last + 1]))
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        levels[q] = fit_level(
            scores[a:b],
            cells[a : b + 1],
            ranks,
            displays,
            clicks,
            alpha,
            beta,
            precision,
            levels[q],
            steps,
            shifted[: b - a],
            out[:, a:b],
        )


@kernel
def run_click_epoch(
    order,
    offsets,
    features,
    cells,
    ranks,
    displays,
    clicks,
    alpha,
    beta,
    precision,
    levels,
    scale,
    widths,
    activation,
    parameters,
    method,
    constants,
    first_moment,
    second_moment,
    step,
):
    """Ascend ``scale`` times the log-likelihood of the queries in ``order``, one query per step.

    Levels, parameters and moments change in place. Return the number of steps so far, and whether scores
    stayed within `LARGEST_SCORE`; the epoch ends where they do not.
    """
    longest = longest_query(offsets)
    activations = np.empty(longest * widths[1:].sum(), parameters.dtype)
    deltas = np.empty_like(activations)
    gradient = np.zeros_like(parameters)
    scores, shifted, slope = np.empty(longest), np.empty(longest), np.empty(longest)
    out = np.empty((3, longest))
    for q in order:
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        scores[:n] = forward(features, a, b, widths, parameters, activation, activations)
        if not np.all(np.abs(scores[:n]) <= LARGEST_SCORE):
            return step, False
        own = cells[a : b + 1]
        # One Newton step per visit: levels follow the parameters, which change little between two visits.
        levels[q] = fit_level(
            scores[:n],
            own,
            ranks,
            displays,
            clicks,
            alpha,
            beta,
            precision,
            levels[q],
            1,
            shifted[:n],
            out[:, :n],
        )
        for i in range(n):
            shifted[i] = scores[i] + levels[q]
        click_derivatives(0, n, own, shifted[:n], ranks, displays, clicks, alpha, beta, out[:, :n])
        for i in range(n):
            slope[i] = scale * out[1, i]
        backward(features, a, b, widths, parameters, activation, activations, slope[:n], deltas, gradient)
        step += 1
        ascend(method, constants, parameters, gradient, first_moment, second_moment, step)
        gradient[:] = 0
    return step, True
