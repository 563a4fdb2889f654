"""What a policy could have shown, and whether it did: what clicks can be learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from rankloop.logs.counts import LogCounts
from rankloop.logs.policy_exposures import Candidates

# Chances of being shown, below which a log says ever less: with 10⁶ impressions of its query, a document at
# the last of them is seen once.
EXPOSURES = (1e-2, 1e-4, 1e-6)
# Displays are nearly normal, and so can be compared with what is expected, where their variance is at least
# this.
LEAST_VARIANCE = 5.0
# How often chance alone may raise an alarm.
FALSE_ALARMS = 1e-6


@dataclass(frozen=True)
class LogSupport:
    """How much of what a policy could have shown it did show.

    Attributes:
        candidates: how many documents of queries it could have shown, of the queries that came.
        never_shown: the share of them that it never showed.
        below: the shares of them whose chance to be shown is below 1e-2, 1e-4 and 1e-6.
        strangers: how many documents it showed that are not among its candidates.
        impossible: how many it showed although by its scores it never does.
        unknown: how many of the queries that came have no candidates at all.
    """

    candidates: int
    never_shown: float
    below: tuple[float, ...]
    strangers: int
    impossible: int
    unknown: int


class Misfit(NamedTuple):
    """How far displays are from what the scores say.

    Attributes:
        value: the mean over documents of (displays − expected)² / variance; 1 if rankings are drawn from the
            scores, up to chance.
        bound: more than this is chance in one of a million policies.
    """

    value: float
    bound: float


def explores(counts: LogCounts, policy: int) -> float | None:
    """The share of the queries that came more than once whose ranking ever changed, or None."""
    own = counts.cells.policy == policy
    query = np.searchsorted(counts.offsets, counts.cells.item[own], side="right") - 1
    places = np.bincount(
        query * counts.ranks + counts.cells.rank[own], minlength=counts.n_queries * counts.ranks
    )
    most = places.reshape(-1, counts.ranks).max(axis=1)
    again = counts.query_counts[policy] > 1
    return float((most[again] > 1).mean()) if again.any() else None


def support_of(counts: LogCounts, policy: int, exact: Candidates) -> LogSupport | None:
    """What the policy could have shown, by the chance to be shown at all; None if nothing is known of it."""
    if not exact.known.any():
        return None
    sizes = np.diff(counts.offsets)
    came = counts.query_counts[policy] > 0
    scored = np.add.reduceat(exact.known, counts.offsets[:-1]) > 0
    shown = counts.displays_of(policy).sum(axis=1) > 0
    known = exact.known & np.repeat(came, sizes)
    chance = exact.values[0][known]
    return LogSupport(
        candidates=int(known.sum()),
        never_shown=float((~shown[known]).mean()) if known.any() else 0.0,
        below=tuple(float((chance < bound).mean()) if known.any() else 0.0 for bound in EXPOSURES),
        strangers=int((shown & ~exact.known & np.repeat(scored, sizes)).sum()),
        impossible=int((shown & exact.known & (exact.values[0] == 0)).sum()),
        unknown=int((came & ~scored).sum()),
    )


def misfit(counts: LogCounts, policy: int, exact: Candidates) -> Misfit | None:
    """Whether displays are what Plackett–Luce with the policy's scores would show; None if it cannot be told.

        1/m · Σ_d (n_d − N_q p_d)² / (N_q p_d (1 − p_d))

    n_d is how often d was shown, p_d its chance, N_q how often its query came; over the m documents whose
    variance is not small.
    """
    times = np.repeat(counts.query_counts[policy], np.diff(counts.offsets))
    chance = exact.values[0]
    variance = times * chance * (1.0 - chance)
    told = exact.known & (variance >= LEAST_VARIANCE)
    if not told.any():
        return None
    shown = counts.displays_of(policy).sum(axis=1)
    squares = (shown - times * chance)[told] ** 2 / variance[told]
    # Squares of normals, which depend on each other only in that a page has room for so many.
    return Misfit(float(squares.mean()), float(chdtri(len(squares), FALSE_ALARMS)) / len(squares))
