"""Passes over displays and clicks: expectations of the mixture, its curvature, and documents shared by ranks.

Documents are divided into blocks with sums of their own, so that results do not depend on the number of
threads.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel


@kernel
def posterior(document, starts, rank, displays, clicks, log_hit, log_miss, prior, out):
    """Fill ``out`` with the posterior of a document's relevance at each node; return the log-likelihood.

    ``document`` is its number; ``prior`` the probability of each node before any click.
    """
    nodes = len(out)
    out[:] = 0.0
    for cell in range(starts[document], starts[document + 1]):
        k, hits, misses = rank[cell], clicks[cell], displays[cell] - clicks[cell]
        for t in range(nodes):
            out[t] += hits * log_hit[k, t] + misses * log_miss[k, t]
    highest = out.max()
    total = 0.0
    for t in range(nodes):
        out[t] = prior[t] * math.exp(out[t] - highest)
        total += out[t]
    for t in range(nodes):
        out[t] /= total
    return highest + math.log(total)


@kernel
def expect(
    first, last, blocks, starts, rank, displays, clicks, stratum, weight,
    log_hit, log_miss, prior, knot, lower,
    shown_sums, click_sums, component_sums, log_likelihood,
):  # fmt: skip
    """One pass: expected displays and clicks by rank and node, and documents by stratum and component.

    ``knot[t]`` is the component left of node t and ``lower[s, t]`` its share of the node's prior; the rest
    belongs to the next component.
    """
    nodes = log_hit.shape[1]
    chances = np.empty(nodes)
    for block in range(first, last):
        shown, clicked, components = shown_sums[block], click_sums[block], component_sums[block]
        for document in range(blocks[block], blocks[block + 1]):
            if weight[document] == 0.0:
                continue
            s = stratum[document]
            log_likelihood[document] = posterior(
                document, starts, rank, displays, clicks, log_hit, log_miss, prior[s], chances
            )
            for t in range(nodes):
                chances[t] *= weight[document]
                own = chances[t] * lower[s, t]
                components[s, knot[t]] += own
                components[s, knot[t] + 1] += chances[t] - own
            for cell in range(starts[document], starts[document + 1]):
                k = rank[cell]
                for t in range(nodes):
                    shown[k, t] += displays[cell] * chances[t]
                    clicked[k, t] += clicks[cell] * chances[t]


@kernel
def curve(
    first, last, blocks, starts, rank, displays, clicks, stratum, weight,
    log_hit, log_miss, prior, knot, lower,
    per_hit, per_miss, relevance, spread, border, within,
):  # fmt: skip
    """One pass: what the second derivatives of the log-likelihood need beyond the sums of `expect`.

    A click at rank k adds ``per_hit[k, t]`` to the derivative of a document's log-likelihood at node t by the
    click probability there, and a display without a click takes ``per_miss`` off it; times 1 − R and R, these
    are the derivatives by the two ends of the rank's line. Summed are

        spread      the covariance, over a document's posterior, of these derivatives by two ends
        border      that of a derivative and of belonging to a component
        within      the product of belonging to two components
    """
    ranks, nodes = log_hit.shape
    components = within.shape[2]
    chances, rank_of = np.empty(nodes), np.empty(ranks, np.int64)
    slopes, by_r = np.empty((ranks, nodes)), np.empty((3, ranks, nodes))
    mean = np.empty((ranks, 2))
    share, mixed = np.empty(components), np.empty((components, 2, ranks))
    for block in range(first, last):
        for document in range(blocks[block], blocks[block + 1]):
            w = weight[document]
            if w == 0.0:
                continue
            s = stratum[document]
            posterior(document, starts, rank, displays, clicks, log_hit, log_miss, prior[s], chances)
            n = 0
            for cell in range(starts[document], starts[document + 1]):
                k, hits, misses = rank[cell], clicks[cell], displays[cell] - clicks[cell]
                rank_of[n] = k
                total, upper = 0.0, 0.0
                for t in range(nodes):
                    slope = hits * per_hit[k, t] - misses * per_miss[k, t]
                    slopes[n, t] = slope
                    expected = chances[t] * slope
                    by_r[0, n, t] = expected
                    by_r[1, n, t] = expected * relevance[t]
                    by_r[2, n, t] = expected * relevance[t] * relevance[t]
                    total += expected
                    upper += expected * relevance[t]
                mean[n, 0], mean[n, 1] = total - upper, upper
                n += 1
            for i in range(n):
                for j in range(i + 1):
                    plain, once, twice = 0.0, 0.0, 0.0
                    for t in range(nodes):
                        plain += by_r[0, i, t] * slopes[j, t]
                        once += by_r[1, i, t] * slopes[j, t]
                        twice += by_r[2, i, t] * slopes[j, t]
                    a, b = 2 * rank_of[i], 2 * rank_of[j]
                    spread[block, a, b] += w * (plain - 2.0 * once + twice - mean[i, 0] * mean[j, 0])
                    spread[block, a, b + 1] += w * (once - twice - mean[i, 0] * mean[j, 1])
                    spread[block, a + 1, b] += w * (once - twice - mean[i, 1] * mean[j, 0])
                    spread[block, a + 1, b + 1] += w * (twice - mean[i, 1] * mean[j, 1])
            share[:] = 0.0
            mixed[:, :, :n] = 0.0
            for t in range(nodes):
                b = knot[t]
                own = chances[t] * lower[s, t]
                next_ = chances[t] - own
                share[b] += own
                share[b + 1] += next_
                for i in range(n):
                    slope = slopes[i, t]
                    above = slope * relevance[t]
                    mixed[b, 0, i] += own * (slope - above)
                    mixed[b, 1, i] += own * above
                    mixed[b + 1, 0, i] += next_ * (slope - above)
                    mixed[b + 1, 1, i] += next_ * above
            for b in range(components):
                for i in range(n):
                    for end in range(2):
                        border[block, s, b, 2 * rank_of[i] + end] += w * (
                            mixed[b, end, i] - share[b] * mean[i, end]
                        )
                for c in range(components):
                    within[block, s, b, c] += w * share[b] * share[c]


@kernel
def score(
    first, last, blocks, starts, rank, displays, clicks, stratum, weight,
    log_hit, log_miss, prior, knot, lower,
    per_hit, per_miss, relevance, by_odds, carried, out,
):  # fmt: skip
    """One pass: the derivative of every document's log-likelihood by the ends, with the priors eliminated.

    ``by_odds[e]`` is the derivative of end e by its log-odds, and ``carried[s, b, e]`` what belonging to
    component b takes off the derivative by end e.
    """
    nodes = log_hit.shape[1]
    chances = np.empty(nodes)
    for block in range(first, last):
        for document in range(blocks[block], blocks[block + 1]):
            if weight[document] == 0.0:
                continue
            s = stratum[document]
            posterior(document, starts, rank, displays, clicks, log_hit, log_miss, prior[s], chances)
            for cell in range(starts[document], starts[document + 1]):
                hits, misses = clicks[cell], displays[cell] - clicks[cell]
                k, total, upper = rank[cell], 0.0, 0.0
                for t in range(nodes):
                    slope = chances[t] * (hits * per_hit[k, t] - misses * per_miss[k, t])
                    total += slope
                    upper += slope * relevance[t]
                out[document, 2 * k] += by_odds[2 * k] * (total - upper)
                out[document, 2 * k + 1] += by_odds[2 * k + 1] * upper
            for t in range(nodes):
                own = chances[t] * lower[s, t]
                rest = chances[t] - own
                for e in range(out.shape[1]):
                    out[document, e] -= own * carried[s, knot[t], e] + rest * carried[s, knot[t] + 1, e]


@kernel
def count_nodes(
    first, last, blocks, starts, rank, displays, clicks, stratum, weight, log_hit, log_miss, prior, out
):  # fmt: skip
    """Sum the posteriors of relevance: the expected number of documents at each node, by block."""
    nodes = log_hit.shape[1]
    chances = np.empty(nodes)
    for block in range(first, last):
        for document in range(blocks[block], blocks[block + 1]):
            if weight[document] == 0.0:
                continue
            posterior(
                document, starts, rank, displays, clicks, log_hit, log_miss, prior[stratum[document]], chances
            )
            for t in range(nodes):
                out[block, t] += weight[document] * chances[t]


@kernel
def mean_relevance(
    first, last, _segments, starts, rank, displays, clicks, stratum, log_hit, log_miss, prior, relevance, out
):
    """The posterior mean of every document's relevance."""
    chances = np.empty(log_hit.shape[1])
    for document in range(first, last):
        posterior(
            document, starts, rank, displays, clicks, log_hit, log_miss, prior[stratum[document]], chances
        )
        out[document] = 0.0
        for t in range(len(chances)):
            out[document] += chances[t] * relevance[t]


@kernel
def compare_positions(starts, rank, displays, clicks, weight, shared, effective, clicked):
    """What each pair of ranks shares: documents, effective displays, and expected clicks on these.

    Of a document that was shown n times at rank j and m times at rank k, ``n · m / (n + m)`` displays count
    at each: that many displays at both ranks would compare them with the same precision.
    """
    for document in range(len(starts) - 1):
        w = weight[document]
        if w == 0.0:
            continue
        for a in range(starts[document], starts[document + 1]):
            j = rank[a]
            shared[j, j] += w
            effective[j, j] += w * displays[a]
            clicked[j, j] += w * clicks[a]
            for b in range(starts[document], starts[document + 1]):
                if a != b:
                    k = rank[b]
                    common = w * displays[a] * displays[b] / (displays[a] + displays[b])
                    shared[j, k] += w
                    effective[j, k] += common
                    clicked[j, k] += common * clicks[a] / displays[a]


@kernel
def compare_with(starts, rank, displays, connected, effective):
    """Effective displays between each rank and the connected ranks, taken together."""
    for document in range(len(starts) - 1):
        for a in range(starts[document], starts[document + 1]):
            there = 0.0
            for b in range(starts[document], starts[document + 1]):
                if a != b and connected[rank[b]]:
                    there += displays[b]
            if there > 0.0:
                effective[rank[a]] += displays[a] * there / (displays[a] + there)
