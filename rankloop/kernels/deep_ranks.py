"""The race of `rankloop.kernels.quadrature` with many ranks: only the numbers of arrivals that are possible.

With K ranks and n documents, a node of the quadrature costs n·K in `rankloop.kernels.expectations`, and wide
scores need many nodes. At a given time, however, nearly all documents have arrived or wait for certain, and
the number of arrivals among the first j documents is within a few standard deviations of its mean. Here
documents are ordered by score, so that those whose state is open are neighbours, and of each row F_j of the
recursion (docs/plackett-luce.md) only the band of chances above `NEGLIGIBLE` is computed. The nodes are the
same. What is left out changes a result by less than n · `NEGLIGIBLE` times the largest weight.

Nodes are treated one at a time, with the ranks side by side in memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rankloop.kernels.jit import kernel, ordered_kernel
from rankloop.kernels.quadrature import TINY, lattice_windows, node_at
from rankloop.types import Int64

# The number of ranks beyond which these kernels are used.
DEEP = 64
# Chances below this one are left out.
NEGLIGIBLE = 1e-40
# The log of w t below which a document waits for certain, and above which it has arrived for certain.
WAITS, ARRIVED = math.log(NEGLIGIBLE), math.log(-math.log(NEGLIGIBLE))


class Band(NamedTuple):
    """One row per document of chances F: of ``low … high`` arrivals, from ``start`` on in flat arrays."""

    low: Int64
    high: Int64
    start: Int64


@kernel
def grown(array, length):
    """The array, or a copy with room for twice as many numbers as are asked for."""
    if length <= len(array):
        return array
    larger = np.empty(2 * length)
    larger[: len(array)] = array
    return larger


@ordered_kernel
def read_open_clocks(ordered, first, last, position, elapsed, waiting, arrived):
    """At one node, of documents ``first … last``: elapsed z = w t, waiting q = exp(−z), arrived = 1 − q."""
    for j in range(first, last):
        z = math.exp(ordered[j] + position)
        elapsed[j] = z
        waiting[j] = math.exp(-z)
        arrived[j] = -math.expm1(-z)


@kernel
def count_arrivals(first, last, ranks, waiting, arrived, band, ahead):
    """The rows F of documents ``first … last`` and of the end, each in its band; return where they are."""
    band.low[first], band.high[first], band.start[first] = 0, 1, 0
    ahead[0] = 1.0
    used = 1
    for j in range(first, last):
        low, high, start = band.low[j], band.high[j], band.start[j]
        end = min(high + 1, ranks)
        ahead = grown(ahead, used + end - low)
        q, a = waiting[j], arrived[j]
        here, there = ahead[start : start + high - low], ahead[used : used + end - low]
        if low < end:
            there[0] = q * here[0] + TINY
        for m in range(1, high - low):
            there[m] = q * here[m] + a * here[m - 1] + TINY
        if low < high < end:
            there[high - low] = a * here[high - low - 1] + TINY
        least, most = low, end
        while least < most and there[least - low] < NEGLIGIBLE:
            least += 1
        while least < most and there[most - 1 - low] < NEGLIGIBLE:
            most -= 1
        band.low[j + 1], band.high[j + 1], band.start[j + 1] = least, most, used + least - low
        used += most - low
    return ahead


@kernel
def gain_arrivals(first, last, document_weights, densities, waiting, arrived, band, ahead, gained):
    """As `count_arrivals`, with one of the documents ringing now and earning its weight: the rows G."""
    gained[band.start[first]] = 0.0
    for j in range(first, last):
        low, high, start = band.low[j], band.high[j], band.start[j]
        next_low, next_high, next_start = band.low[j + 1], band.high[j + 1], band.start[j + 1]
        q, a, earned = waiting[j], arrived[j], document_weights[j] * densities[j]
        for m in range(next_low, next_high):
            total = TINY
            if m < high:
                place = start + m - low
                total += q * gained[place] + earned * ahead[place]
            if m > low:
                total += a * gained[start + m - 1 - low]
            gained[next_start + m - next_low] = total


@kernel
def step_band_back(j, band, q, a, earned, later, values):
    """``values[m] = q values[m] + a values[m + 1] + earned later[m]`` in the band of j, 0 above it."""
    low, high = band.low[j], band.high[j]
    for m in range(low, high):
        values[m] = q * values[m] + a * values[m + 1] + earned * later[m]
    for m in range(high, band.high[j + 1]):
        values[m] = 0.0


@kernel
def add_deep_weights(scores, rank_weights, begin, end, out):
    """Add the terms of the nodes ``begin … end`` to ``out[j, v] = E[rank_weights[v, rank of j]]``.

    One query of finite scores; rank_weights is vectors × ranks.
    """
    n, vectors = len(scores), rank_weights.shape[0]
    ranks = min(n, rank_weights.shape[1])
    order = np.argsort(-scores)
    ordered = scores[order]
    origin, windows = lattice_windows(ordered, ranks)
    elapsed, waiting, arrived = np.empty(n), np.empty(n), np.empty(n)
    band = Band(np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64))
    ahead, later = np.empty(n + 1), np.zeros(ranks + 2)
    first, last, number = 0, 0, 0
    for w in range(len(windows)):
        for i in range(windows[w, 0], windows[w, 1]):
            number += 1
            if not begin < number <= end:
                continue
            position, width = node_at(origin, i, ranks)
            while first < n and ordered[first] + position > ARRIVED:
                first += 1
            while last < n and ordered[last] + position > WAITS:
                last += 1
            if first >= min(ranks, last):
                continue
            read_open_clocks(ordered, first, last, position, elapsed, waiting, arrived)
            ahead = count_arrivals(first, last, ranks - first, waiting, arrived, band, ahead)
            low, high = band.low[last], band.high[last]
            for v in range(vectors):
                theta = rank_weights[v, first + low : first + high]
                if not np.any(theta != 0.0):
                    continue
                later[:] = 0.0
                for m in range(low, high):
                    later[m] = theta[m - low]
                for j in range(last - 1, first - 1, -1):
                    total, start = 0.0, band.start[j] - band.low[j]
                    for m in range(band.low[j], band.high[j]):
                        total += ahead[start + m] * later[m]
                    out[order[j], v] += width * elapsed[j] * waiting[j] * total
                    step_band_back(j, band, waiting[j], arrived[j], 0.0, later, later)


@kernel
def add_deep_derivatives(scores, document_weights, rank_weights, begin, end, out):
    """Add the terms of the nodes ``begin … end`` to the value, which is returned, and to the derivatives.

    As `rankloop.kernels.expectations.value_and_derivatives`, of one query of finite scores; out is 3 ×
    documents: gradient, second derivative and curvature.
    """
    n, ranks = len(scores), min(len(scores), len(rank_weights))
    order = np.argsort(-scores)
    ordered, r, ones = scores[order], document_weights[order], np.ones(n)
    origin, windows = lattice_windows(ordered, ranks)
    elapsed, waiting, arrived, density = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    band = Band(np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64))
    ahead, gained, gained_1 = np.empty(n + 1), np.empty(0), np.empty(0)
    later, owed, owed_1 = np.zeros(ranks + 2), np.zeros(ranks + 2), np.zeros(ranks + 2)
    least, value = np.min(document_weights), 0.0
    first, last, number = 0, 0, 0
    for w in range(len(windows)):
        for i in range(windows[w, 0], windows[w, 1]):
            number += 1
            if not begin < number <= end:
                continue
            position, width = node_at(origin, i, ranks)
            while first < n and ordered[first] + position > ARRIVED:
                first += 1
            while last < n and ordered[last] + position > WAITS:
                last += 1
            if first >= min(ranks, last):
                continue
            read_open_clocks(ordered, first, last, position, elapsed, waiting, arrived)
            for j in range(first, last):
                density[j] = width * elapsed[j] * waiting[j]
            ahead = count_arrivals(first, last, ranks - first, waiting, arrived, band, ahead)
            if len(gained) < len(ahead):
                gained, gained_1 = np.empty(len(ahead)), np.empty(len(ahead))
            gain_arrivals(first, last, r, density, waiting, arrived, band, ahead, gained)
            gain_arrivals(first, last, ones, density, waiting, arrived, band, ahead, gained_1)
            later[:] = 0.0
            owed[:] = 0.0
            owed_1[:] = 0.0
            for m in range(band.low[last], band.high[last]):
                later[m] = rank_weights[first + m]
            for j in range(last - 1, first - 1, -1):
                start = band.start[j] - band.low[j]
                metric, own, others = 0.0, 0.0, 0.0
                for m in range(band.low[j], band.high[j]):
                    f, fall = ahead[start + m], later[m] - later[m + 1]
                    metric += f * later[m]
                    others += gained[start + m] * fall + f * (owed[m] - owed[m + 1])
                    own += gained_1[start + m] * fall + f * (owed_1[m] - owed_1[m + 1])
                z, q, a, d = elapsed[j], waiting[j], arrived[j], density[j]
                value += r[j] * d * metric
                # The density of j is the common factor of all terms; its width is in those of the others.
                out[0, order[j]] += z * q * (r[j] * own - others)
                out[1, order[j]] += (1.0 - z) * z * q * (r[j] * own - others)
                out[2, order[j]] += z * q * ((r[j] - 2.0 * least) * own + others)
                step_band_back(j, band, q, a, r[j] * d, later, owed)
                step_band_back(j, band, q, a, d, later, owed_1)
                step_band_back(j, band, q, a, 0.0, later, later)
    return value
