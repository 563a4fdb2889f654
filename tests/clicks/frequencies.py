"""Exact tests of counted events against their chances."""

from __future__ import annotations

import numpy as np
from scipy import stats

# How likely one call fails although all chances are right.
FALSE_ALARM = 1e-7


def assert_binomial(counts: object, trials: object, chances: object) -> None:
    """Every count is binomial: none is so high or so low that chance explains it badly.

    The tails are exact, and the bound is shared out over all cells (Bonferroni), so the false alarm rate
    holds for few expected events and for dependent cells too.
    """
    observed, n, p = np.broadcast_arrays(counts, trials, np.clip(chances, 0.0, 1.0))
    bound = FALSE_ALARM / 2 / observed.size
    low, high = stats.binom.cdf(observed, n, p), stats.binom.sf(observed - 1, n, p)
    bad = np.argwhere((low < bound) | (high < bound))
    where = tuple(bad[0]) if len(bad) else ()
    assert len(bad) == 0, (
        f"{len(bad)} of {observed.size} counts off, such as {observed[where]} of {n[where]} "
        f"at chance {p[where]} (cell {where})"
    )
