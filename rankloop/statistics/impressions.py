"""Statistics of impressions that are given one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rankloop.errors import DataError
from rankloop.statistics.exposure import Exposure
from rankloop.statistics.statistics import Statistics
from rankloop.types import Int64, as_whole_numbers, check_offsets


def of_impressions(
    policy: str, offsets: Int64, exposure: Exposure, *, queries: object, rankings: object, clicks: object
) -> Statistics:
    """Count what one policy showed and what was clicked.

    A log that does not fit in memory is counted in parts: the statistics of the parts add.

    Args:
        policy: the id of the logging policy.
        offsets: queries + 1.
        exposure: the expected exposure of each item under the policy.
        queries: impressions; the number of each one's query.
        rankings: impressions × ranks; positions of items within their query, best first, -1 where no item is
            shown.
        clicks: impressions × ranks; whether the item shown there was clicked.

    Example:
        >>> offsets = np.array([0, 3])
        >>> statistics = of_impressions(
        ...     "a", offsets, Exposure(*np.ones((3, 3))),
        ...     queries=[0, 0], rankings=[[2, 0], [2, 1]], clicks=[[True, False], [True, True]],
        ... )
        >>> statistics.displays_by_rank
        array([[0, 1],
               [0, 1],
               [2, 0]])
        >>> statistics.clicks
        array([0, 1, 2])
    """
    came = as_whole_numbers(queries, "queries")
    shown = as_whole_numbers(rankings, "rankings")
    clicked = np.asarray(clicks, dtype=np.bool_)
    check_offsets(offsets, len(exposure.alpha))
    if came.ndim != 1 or shown.ndim != 2 or len(shown) != len(came) or clicked.shape != shown.shape:
        raise DataError(
            "an impression is a query, a ranking, and whether there was a click at each rank, "
            f"got shapes {came.shape}, {shown.shape} and {clicked.shape}"
        )
    n_queries, n_items, ranks = len(offsets) - 1, int(offsets[-1]), shown.shape[1]
    _refuse((came < 0) | (came >= n_queries), came, f"there are {n_queries} queries")
    sizes = np.diff(offsets)[came]
    _refuse(((shown < -1) | (shown >= sizes[:, None])).any(axis=1), came, "no such item in the query")
    in_order = np.sort(shown, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    _refuse(repeated.any(axis=1), came, "an item is shown twice")
    _refuse((clicked & (shown < 0)).any(axis=1), came, "a click where nothing was shown")

    cells = (offsets[came, None] + shown) * ranks + np.arange(ranks)
    n_cells = n_items * ranks
    return Statistics.of_policy(
        policy,
        offsets,
        exposure,
        query_counts=np.bincount(came, minlength=n_queries),
        displays_by_rank=np.bincount(cells[shown >= 0], minlength=n_cells).reshape(n_items, ranks),
        clicks_by_rank=np.bincount(cells[clicked], minlength=n_cells).reshape(n_items, ranks),
    )


def _refuse(bad: ArrayLike, came: Int64, what: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(
            f"impression number {rows[0]}, of query number {came[rows[0]]}: {what} "
            f"({len(rows)} such impressions in total)"
        )
