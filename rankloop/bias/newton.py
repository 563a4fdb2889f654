"""From a likelihood to its maximum: Newton's steps on the ends of all ranks' lines and on all priors at once.

Steps are in the logarithms of odds and of the priors. Priors of strata do not meet, so that they are
eliminated one by one, and a system as large as there are ends is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rankloop.bias.likelihood import Curvature, Likelihood, Parameters, Sums
from rankloop.bias.rank_counts import RankCounts
from rankloop.bias.relevance_prior import COMPONENTS, Strata
from rankloop.types import Float64

# Steps of expectation maximisation before Newton's: to where the likelihood is curved downwards.
FIRST_STEPS, STEPS_IN_STRATA = 30, 5
# A fit has converged when a step gains less; one unit of log-likelihood is 1.4 standard errors.
CONVERGED = 1e-3
MOST_STEPS = 60
# What all items are like is needed roughly.
ROUGHLY = 0.1
# A resample starts from the fit and is near it. One step with the curvature of the fit and four with its own
# come within a twentieth of a standard error, on average, of where more would end.
RESAMPLED_STEPS = 5
# Steps are shortened by these, one after the other, where they would lower the likelihood.
SHORTER = (1.0, 0.3, 0.1)
LONGEST_STEP = 3.0
# Directions in which the likelihood is flatter than this share of its steepest curvature are those of the
# affine freedom: no step is taken far along them.
FLAT = 1e-5
# Curvature of a prior's component that counts at least, in items: it shortens steps of components that have
# next to none. With 1 the last steps would be so short that sixty of them are not enough.
LEAST_CURVATURE = 0.05
# The ends start at this share of a rank's click rate, and so many times as high as the most clicked items.
LOW_START, MOST_CLICKED, EXPECTED_CLICKS = 0.3, 0.999, 5.0
# The ends stay so far from 0 and 1, as a share of the distance of the rank's click rate.
EDGE, NEAREST = 0.001, 1e-9


@dataclass(frozen=True, eq=False)
class BiasFit:
    """The maximum, and what is needed to find others near it.

    Attributes:
        likelihood: what was maximised.
        strata: which items share a prior.
        parameters: where it is highest.
        value: how high.
        curvature: there.
        converged: whether it is the maximum, as far as could be seen.
    """

    likelihood: Likelihood
    strata: Strata
    parameters: Parameters
    value: float
    curvature: Curvature
    converged: bool

    def near(self, weights: Float64) -> Parameters:
        """The maximum with weights that are nearly those of the fit, such as a resample's: in a few steps."""
        start, known = self.parameters, self.curvature
        return _climb(self.likelihood, start, weights, curvature=known, most=RESAMPLED_STEPS)[0]

    def again(self, weights: Float64) -> Parameters:
        """The maximum with other weights of the items, such as those of a part of the queries."""
        return _climb(self.likelihood, self.parameters, weights)[0]


def fit(shown: RankCounts, *, position: bool = False) -> BiasFit:
    """Fit lines to all ranks; through the origin, if the model is position-based.

    First with one prior for all items, then with one a stratum.
    """
    weights = np.ones(shown.n_items)
    even = np.full(COMPONENTS, 1.0 / COMPONENTS)
    everything = Likelihood(shown, np.zeros(shown.n_items, np.int64), 1, even)
    start = _start(shown, position=position)
    for _ in range(FIRST_STEPS):
        start = everything.maximised(start, everything.expect(start, weights))
    start, _, _ = _climb(everything, start, weights, enough=ROUGHLY)
    strata = Strata.of(shown)
    likelihood = Likelihood(shown, strata.stratum(shown), strata.number, start.prior[0])
    at = replace(start, prior=np.repeat(start.prior, strata.number, axis=0))
    for _ in range(STEPS_IN_STRATA):
        at = likelihood.maximised(at, likelihood.expect(at, weights))
    at, sums, converged = _climb(likelihood, at, weights)
    curvature = likelihood.curvature(at, sums, weights)
    return BiasFit(likelihood, strata, at, sums.value, curvature, converged)


def _climb(
    likelihood: Likelihood,
    at: Parameters,
    weights: Float64,
    *,
    curvature: Curvature | None = None,
    most: int = MOST_STEPS,
    enough: float = CONVERGED,
) -> tuple[Parameters, Sums, bool]:
    """Newton's steps, uphill; the first may be taken with a curvature that is known."""
    sums = likelihood.expect(at, weights)
    for _ in range(most):
        own = likelihood.curvature(at, sums, weights) if curvature is None else curvature
        curvature = None
        found = _uphill(likelihood, at, sums, weights, own)
        if found is None:
            aside = likelihood.maximised(at, sums)
            found = aside, likelihood.expect(aside, weights)
        gain = found[1].value - sums.value
        if gain > 0.0:
            at, sums = found
        if gain < enough:
            return at, sums, True
    return at, sums, False


def _uphill(
    likelihood: Likelihood, at: Parameters, sums: Sums, weights: Float64, curvature: Curvature
) -> tuple[Parameters, Sums] | None:
    ends, components = _newton(curvature, *sums.gradient(at))
    for shorter in SHORTER:
        there = at.moved(shorter * ends, shorter * components)
        found = likelihood.expect(there, weights)
        if found.value > sums.value:
            return there, found
    return None


def _newton(curvature: Curvature, ends: Float64, components: Float64) -> tuple[Float64, Float64]:
    """Newton's step, and none along directions that are flat."""
    diagonal = np.einsum("sbb->sb", curvature.within)
    # As much as is missing to LEAST_CURVATURE.
    more = np.maximum(LEAST_CURVATURE - diagonal, 0.0)
    inverse = np.linalg.inv(curvature.within + more[:, :, None] * np.eye(components.shape[1]))
    reduced = inverse @ curvature.border
    system = curvature.ends - np.einsum("sbi,sbj->ij", curvature.border, reduced)
    right = ends - np.einsum("sbi,sb->i", reduced, components)
    values, vectors = np.linalg.eigh(0.5 * (system + system.T))
    sizes = np.maximum(np.abs(values), FLAT * np.abs(values).max())
    step = vectors @ ((vectors.T @ right) / sizes)
    within = np.einsum("sbc,sc->sb", inverse, components) - reduced @ step
    return np.clip(step, -LONGEST_STEP, LONGEST_STEP), np.clip(within, -LONGEST_STEP, LONGEST_STEP)


def _start(shown: RankCounts, *, position: bool) -> Parameters:
    """Lines that are as far apart as the most and the least clicked items."""
    rates = shown.by_rank(shown.clicks) / np.maximum(shown.by_rank(shown.displays), 1.0)
    expected = shown.by_item(shown.displays * rates[shown.rank])
    known = expected >= EXPECTED_CLICKS
    lift = shown.by_item(shown.clicks)[known] / expected[known]
    highest = max(1.0 / LOW_START, float(np.quantile(lift, MOST_CLICKED))) if known.any() else 1.0 / LOW_START
    high = rates * highest
    # Where that would be no chance, halfway to 1.
    high = np.where(high < 1.0, high, 0.5 * (1.0 + rates))
    low = np.zeros(shown.ranks) if position else LOW_START * rates
    edge = np.maximum(EDGE * np.minimum(rates, 1.0 - rates), NEAREST)
    return Parameters(low, high, np.full((1, COMPONENTS), 1.0 / COMPONENTS), edge)
