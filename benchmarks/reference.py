"""The reference values that errors are measured against: slow NumPy that shares no code with rankloop.

It is the plain trapezoid rule in log time over exponential arrival times, with a third of the library's step,
no substitution and no windows; docs/plackett-luce.md has the formulas. Expected weights count the competitors
of every document separately, without a backward pass. The gradient does not depend on a formula: the value is
an analytic function of the scores, so its derivative is the imaginary part of a step into the complex plane,
without the cancellation of a difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Float64

# The error of the rule decreases like exp(−π² / step): at 0.1 it is below rounding.
STEP = 0.1
# exp(−36) = 2e-16 of the first arrivals are before the first node, and exp(−40) = 4e-18 after the last.
LEFT, RIGHT = 36.0, 40.0
# Far below rounding, and far above where products become denormal.
COMPLEX_STEP = 1e-30


def expected_rank_weights(scores: Float64, rank_weights: Float64) -> Float64:
    """Compute ``E[θ_rank(d)]`` of each document, for finite scores of one query."""
    n, ranks = len(scores), min(len(scores), len(rank_weights))
    elapsed = np.exp(scores[:, None] + _nodes(scores, ranks))
    waiting, arrived = np.exp(-elapsed), -np.expm1(-elapsed)
    # ahead[d, m]: the probability that m documents other than d have arrived, documents × ranks × nodes.
    ahead = np.zeros((n, ranks, elapsed.shape[1]))
    ahead[:, 0] = 1.0
    for j in range(n):
        others = np.arange(n) != j
        ahead[others] = _after(ahead[others], waiting[j], arrived[j])
    gained = np.einsum("m,dmx->dx", rank_weights[:ranks], ahead)
    values: Float64 = STEP * (elapsed * waiting * gained).sum(axis=1)
    return values


def metric_gradient(scores: Float64, document_weights: Float64, rank_weights: Float64) -> Float64:
    """Compute the gradient of ``Σ_d r_d · E[θ_rank(d)]`` by the scores: ``Im V(s + i h e_d) / h``."""
    steps = scores + 1j * COMPLEX_STEP * np.eye(len(scores))
    nodes = _nodes(scores, min(len(scores), len(rank_weights)))
    return np.imag(_metrics(steps, document_weights, rank_weights, nodes)) / COMPLEX_STEP


def _nodes(scores: Float64, ranks: int) -> Float64:
    n = len(scores)
    slowest = np.sort(scores)[: n - ranks + 1]
    first = -np.logaddexp.reduce(scores) - LEFT
    last = np.log(RIGHT + ranks * np.log(n)) - np.logaddexp.reduce(slowest)
    return np.arange(first, last + STEP, STEP)


def _after(chances: NDArray[Any], waiting: NDArray[Any], arrived: NDArray[Any]) -> NDArray[Any]:
    """Update the probabilities (…, ranks, nodes) of the number of arrivals for one more document."""
    after: NDArray[Any] = waiting[..., None, :] * chances
    after[..., 1:, :] += arrived[..., None, :] * chances[..., :-1, :]
    return after


def _metrics(
    scores: NDArray[np.complex128], document_weights: Float64, rank_weights: Float64, nodes: Float64
) -> NDArray[np.complex128]:
    """Compute ``Σ_d r_d · E[θ_rank(d)]`` of each row of scores, vectors × documents.

    One pass over the documents: ``arrivals`` are the probabilities that m documents have arrived, ``earned``
    the same where one of them arrives now and earns its weight.
    """
    ranks = min(scores.shape[1], len(rank_weights))
    elapsed = np.exp(scores[:, :, None] + nodes)
    waiting, arrived = np.exp(-elapsed), -np.expm1(-elapsed)
    arrivals = np.zeros((len(scores), ranks, len(nodes)), np.complex128)
    arrivals[:, 0] = 1.0
    earned = np.zeros_like(arrivals)
    for j, weight in enumerate(document_weights):
        arriving = weight * elapsed[:, j] * waiting[:, j]
        earned = _after(earned, waiting[:, j], arrived[:, j]) + arriving[:, None] * arrivals
        arrivals = _after(arrivals, waiting[:, j], arrived[:, j])
    totals: NDArray[np.complex128] = STEP * np.einsum("m,smx->s", rank_weights[:ranks], earned)
    return totals
