"""How much of what a policy could have shown it did show: what can be learned from its clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from rankloop.logs.log_statistics import CandidateExposures
from rankloop.statistics.counts import Counts

# Levels of the probability of being shown: a document at the last one is shown once in 10⁶ impressions of
# its query.
EXPOSURES = (1e-2, 1e-4, 1e-6)
# Displays with at least this variance are nearly normal, and can be compared with their expectation.
LEAST_VARIANCE = 5.0
# The accepted probability of a false alarm.
FALSE_ALARMS = 1e-6


@dataclass(frozen=True)
class LogSupport:
    """How much of what a policy could have shown it did show.

    Attributes:
        candidates: the number of documents it could have shown for the queries it served.
        never_shown: the share of them that it never showed.
        below: the shares of them whose probability of being shown is below 1e-2, 1e-4 and 1e-6.
        strangers: the number of documents it showed that are not among its candidates.
        impossible: the number of documents it showed although its scores say that it never does.
        unknown: the number of queries it served that have no candidates at all.
    """

    candidates: int
    never_shown: float
    below: tuple[float, ...]
    strangers: int
    impossible: int
    unknown: int


class Misfit(NamedTuple):
    """How far displays are from what the scores predict.

    Attributes:
        value: the mean over documents of (displays − expected)² / variance; about 1 if rankings are drawn
            from the scores.
        bound: chance alone exceeds this value for one policy in a million.
    """

    value: float
    bound: float


def measure_support(counts: Counts, policy: int, exact: CandidateExposures) -> LogSupport | None:
    """The support of a policy, by the probability of being shown; None if its candidates are not known."""
    if not exact.known.any():
        return None
    sizes = np.diff(counts.offsets)
    came = counts.impressions_by_policy[policy] > 0
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


def measure_misfit(counts: Counts, policy: int, exact: CandidateExposures) -> Misfit | None:
    """How well displays agree with Plackett–Luce draws from the policy's scores; None if it cannot be tested.

        1/m · Σ_d (n_d − N_q p_d)² / (N_q p_d (1 − p_d))

    n_d is how often d was shown, p_d its probability of being shown, N_q the number of impressions of its
    query; the sum is over the m documents whose variance is large enough.
    """
    times = np.repeat(counts.impressions_by_policy[policy], np.diff(counts.offsets))
    chance = exact.values[0]
    variance = times * chance * (1.0 - chance)
    told = exact.known & (variance >= LEAST_VARIANCE)
    if not told.any():
        return None
    shown = counts.displays_of(policy).sum(axis=1)
    squares = (shown - times * chance)[told] ** 2 / variance[told]
    # Squares of normal variables, dependent only through the limited number of ranks.
    return Misfit(float(squares.mean()), float(chdtri(len(squares), FALSE_ALARMS)) / len(squares))
