"""Exact tests of counted events against their probabilities."""

from __future__ import annotations

import numpy as np
from scipy import stats

# Probability that one call fails although all probabilities are right.
FALSE_ALARM = 1e-7


def assert_binomial(counts: object, trials: object, chances: object) -> None:
    """Assert that every count is plausible for its binomial distribution.

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
        f"at probability {p[where]} (cell {where})"
    )
