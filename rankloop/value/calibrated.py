"""The gain of a policy by a guess that clicks have calibrated: far less noise, for one assumption."""

from __future__ import annotations

import numpy as np

from rankloop.errors import DataError
from rankloop.ragged import segment_sum
from rankloop.statistics.intervals import student_quantile, tail_quantile
from rankloop.types import Float64, Int64
from rankloop.value.held_out_clicks import Gain, HeldOutClicks

# Where errors that were estimated from few queries have to be right: 0.05 over 20 looks.
LEVEL_OF_A_LOOK = 0.05 / 20


def calibrated_gain(clicks: HeldOutClicks, new: Float64, old: Float64) -> Gain:
    """Estimate the gain of a policy by a guess that is calibrated on clicks neither has seen.

        R(d) − m_d ≈ a_q + b_1 m_d + b_2 λ_old(d) + b_3 λ_new(d)
        gain = 1/T Σ_q N_q Σ_d (λ_new(d) − λ_old(d)) (m_d + b_1 m_d + b_2 λ_old(d) + b_3 λ_new(d))

    The coefficients are those of a regression of unexplained clicks, weighted by examination: does what the
    policy shows more of turn out more relevant than the guess says, or less? An unbiased estimate weights a
    document that was hardly ever shown by 1/ᾱ, and most of its noise comes from such documents. This one
    takes what documents like it (of the same guess, given as much exposure by both policies) showed. It is
    right on average if the guess is right, or if the errors of the guess are, up to a constant per query,
    linear in the expected rank weights of both policies, for documents that were shown and for documents that
    were not. Errors that only documents which were never shown have, nobody can see.

    The standard error over queries is the sandwich estimate, with a correction for few queries.

    Args:
        clicks: of queries that neither policy was trained on.
        new: documents; the expected rank weights of the new policy.
        old: documents; those of the old one.

    Example:
        A document that the new policy likes better was clicked more often than the guess said.

        >>> from rankloop.statistics import Exposure, Statistics
        >>> from rankloop.types import Bias
        >>> bias, queries = Bias(alpha=[1.0], beta=[0.0], examination=[1.0]), 50
        >>> offsets = np.arange(0, 4 * queries + 1, 4)
        >>> displays = np.full((4 * queries, 1), 100)
        >>> relevance = np.tile([0.1, 0.2, 0.4, 0.5], queries)
        >>> log = Statistics.of_policy(
        ...     "a", offsets, Exposure(*np.full((3, 4 * queries), 0.25)),
        ...     impressions_by_query=np.full(queries, 400),
        ...     displays_by_position=displays,
        ...     clicks_by_position=(100 * relevance[:, None]).round().astype(int),
        ... )
        >>> old, new = np.tile([0.3, 0.2, 0.3, 0.2], queries), np.tile([0.1, 0.2, 0.3, 0.4], queries)
        >>> found = calibrated_gain(HeldOutClicks.measure(log, bias, np.full(4 * queries, 0.3)), new, old)
        >>> round(found.value, 6)  # (0.4 − 0.2) · 0.5 + (0.1 − 0.3) · 0.1
        0.08
    """
    offsets, weights = clicks.offsets, np.maximum(clicks.examined, 0.0)
    if new.shape != old.shape or new.shape != clicks.guess.shape:
        raise DataError(
            f"{len(clicks.guess)} documents need expected rank weights of both policies, got {new.shape} and "
            f"{old.shape}"
        )
    columns = np.stack([clicks.guess, old, new], axis=1)
    effect = (clicks.impressions_of * (new - old)) @ columns / clicks.total
    promised = float(effect[0])
    within = np.stack([centred(column, weights, offsets) for column in columns.T], axis=1)
    # Columns that clicks cannot tell apart say the same about the gain: one of them is enough. Compared with
    # columns before they are centred, of which a constant leaves only rounding errors.
    scale = np.sqrt(weights @ columns**2)
    used = _independent(within * np.sqrt(weights)[:, None], scale)
    if not used.any():
        return Gain(promised, np.inf, np.inf, np.inf, promised)
    within, effect = within[:, used], effect[used]
    inverse = np.linalg.inv((weights[:, None] * within).T @ within)
    shortfall = clicks.unexplained - weights * _mean(clicks.unexplained, weights, offsets)
    slopes = inverse @ (within.T @ shortfall)
    left = shortfall - weights * (within @ slopes)
    by_query = segment_sum(within * left[:, None], offsets)
    informative = int(np.count_nonzero(segment_sum((weights > 0.0).astype(np.int64), offsets) > 1))
    freedom = informative - len(effect)
    direction = inverse @ effect
    click_error = float(np.sqrt(clicks.noise * (effect @ direction)))
    spread = float(((by_query @ direction) ** 2).sum())
    query_error = _widening(freedom) * float(np.sqrt(spread * informative / max(freedom, 1)))
    return Gain(promised + float(effect @ slopes), click_error, click_error, query_error, promised)


def _widening(freedom: int) -> float:
    """How much larger an error is that was estimated from few queries: a quantile of Student's t over z."""
    if freedom < 1:
        return np.inf
    return student_quantile(freedom, LEVEL_OF_A_LOOK) / tail_quantile(LEVEL_OF_A_LOOK)


def _mean(total: Float64, weights: Float64, offsets: Int64) -> Float64:
    """For each document, ``Σ total / Σ weights`` over its query; 0 where nothing was examined."""
    below = segment_sum(weights, offsets)
    means = np.divide(segment_sum(total, offsets), below, out=np.zeros(len(below)), where=below > 0.0)
    return np.repeat(means, np.diff(offsets))


def centred(values: Float64, weights: Float64, offsets: Int64) -> Float64:
    """Subtract the weighted mean of each query; nothing where all weights are 0.

    >>> centred(np.array([1.0, 4.0, 5.0]), np.array([2.0, 1.0, 0.0]), np.array([0, 2, 3]))
    array([-1.,  2.,  5.])
    """
    return values - _mean(weights * values, weights, offsets)


def _independent(columns: Float64, scale: Float64) -> np.ndarray:
    """Which columns are not, up to rounding, combinations of those after them."""
    used = np.zeros(columns.shape[1], np.bool_)
    basis: list[Float64] = []
    for number in reversed(range(columns.shape[1])):
        rest = columns[:, number]
        for vector in basis:
            rest = rest - (vector @ rest) * vector
        size = float(np.linalg.norm(rest))
        if scale[number] > 0.0 and size > 1e-6 * scale[number]:
            used[number] = True
            basis.append(rest / size)
    return used
