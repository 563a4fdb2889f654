"""Expected rank weights of a Plackett–Luce policy, and the derivatives of a weighted sum of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.quadrature import (
    TINY,
    WIDEST,
    Workspace,
    fit,
    place_nodes,
    read_block,
    step_back,
    workspace,
)
from rankloop.kernels.query_sizes import longest_query
from rankloop.types import Float64

# Only differences of scores matter, and beyond this value a float64 no longer resolves them to 1e-8.
LARGEST_SCORE = 1e8
# Products of weights of documents and of ranks are summed; beyond this size the sums could overflow.
LARGEST_WEIGHT = 1e100


@kernel
def shown(scores):
    """The documents that can be shown at all: those whose score is not -inf."""
    documents = np.empty(len(scores), np.int64)
    count = 0
    for j in range(len(scores)):
        if scores[j] > -np.inf:
            documents[count] = j
            count += 1
    return documents[:count]


@kernel
def take(values, documents):
    """``values[documents]``, as a loop, which compiles in a fraction of the time."""
    out = np.empty(len(documents))
    for i in range(len(documents)):
        out[i] = values[documents[i]]
    return out


@kernel
def expected_weights(scores, rank_weights, work, out):
    """``out[j, v] = E[rank_weights[v, rank of j]]`` for one query of finite scores.

    rank_weights is vectors × ranks.
    """
    n, vectors = len(scores), rank_weights.shape[0]
    ranks = min(n, rank_weights.shape[1])
    race = fit(work, n, ranks)
    waiting, arrived, density, ahead = race.waiting, race.arrived, race.density, race.ahead
    count = place_nodes(scores, ranks, race.positions, race.widths)
    later, earlier = np.empty((ranks + 1, WIDEST)), np.empty((ranks + 1, WIDEST))
    out[:] = 0.0
    first = 0
    while first < count:
        last = read_block(scores, ranks, first, count, race)
        nodes = last - first
        for v in range(vectors):
            later[ranks] = 0.0
            earlier[ranks] = 0.0
            for m in range(ranks):
                later[m] = rank_weights[v, m]
            for j in range(n - 1, -1, -1):
                total = 0.0
                for m in range(ranks):
                    for b in range(nodes):
                        total += density[j, b] * ahead[j, m, b] * later[m, b]
                out[j, v] += total
                step_back(j, ranks, nodes, waiting, arrived, later, earlier)
                later, earlier = earlier, later
        first = last


class GradientWorkspace(NamedTuple):
    """Scratch for derivatives: the forward pass again, weighted with r and with 1."""

    race: Workspace
    gained: Float64
    gained_1: Float64
    ones: Float64


@kernel
def gradient_workspace(n, ranks):
    """A workspace for queries of up to ``n`` documents."""
    race = workspace(n, ranks)
    return GradientWorkspace(race, np.empty_like(race.ahead), np.empty_like(race.ahead), np.ones(n))


@kernel
def gain_ahead(n, ranks, nodes, document_weights, race, gained):
    """``gained[j, m]``: as ``ahead``, with one document before j ringing now and earning its weight."""
    waiting, arrived, density, ahead = race.waiting, race.arrived, race.density, race.ahead
    gained[0, :, :nodes] = 0.0
    for j in range(n - 1):
        r = document_weights[j]
        for b in range(nodes):
            gained[j + 1, 0, b] = waiting[j, b] * gained[j, 0, b] + r * density[j, b] * ahead[j, 0, b] + TINY
        for m in range(1, ranks):
            for b in range(nodes):
                gained[j + 1, m, b] = (
                    waiting[j, b] * gained[j, m, b]
                    + arrived[j, b] * gained[j, m - 1, b]
                    + r * density[j, b] * ahead[j, m, b]
                    + TINY
                )


@kernel
def owe_back(j, ranks, nodes, weight, race, later, owed, owed_next):
    """``owed_next[m]``: what the documents from j on will earn, one of them ringing now, after m arrivals."""
    waiting, arrived, density = race.waiting, race.arrived, race.density
    for m in range(ranks):
        for b in range(nodes):
            owed_next[m, b] = (
                waiting[j, b] * owed[m, b]
                + arrived[j, b] * owed[m + 1, b]
                + weight * density[j, b] * later[m, b]
                + TINY
            )


@kernel
def loss_by_arrival(j, ranks, nodes, ahead, gained, later, owed, out):
    """``out = ∂v/∂q_j``: what the others earn at each node if j still waits, less if it has arrived."""
    out[:nodes] = 0.0
    for m in range(ranks):
        for b in range(nodes):
            out[b] += gained[j, m, b] * (later[m, b] - later[m + 1, b]) + ahead[j, m, b] * (
                owed[m, b] - owed[m + 1, b]
            )


@kernel
def value_and_derivatives(scores, document_weights, rank_weights, work, gradient, second, curvature):
    """``V = Σ_j r_j E[θ_rank(j)]`` of one query of finite scores, with its derivatives on the scores.

    Reverse mode by hand. ``ahead`` and ``gained`` run forward over the documents (F and G of the docs),
    ``later`` and ``owed`` backward (B and H), once with the weights r and once with weights 1: the gradient
    is a sum of ``(r_j − r_i) ω_ij`` over pairs, so nothing large cancels however peaked the policy is.

    gradient is ∂V/∂s_j, second is ∂²V/∂s_j², curvature is ``Σ_i (r_j + r_i − 2 min r) ω_ij``.
    """
    n = len(scores)
    ranks = min(n, len(rank_weights))
    race = fit(work.race, n, ranks)
    gained = work.gained[: race.ahead.size].reshape(race.ahead.shape)
    gained_1 = work.gained_1[: race.ahead.size].reshape(race.ahead.shape)
    elapsed, waiting, density, ahead = race.elapsed, race.waiting, race.density, race.ahead
    count = place_nodes(scores, ranks, race.positions, race.widths)
    later, later_next = np.empty((ranks + 1, WIDEST)), np.empty((ranks + 1, WIDEST))
    owed, owed_next = np.empty((ranks + 1, WIDEST)), np.empty((ranks + 1, WIDEST))
    owed_1, owed_1_next = np.empty((ranks + 1, WIDEST)), np.empty((ranks + 1, WIDEST))
    by_density, by_waiting, by_waiting_1 = np.empty(WIDEST), np.empty(WIDEST), np.empty(WIDEST)
    gradient[:] = 0.0
    second[:] = 0.0
    curvature[:] = 0.0
    least = np.min(document_weights)
    value = 0.0
    first = 0
    while first < count:
        last = read_block(scores, ranks, first, count, race)
        nodes = last - first
        gain_ahead(n, ranks, nodes, document_weights, race, gained)
        gain_ahead(n, ranks, nodes, work.ones, race, gained_1)
        owed[:] = 0.0
        owed_1[:] = 0.0
        owed_next[ranks] = 0.0
        owed_1_next[ranks] = 0.0
        later[ranks] = 0.0
        later_next[ranks] = 0.0
        for m in range(ranks):
            later[m] = rank_weights[m]
        for j in range(n - 1, -1, -1):
            r = document_weights[j]
            by_density[:nodes] = 0.0
            for m in range(ranks):
                for b in range(nodes):
                    by_density[b] += ahead[j, m, b] * later[m, b]
            loss_by_arrival(j, ranks, nodes, ahead, gained, later, owed, by_waiting)
            loss_by_arrival(j, ranks, nodes, ahead, gained_1, later, owed_1, by_waiting_1)
            slope, bend, grip = 0.0, 0.0, 0.0
            for b in range(nodes):
                z = elapsed[j, b]
                own, others = by_waiting_1[b], by_waiting[b]
                value += r * density[j, b] * by_density[b]
                slope += z * waiting[j, b] * (r * own - others)
                grip += z * waiting[j, b] * ((r - 2.0 * least) * own + others)
                bend += (1.0 - z) * z * waiting[j, b] * (r * own - others)
            gradient[j] += slope
            second[j] += bend
            curvature[j] += grip
            owe_back(j, ranks, nodes, r, race, later, owed, owed_next)
            owe_back(j, ranks, nodes, 1.0, race, later, owed_1, owed_1_next)
            step_back(j, ranks, nodes, waiting, race.arrived, later, later_next)
            later, later_next = later_next, later
            owed, owed_next = owed_next, owed
            owed_1, owed_1_next = owed_1_next, owed_1
        first = last
    return value


@kernel
def expected_weights_of_queries(first, last, offsets, scores, rank_weights, out):
    """``expected_weights`` of the queries ``first … last``; documents that are never shown get 0."""
    work = workspace(longest_query(offsets[first : last + 1]), rank_weights.shape[1])
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        keep = shown(scores[a:b])
        if len(keep) == b - a:
            expected_weights(scores[a:b], rank_weights, work, out[a:b])
            continue
        out[a:b] = 0.0
        if len(keep):
            part = np.empty((len(keep), out.shape[1]))
            expected_weights(take(scores[a:b], keep), rank_weights, work, part)
            for i in range(len(keep)):
                for v in range(out.shape[1]):
                    out[a + keep[i], v] = part[i, v]


@kernel
def metric_of_query(scores, document_weights, rank_weights, work, gradient, second, curvature):
    """``value_and_derivatives`` of one query; documents that are never shown get 0."""
    keep = shown(scores)
    n = len(keep)
    if n == len(scores):
        return value_and_derivatives(
            scores, document_weights, rank_weights, work, gradient, second, curvature
        )
    gradient[:] = 0.0
    second[:] = 0.0
    curvature[:] = 0.0
    if n == 0:
        return 0.0
    parts = np.empty((3, n))
    value = value_and_derivatives(
        take(scores, keep), take(document_weights, keep), rank_weights, work, parts[0], parts[1], parts[2]
    )
    for i in range(n):
        gradient[keep[i]] = parts[0, i]
        second[keep[i]] = parts[1, i]
        curvature[keep[i]] = parts[2, i]
    return value


@kernel
def metrics_of_queries(first, last, offsets, scores, document_weights, rank_weights, values, derivatives):
    """``metric_of_query`` of the queries ``first … last``; derivatives is 3 × documents."""
    work = gradient_workspace(longest_query(offsets[first : last + 1]), len(rank_weights))
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        values[q] = metric_of_query(
            scores[a:b],
            document_weights[a:b],
            rank_weights,
            work,
            derivatives[0, a:b],
            derivatives[1, a:b],
            derivatives[2, a:b],
        )
