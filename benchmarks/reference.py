"""The truth that errors are measured against, shared with nothing in rankloop: NumPy, slow, and fine.

Plain trapezoid rule in log time over the race of exponential clocks, with a third of the library's step, no
substitution and no windows; docs/plackett-luce.md has the formulas. Expected weights count every item's
competitors anew, without a backward pass. The gradient is no formula at all: the value is an analytic
function of the scores, so its derivative is the imaginary part of a step into the complex plane, to the last
digit and without a difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Float64

# The rule's error falls as exp(−π² / step): at 0.1 it is below rounding.
STEP = 0.1
# exp(−36) = 2e-16 of the first arrivals come before the first node; exp(−40) = 4e-18 after the last.
LEFT, RIGHT = 36.0, 40.0
# Far below rounding, and far from where products become denormal.
COMPLEX_STEP = 1e-30


def expected_rank_weights(scores: Float64, rank_weights: Float64) -> Float64:
    """``E[θ_rank(d)]``, one number an item, for finite scores of one query."""
    n, ranks = len(scores), min(len(scores), len(rank_weights))
    elapsed = np.exp(scores[:, None] + _nodes(scores, ranks))
    waiting, arrived = np.exp(-elapsed), -np.expm1(-elapsed)
    # ahead[d, m]: the chance that m of the items other than d have arrived, items × ranks × nodes.
    ahead = np.zeros((n, ranks, elapsed.shape[1]))
    ahead[:, 0] = 1.0
    for j in range(n):
        others = np.arange(n) != j
        ahead[others] = _after(ahead[others], waiting[j], arrived[j])
    worth = np.einsum("m,dmx->dx", rank_weights[:ranks], ahead)
    values: Float64 = STEP * (elapsed * waiting * worth).sum(axis=1)
    return values


def reward_gradient(scores: Float64, doc_weights: Float64, rank_weights: Float64) -> Float64:
    """The gradient of ``Σ_d r_d · E[θ_rank(d)]`` on the scores of one query: ``Im V(s + i h e_d) / h``."""
    steps = scores + 1j * COMPLEX_STEP * np.eye(len(scores))
    nodes = _nodes(scores, min(len(scores), len(rank_weights)))
    return np.imag(_rewards(steps, doc_weights, rank_weights, nodes)) / COMPLEX_STEP


def _nodes(scores: Float64, ranks: int) -> Float64:
    n = len(scores)
    slowest = np.sort(scores)[: n - ranks + 1]
    first = -np.logaddexp.reduce(scores) - LEFT
    last = np.log(RIGHT + ranks * np.log(n)) - np.logaddexp.reduce(slowest)
    return np.arange(first, last + STEP, STEP)


def _after(chances: NDArray[Any], waiting: NDArray[Any], arrived: NDArray[Any]) -> NDArray[Any]:
    """The chances (…, ranks, nodes) of numbers of arrivals once one more item is counted."""
    after: NDArray[Any] = waiting[..., None, :] * chances
    after[..., 1:, :] += arrived[..., None, :] * chances[..., :-1, :]
    return after


def _rewards(
    scores: NDArray[np.complex128], doc_weights: Float64, rank_weights: Float64, nodes: Float64
) -> NDArray[np.complex128]:
    """``Σ_d r_d · E[θ_rank(d)]`` of each row of scores, vectors × items.

    One pass over the items: ``arrivals`` are the chances that m have arrived, ``earned`` the same with one of
    them ringing just now and earning its weight.
    """
    ranks = min(scores.shape[1], len(rank_weights))
    elapsed = np.exp(scores[:, :, None] + nodes)
    waiting, arrived = np.exp(-elapsed), -np.expm1(-elapsed)
    arrivals = np.zeros((len(scores), ranks, len(nodes)), np.complex128)
    arrivals[:, 0] = 1.0
    earned = np.zeros_like(arrivals)
    for j, weight in enumerate(doc_weights):
        rings = weight * elapsed[:, j] * waiting[:, j]
        earned = _after(earned, waiting[:, j], arrived[:, j]) + rings[:, None] * arrivals
        arrivals = _after(arrivals, waiting[:, j], arrived[:, j])
    totals: NDArray[np.complex128] = STEP * np.einsum("m,smx->s", rank_weights[:ranks], earned)
    return totals
