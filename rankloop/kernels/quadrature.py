"""The race of exponential clocks: where to look, who has arrived by then, and what that is worth.

Document j's clock rings at a time with rate ``w_j = exp(s_j)``; a Plackett–Luce ranking is the order of the
rings. Everything here treats one query of finite scores. Nodes of the quadrature are handled in blocks whose
nodes lie side by side in memory, so that the innermost loops become SIMD instructions; arrays are
documents × nodes or documents × ranks × nodes. docs/plackett-luce.md derives all of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rankloop.kernels.jit import bits_of, float_of, kernel, ordered_kernel
from rankloop.types import Float64

# Where the substitution x = y − exp(−y) starts: exp(x) is then 1e-10 of the scale of the first arrival.
FIRST_NODE = -3.0
# How far, in log time, before a document's own scale a later window opens: exp(−20) is 2e-9 of its mass.
LEFT_TAIL = 20.0
# Survival probabilities below exp(−32) = 1e-14 close a window.
RIGHT_TAIL = 32.0
# A clock that is expected to have rung 300 times has rung; exp(±300) is still a float64.
LARGEST = 300.0
# Added to every chance, so that products of small ones never become denormal numbers, on which processors
# are a hundred times slower. Twice its size in decimal digits is still a normal number.
TINY = 1e-150
# The step is this for few ranks, and this over the root of the number of ranks for many.
WIDEST_STEP, STEP_BY_ROOT = 0.3, 0.85
# Nodes per block: enough for SIMD to pay off, few enough for a query's block to stay in the cache.
WIDEST, NARROWEST = 32, 16
CACHED_NUMBERS = 262_144

_LOG2E, _LN2 = 1.0 / math.log(2.0), math.log(2.0)
# Added to a small whole number, 1.5·2^52 leaves that number in the lowest bits of the sum.
_WHOLE = 6755399441055744.0
_EXPONENT_BIAS, _EXPONENT_BIT = 1023, 52


@kernel
def step_for(ranks):
    """The trapezoid step that keeps relative errors below 2e-7, marginals of the last rank included.

    The rule's error on the chance of a late rank grows with that rank like |Γ(m + 1 + 2πi/h)| / m!, which
    a step that falls with the root of the rank holds down.
    """
    return min(WIDEST_STEP, STEP_BY_ROOT / math.sqrt(ranks))


@kernel
def node_capacity(n, ranks):
    """An upper bound on the number of nodes that ``place_nodes`` returns."""
    window = LEFT_TAIL - FIRST_NODE + 2.0 * math.log(n) + math.log(RIGHT_TAIL + ranks * math.log(n))
    return ranks * (int(window / step_for(ranks)) + 2)


@kernel
def highest(scores, count):
    """The ``count`` highest scores, in descending order."""
    best = np.empty(count)
    filled = 0
    for j in range(len(scores)):
        if filled == count and scores[j] <= best[count - 1]:
            continue
        place = min(filled, count - 1)
        while place > 0 and best[place - 1] < scores[j]:
            best[place] = best[place - 1]
            place -= 1
        best[place] = scores[j]
        filled = min(filled + 1, count)
    return best


@kernel
def lattice_windows(scores, ranks):
    """Where this query needs nodes: the origin of log time, and windows × 2 numbers of the lattice.

    Nodes lie on one lattice ``y = FIRST_NODE + i·step`` with ``x = y − exp(−y)``, counted from the scale of
    the first arrival. Stretches in which none of the first ``ranks`` places can be taken are left out, so a
    wide spread of scores costs a few windows and not its length. Each window is from its first i up to, and
    without, its second.
    """
    n, step = len(scores), step_for(ranks)
    fastest = highest(scores, ranks)
    # The total rate of all documents, and of all but the fastest ranks − 1, each in units of its largest
    # term.
    everyone, slow, as_fast = 0.0, 0.0, 0
    for j in range(n):
        everyone += math.exp(scores[j] - fastest[0])
        if scores[j] < fastest[ranks - 1]:
            slow += math.exp(scores[j] - fastest[ranks - 1])
        else:
            as_fast += 1
    slow += as_fast - (ranks - 1)
    origin = -fastest[0] - math.log(everyone)
    # Document d takes a rank only if d and n − ranks others were still waiting: at most n^ranks choices of
    # them, each with a chance below exp(−t · the total rate of the slowest n − ranks + 1).
    reach = math.log(RIGHT_TAIL + ranks * math.log(n)) - origin
    end = reach - fastest[ranks - 1] - math.log(slow)
    opening = LEFT_TAIL + math.log(n) + origin
    windows = np.empty((ranks, 2), np.int64)
    right, i = min(reach - fastest[0], end), 0
    for place in range(ranks):
        if place > 0:
            left = -fastest[place] - opening
            if left > FIRST_NODE + i * step:
                i = math.ceil((left - FIRST_NODE) / step)
            right = max(right, min(reach - fastest[place], end))
        windows[place, 0] = i
        i = max(i, math.floor((right - FIRST_NODE) / step) + 1)
        windows[place, 1] = i
    return origin, windows


@kernel
def node_at(origin, i, ranks):
    """The position x (log time) and the trapezoid width dx of the node with number ``i`` on the lattice."""
    step = step_for(ranks)
    y = FIRST_NODE + i * step
    bend = math.exp(-y)
    return origin + y - bend, step * (1.0 + bend)


@kernel
def count_nodes(scores, ranks):
    """The number of nodes that this query needs."""
    _, windows = lattice_windows(scores, ranks)
    count = 0
    for w in range(len(windows)):
        count += windows[w, 1] - windows[w, 0]
    return count


@kernel
def place_nodes(scores, ranks, positions, widths):
    """Fill in the positions x (log time) and widths dx of the nodes of this query; return their number."""
    origin, windows = lattice_windows(scores, ranks)
    count = 0
    for w in range(len(windows)):
        for i in range(windows[w, 0], windows[w, 1]):
            positions[count], widths[count] = node_at(origin, i, ranks)
            count += 1
    return count


@kernel
def block_width(n, ranks):
    """The largest number of nodes in a block of this query."""
    return min(WIDEST, max(NARROWEST, CACHED_NUMBERS // (n * ranks)))


class Workspace(NamedTuple):
    """Scratch for one query at a time: flat for many queries, cut to the shape of one by ``fit``."""

    positions: Float64
    widths: Float64
    elapsed: Float64
    waiting: Float64
    arrived: Float64
    density: Float64
    ahead: Float64


@kernel
def workspace(n, ranks):
    """A workspace for queries of up to ``n`` documents, allocated once."""
    ranks = min(n, ranks)
    nodes, size = node_capacity(n, ranks), n * WIDEST
    # No query of up to n documents fills more than its widest block, or more than its narrowest, of the
    # cache.
    deep = min(size * ranks, max(CACHED_NUMBERS, n * ranks * NARROWEST))
    return Workspace(
        np.empty(nodes),
        np.empty(nodes),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(deep),
    )


@kernel
def fit(work, n, ranks):
    """The workspace in the shape of one query: documents × nodes, and documents × ranks × nodes."""
    width = block_width(n, ranks)
    size = n * width
    return Workspace(
        work.positions,
        work.widths,
        work.elapsed[:size].reshape((n, width)),
        work.waiting[:size].reshape((n, width)),
        work.arrived[:size].reshape((n, width)),
        work.density[:size].reshape((n, width)),
        work.ahead[: size * ranks].reshape((n, ranks, width)),
    )


@kernel
def block_end(positions, first, count, width):
    """Return the end of the block that starts at node ``first``; its nodes must share one scale of time."""
    last = min(first + width, count)
    while positions[last - 1] - positions[first] > LARGEST:
        last -= 1
    return last


@ordered_kernel
def read_clocks(scores, positions, first, last, elapsed, waiting, arrived):
    """At the nodes ``first … last``: elapsed = w t, waiting q = exp(−w t), arrived = 1 − q."""
    start = positions[first]
    nodes = last - first
    times = np.exp(positions[first:last] - start)
    for j in range(len(scores)):
        rate = math.exp(min(scores[j] + start, LARGEST))
        for b in range(nodes):
            z = min(rate * times[b], LARGEST)
            # exp(−z) = 2^k · e^r, and 1 − exp(−z) = (1 − 2^k) − 2^k (e^r − 1) keeps its relative precision
            # however small z is. The series of e^r − 1 is exact to the last bit for |r| ≤ log(2) / 2.
            k = np.floor(0.5 - z * _LOG2E)
            r = -z - k * _LN2
            series = 1.0 / 479001600.0
            series = series * r + 1.0 / 39916800.0
            series = series * r + 1.0 / 3628800.0
            series = series * r + 1.0 / 362880.0
            series = series * r + 1.0 / 40320.0
            series = series * r + 1.0 / 5040.0
            series = series * r + 1.0 / 720.0
            series = series * r + 1.0 / 120.0
            series = series * r + 1.0 / 24.0
            series = series * r + 1.0 / 6.0
            series = series * r + 0.5
            series = series * r + 1.0
            power = float_of((bits_of(k + _WHOLE) + _EXPONENT_BIAS) << _EXPONENT_BIT)
            growth = power * (series * r)
            elapsed[j, b] = z
            waiting[j, b] = power + growth
            arrived[j, b] = (1.0 - power) - growth


@kernel
def ring_density(n, widths, first, nodes, elapsed, waiting, density):
    """``density = dx · w t · q``: the chance that the clock rings around each node."""
    for j in range(n):
        for b in range(nodes):
            density[j, b] = widths[first + b] * elapsed[j, b] * waiting[j, b]


@kernel
def count_ahead(n, ranks, nodes, waiting, arrived, ahead):
    """``ahead[j, m]``: the chance that m of the documents listed before j have arrived (F of the docs)."""
    ahead[0, :, :nodes] = 0.0
    ahead[0, 0, :nodes] = 1.0
    for j in range(n - 1):
        for b in range(nodes):
            ahead[j + 1, 0, b] = waiting[j, b] * ahead[j, 0, b] + TINY
        for m in range(1, ranks):
            for b in range(nodes):
                ahead[j + 1, m, b] = (
                    waiting[j, b] * ahead[j, m, b] + arrived[j, b] * ahead[j, m - 1, b] + TINY
                )


@kernel
def step_back(j, ranks, nodes, waiting, arrived, later, earlier):
    """``earlier = q_j later[m] + (1 − q_j) later[m + 1]``: what the rest of the list makes of m arrivals."""
    for m in range(ranks):
        for b in range(nodes):
            earlier[m, b] = waiting[j, b] * later[m, b] + arrived[j, b] * later[m + 1, b] + TINY


@kernel
def read_block(scores, ranks, first, count, work):
    """Fill the workspace with what the block of nodes from ``first`` on needs; return where it ends."""
    n = len(scores)
    last = block_end(work.positions, first, count, block_width(n, ranks))
    nodes = last - first
    read_clocks(scores, work.positions, first, last, work.elapsed, work.waiting, work.arrived)
    ring_density(n, work.widths, first, nodes, work.elapsed, work.waiting, work.density)
    count_ahead(n, ranks, nodes, work.waiting, work.arrived, work.ahead)
    return last
