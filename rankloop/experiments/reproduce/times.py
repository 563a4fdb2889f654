"""The times at which the authors' programs evaluate and deploy."""

from __future__ import annotations

import numpy as np

from rankloop.types import Int64

# The exponent of their first evaluation.
FIRST = 2


def authors_evaluations(horizon: int, number: int) -> tuple[int, ...]:
    """The evaluations of the authors' programs: the first at 100, the last at the horizon.

    >>> authors_evaluations(10**8, 50)[:4], len(authors_evaluations(10**8, 50))
    ((100, 131, 171, 225), 52)
    """
    return tuple(dict.fromkeys(_spread(horizon, number).tolist()))


def authors_interventions(horizon: int, number: int, evaluations: int) -> tuple[int, ...]:
    """The interventions of the authors' programs: at the evaluations that are closest to an even spread.

    They lie strictly between the first evaluation and the horizon. If there are more of them than
    evaluations, they are evenly spread themselves. Times that are less than an impression apart are one.

    >>> authors_interventions(10**8, 5, 50)
    (873, 10000, 87332, 1000000, 8733261)
    >>> len(authors_interventions(10**8, 100, 50)), authors_interventions(10**8, 0, 50)
    (100, ())
    """
    even = _spread(horizon, number)[1:-1]
    if number < evaluations:
        grid = _spread(horizon, evaluations)[1:]
        even = grid[np.argmin(np.abs(grid - even[:, None]), axis=1)]
    return tuple(sorted({time for time in even.tolist() if time < horizon}))


def _spread(horizon: int, between: int) -> Int64:
    """Times from 100 to the horizon and so many between them, evenly on a logarithmic scale, rounded down."""
    last = np.log10(horizon)
    times: Int64 = np.logspace(min(FIRST, last / 2), last, between + 2, dtype=np.int64)
    return times
