"""Whether, and when, rankings changed while a log was written: only then can a change of users favour one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from rankloop.evidence.attraction import fold_of
from rankloop.evidence.score_test import CellGroups, combine
from rankloop.statistics.counts import ImpressionTable
from rankloop.types import Float64, Int64

# Rankings count as changed if they did by so many standard errors; a wrong yes costs little.
CHANGED = 3.0
# Fewer queries do not tell how much they differ, and documents take their place.
LEAST_QUERIES = 20
# Policies are compared within at most so many periods. Many short policies, as those of a loop, share one.
MOST_PERIODS = 8
# A shorter period says too little for an interval of its own.
LEAST_IMPRESSIONS, LEAST_SHARE = 200, 0.02
# A cut has to say so much about which policy serves: in nats, and in nats per impression of the log.
LEAST_GAIN, LEAST_INFORMATION = 15.0, 0.001
# At so many times, about, a cut is tried.
GRID = 2_000


def rankings_changed(table: ImpressionTable) -> bool:
    """Whether documents stood elsewhere, or others were shown, in the second half of a log's time.

        z = Σ_q x_q / √(Σ_q x_q²),    x_q = Σ_d c_d0 c_d1

    c_dh is the covariance of the document's position with the second half, or the number of its displays
    there beyond the query's share, in fold h of the units. Chance has a mean product of 0. Without times, any
    two policies may have served one after the other.

    Args:
        table: the impressions.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> lists = rng.permuted(np.tile(np.arange(4), (2_000, 1)), axis=1)
        >>> time = np.arange(2_000)
        >>> def changed(lists):
        ...     return rankings_changed(
        ...         ImpressionTable.of_lists(lists, lists == 0, query=np.arange(2_000) % 50, time=time)
        ...     )
        >>> changed(lists), changed(np.where(time[:, None] < 1_000, lists, np.sort(lists, axis=1)))
        (False, True)
    """
    known = np.zeros(0) if table.time is None else table.time[~np.isnan(table.time)]
    if table.time is None or not len(known) or not np.ptp(known):
        return len(table.policy_ids) > 1
    rows = table.rows
    late = (table.time > np.nanmedian(table.time)).astype(np.float64)
    fold, impression = fold_of(table.unit), rows.impression_of
    query = rows.query[impression]
    document = combine(rows.document, query)
    count = int(document.max(initial=-1)) + 1
    cell = CellGroups(document, fold[impression])
    position = rows.position.astype(np.float64)
    moved = cell.residual(position) * cell.residual(late[impression])
    # The share of the query's impressions of the fold that came late.
    usual = CellGroups(rows.query, fold).mean(late)[impression]
    shown = late[impression] - usual
    place = document * 2 + fold[impression]
    queries = np.zeros(count, np.int64)
    queries[document] = query
    return any(
        _excess(np.bincount(place, part, 2 * count).astype(np.float64).reshape(-1, 2), queries) > CHANGED
        for part in (moved, shown)
    )


def _excess(sums: Float64, query: Int64) -> float:
    product = sums[:, 0] * sums[:, 1]
    _, group = np.unique(query, return_inverse=True)
    if int(group.max(initial=-1)) + 1 >= LEAST_QUERIES:
        product = np.bincount(group, product).astype(np.float64)
    scale = math.sqrt(float((product**2).sum()))
    return float(product.sum()) / scale if scale > 0.0 else 0.0


def traffic_cuts(table: ImpressionTable) -> Float64:
    """The times at which the policies that share the traffic changed: seconds since 1970, ascending.

    Time is cut where the shares of the policies before and after differ most,

        gain = Σ_parts Σ_policies n log(n / N_part),    minus the same of both parts together,

    and the parts are cut again, the largest gain first. Two policies that serve at the same time are not cut
    apart, nor are those that take turns.

    Args:
        table: the impressions.

    Example:
        >>> policy = np.repeat([0, 1], [700, 300])
        >>> lists = np.zeros((1_000, 1), int)
        >>> times = np.arange(1_000)
        >>> traffic_cuts(ImpressionTable.of_lists(lists, lists, query=times, policy=policy, time=times))
        array([700.])
    """
    nothing = np.zeros(0)
    if table.time is None or len(table.policy_ids) < 2:
        return nothing
    known = ~np.isnan(table.time)
    time, policy = table.time[known], table.policy[known]
    if not len(time):
        return nothing
    order = np.argsort(time, kind="stable")
    time, policy = time[order], policy[order]
    # The first impressions of policies, and otherwise a grid.
    firsts = [time[policy == number][0] for number in np.unique(policy)]
    grid = np.unique(np.concatenate([time[:: max(1, len(time) // GRID)], firsts, [time[0]]]))
    # Impressions before each time of the grid, by policy.
    before = np.stack(
        [np.searchsorted(time[policy == number], grid) for number in np.unique(policy)], axis=1
    ).astype(np.float64)
    total = np.bincount(np.unique(policy, return_inverse=True)[1]).astype(np.float64)
    edges = np.concatenate([before, total[None]])
    least = max(LEAST_IMPRESSIONS, LEAST_SHARE * len(time))
    enough = max(LEAST_GAIN, LEAST_INFORMATION * len(time))
    parts, cuts = [_best_cut(edges, 0, len(edges) - 1, least)], []
    while len(parts) < MOST_PERIODS:
        number = max(range(len(parts)), key=lambda place: parts[place].gain)
        part = parts[number]
        if part.gain < enough:
            break
        cuts.append(part.cut)
        parts[number : number + 1] = [
            _best_cut(edges, part.first, part.cut, least),
            _best_cut(edges, part.cut, part.last, least),
        ]
    return grid[sorted(cuts)]


class _Part(NamedTuple):
    """Part of the time, and where it is cut best: places on the grid."""

    first: int
    last: int
    cut: int
    gain: float


def _best_cut(edges: Float64, first: int, last: int, least: float) -> _Part:
    inside = edges[first + 1 : last]
    left, right = inside - edges[first], edges[last] - inside
    sizes = np.minimum(left.sum(axis=1), right.sum(axis=1))
    if not len(inside) or sizes.max() < least:
        return _Part(first, last, first, 0.0)
    gains = _information(left) + _information(right) - _information(edges[last] - edges[first])
    gains = np.where(sizes >= least, gains, 0.0)
    best = int(np.argmax(gains))
    return _Part(first, last, first + 1 + best, float(gains[best]))


def _information(counts: Float64) -> Float64:
    """Σ n log(n / N), over the last axis."""
    result: Float64 = xlogy(counts, counts).sum(axis=-1) - xlogy(total := counts.sum(axis=-1), total)
    return result
