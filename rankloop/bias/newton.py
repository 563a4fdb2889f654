"""Maximise the likelihood by Newton's method, over the ends of all ranks' lines and all priors at once.

Steps are taken in the log-odds of the ends and in the logarithms of the priors. The Hessian is zero between
priors of different strata, so the priors are eliminated one by one. The remaining system has one row per end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from rankloop.bias.likelihood import (
    COMPONENTS,
    Curvature,
    Likelihood,
    Parameters,
    Sums,
    component_weights,
    pooled_shape,
)
from rankloop.relevance.newton import Look, Maximum, maximise
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64, Int64

# Steps of expectation maximisation before the first Newton step. They reach a region where the likelihood is
# concave.
FIRST_STEPS, STEPS_IN_STRATA = 30, 5
# Steps of expectation maximisation on the fine structure of the prior, and Newton steps after them. The
# structure of five grades is visible after one round of 25 steps; more than three rounds change α by less
# than a tenth of a standard error.
SHARPENING_ROUNDS, SHARPENING_STEPS, STEPS_BETWEEN_ROUNDS = 3, 25, 6
# A fit has converged when a step gains less than this. One unit of log-likelihood is 1.4 standard errors.
CONVERGED = 1e-3
MAX_STEPS = 60
# The prior of all documents together is only needed roughly.
CONVERGED_ROUGHLY = 0.1
# A resample starts at the fit and its maximum is close by. One step with the curvature of the fit and four
# with its own end, on average, within a twentieth of a standard error of the maximum.
RESAMPLE_STEPS = 5
# Step lengths to try in this order until one raises the likelihood.
STEP_LENGTHS = (1.0, 0.3, 0.1)
LONGEST_STEP = 3.0
# Directions whose curvature is below this share of the largest belong to the free scale of relevance. Steps
# along them are kept short.
FLAT = 1e-5
# Minimum curvature of a component of the prior, in documents. It shortens steps of components with almost no
# documents. A value of 1 would make the last steps so short that sixty are not enough.
MIN_CURVATURE = 0.05
# `low` starts at this share of the rank's click rate. `high` starts at the click rate times this quantile of
# the documents' relative click rates, taken over documents with at least this many expected clicks.
LOW_START, LIFT_QUANTILE, EXPECTED_CLICKS = 0.3, 0.999, 5.0
# Approximate number of documents per stratum, and the maximum number of strata: by how high documents were
# shown, and within each of these by mean rank. Up to the number of SMALL_STRATA, strata of a small log have
# fewer documents: where two or three strata have to do, relevance depends on the rank within them, and the
# relevance of what stands first is mistaken for trust (60 queries: α of all ranks is 3 % too low).
DOCUMENTS_PER_STRATUM, STRATA = 300, (20, 10)
DOCUMENTS_PER_SMALL_STRATUM, SMALL_STRATA = 100, 20
# The smallest distance of the ends from 0 and 1, relative to that of the rank's click rate and absolute.
EDGE, MIN_EDGE = 0.001, 1e-9


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of documents that were shown at similar ranks.

    A good policy shows relevant documents at higher ranks. The distribution of relevance must therefore be
    allowed to differ between documents that were shown at different ranks; otherwise differences between
    documents would be mistaken for differences between ranks. Documents are first split by how high they were
    shown over all impressions of their query. Each part is then split by the mean rank at which its documents
    were shown.

    Attributes:
        heights: float64, parts − 1; thresholds between the parts.
        means: one array per part; thresholds of the mean rank within the part.
    """

    heights: Float64
    means: tuple[Float64, ...]

    @classmethod
    def of(cls, shown: CellTable) -> Strata:
        """Build as many strata as the number of documents allows."""
        height, mean = _heights(shown)
        small = min(shown.n_documents // DOCUMENTS_PER_SMALL_STRATUM, SMALL_STRATA)
        wanted = min(max(shown.n_documents // DOCUMENTS_PER_STRATUM, small), STRATA[0] * STRATA[1])
        # Twice as many parts by height as by mean rank within each.
        parts = int(np.clip(np.sqrt(2 * wanted), 1, STRATA[0]))
        parts_within = int(np.clip(wanted // parts, 1, STRATA[1]))
        heights = _cuts(height, parts)
        part = np.searchsorted(heights, height)
        means = tuple(_cuts(mean[part == p], parts_within) for p in range(len(heights) + 1))
        return cls(heights, means)

    @property
    def number(self) -> int:
        """Number of strata."""
        return sum(len(cuts) + 1 for cuts in self.means)

    def stratum(self, shown: CellTable) -> Int64:
        """Find the index of every document's stratum."""
        height, mean = _heights(shown)
        part = np.searchsorted(self.heights, height)
        result = np.zeros(shown.n_documents, np.int64)
        first = 0
        for p, cuts in enumerate(self.means):
            own = part == p
            result[own] = first + np.searchsorted(cuts, mean[own])
            first += len(cuts) + 1
        return result


def _heights(shown: CellTable) -> tuple[Float64, Float64]:
    """Mean height of each document above the last rank: per impression of its query, and per display."""
    total = shown.by_document(shown.displays * (shown.positions - shown.position))
    return total / np.maximum(shown.query_impressions, 1.0), total / shown.by_document(shown.displays)


def _cuts(values: Float64, parts: int) -> Float64:
    if parts < 2 or not len(values):
        return np.empty(0)
    cuts = np.unique(np.quantile(values, np.arange(1, parts) / parts))
    # A cut at the highest value would create an empty part.
    inner: Float64 = cuts[cuts < values.max()]
    return inner


@dataclass(frozen=True, eq=False)
class BiasFit:
    """The maximum of the likelihood, with all that a refit with other weights needs.

    Attributes:
        likelihood: the likelihood that was maximised.
        strata: which documents share a prior.
        parameters: where the likelihood is highest.
        value: the log-likelihood there.
        curvature: the curvature there.
        converged: whether the search converged.
    """

    likelihood: Likelihood
    strata: Strata
    parameters: Parameters
    value: float
    curvature: Curvature
    converged: bool

    def refit_nearby(self, weights: Float64, *, steps: int = RESAMPLE_STEPS) -> Parameters:
        """Refit in a few steps, with weights close to those of the fit, such as those of a resample."""
        start, known = self.parameters, self.curvature
        return _maximise(self.likelihood, start, weights, curvature=known, max_steps=steps).at.at

    def influence(self) -> Float64:
        """How far one more copy of each document would move the log-odds of the ends, to first order.

            ψ_d = H⁻¹ ∂ log L_d

        L_d is the likelihood of the document, and H the curvature of the whole likelihood, both with the
        priors eliminated. With document weights w, the maximum moves by about ``Σ_d (w_d − 1) ψ_d``.

        Returns:
            float64, documents × 2 ranks; low and high of rank 1, of rank 2, …
        """
        system = _System.of(self.curvature)
        return system.solve(self.likelihood.scores(self.parameters, system.carried))

    @property
    def correction(self) -> float:
        """How much more estimates vary than the influence of the queries that they are fitted to.

            √(n / (n − p))

        n is the number of queries and p that of the ends that are neither on the boundary nor fix the scale.
        At most half of the queries count as used up.
        """
        queries = len(np.unique(self.likelihood.shown.queries))
        alpha, low = self.parameters.free
        free = int((low > 0.0).sum() + (alpha + low < 1.0).sum()) - 2
        return float(np.sqrt(queries / (queries - np.clip(free, 0, queries // 2))))

    def with_clicks(self, shown: CellTable) -> BiasFit:
        """The same fit as a starting point for other clicks on the same displays."""
        return replace(self, likelihood=self.likelihood.with_clicks(shown))

    def refit(self, weights: Float64) -> Parameters:
        """Refit with other document weights, such as those of a subset of the queries."""
        return _maximise(self.likelihood, self.parameters, weights).at.at


def fit(shown: CellTable, *, position: bool = False) -> BiasFit:
    """Fit one line per rank; the position-based model fits lines through the origin.

    The first stage uses one prior for all documents, the second one prior per stratum.
    """
    weights = np.ones(shown.n_documents)
    uniform = np.full(COMPONENTS, 1.0 / COMPONENTS)
    pooled = Likelihood(shown, np.zeros(shown.n_documents, np.int64), 1, uniform)
    start = _start(shown, position=position)
    for _ in range(FIRST_STEPS):
        start = pooled.maximise(start, pooled.expect(start, weights))
    start = _maximise(pooled, start, weights, tolerance=CONVERGED_ROUGHLY).at.at
    start, shape = _sharpen(pooled, start, weights)
    strata = Strata.of(shown)
    likelihood = Likelihood(shown, strata.stratum(shown), strata.number, start.prior[0], shape)
    at = replace(start, prior=np.repeat(start.prior, strata.number, axis=0))
    for _ in range(STEPS_IN_STRATA):
        at = likelihood.maximise(at, likelihood.expect(at, weights))
    (at, sums), value, converged = _maximise(likelihood, at, weights)
    curvature = likelihood.curvature(at, sums, weights)
    return BiasFit(likelihood, strata, at, value, curvature, converged)


class _Point(NamedTuple):
    """Parameters, and one pass over the documents at them."""

    at: Parameters
    sums: Sums


def _sharpen(likelihood: Likelihood, at: Parameters, weights: Float64) -> tuple[Parameters, Float64]:
    """Find the fine structure of the distribution of relevance, such as grades, over all documents together.

    Without it, the density is linear between the peaks of the components, and relevance with five grades
    biases α at ten ranks by one standard error.
    """
    shape = pooled_shape(at.prior[0], None)
    for _ in range(SHARPENING_ROUNDS):
        for _ in range(SHARPENING_STEPS):
            at = replace(at, prior=component_weights(shape)[None])
            likelihood = likelihood.with_shape(shape)
            shape = likelihood.sharpen(at, weights)
        at = replace(at, prior=component_weights(shape)[None])
        likelihood = likelihood.with_shape(shape)
        at = _maximise(
            likelihood, at, weights, tolerance=CONVERGED_ROUGHLY, max_steps=STEPS_BETWEEN_ROUNDS
        ).at.at
        shape = pooled_shape(at.prior[0], shape)
    return replace(at, prior=component_weights(shape)[None]), shape


def _maximise(
    likelihood: Likelihood,
    at: Parameters,
    weights: Float64,
    *,
    curvature: Curvature | None = None,
    max_steps: int = MAX_STEPS,
    tolerance: float = CONVERGED,
) -> Maximum[_Point]:
    """Run Newton's method; the first step uses `curvature` if it is given."""

    def point(parameters: Parameters) -> _Point:
        return _Point(parameters, likelihood.expect(parameters, weights))

    start = point(at)

    def look(here: _Point) -> Look[_Point]:
        @cache
        def direction() -> tuple[Float64, Float64]:
            known = curvature if here is start else None
            own = likelihood.curvature(here.at, here.sums, weights) if known is None else known
            return _newton_step(own, *here.sums.gradient(here.at))

        def move(length: float) -> _Point:
            ends, components = direction()
            return point(here.at.step(length * ends, length * components))

        return Look(here.sums.value, move)

    def fallback(here: _Point) -> _Point:
        return point(likelihood.maximise(here.at, here.sums))

    return maximise(
        start, look, steps=max_steps, tolerance=tolerance, lengths=STEP_LENGTHS, fallback=fallback
    )


def _newton_step(curvature: Curvature, ends: Float64, components: Float64) -> tuple[Float64, Float64]:
    """Compute Newton's step, damped along flat directions."""
    system = _System.of(curvature)
    step = system.solve(ends - np.einsum("sbi,sb->i", system.carried, components))
    within = np.einsum("sbc,sc->sb", system.inverse, components) - system.carried @ step
    return np.clip(step, -LONGEST_STEP, LONGEST_STEP), np.clip(within, -LONGEST_STEP, LONGEST_STEP)


class _System(NamedTuple):
    """The linear system of a Newton step after the priors are eliminated.

    Attributes:
        inverse: strata × components × components; the inverse curvature of the priors.
        carried: strata × components × 2 ranks; what a gradient by the components takes off that by the ends.
        sizes: 2 ranks; curvature of the ends in the directions of `vectors`, damped along flat directions.
        vectors: 2 ranks × 2 ranks; directions, one per column.
    """

    inverse: Float64
    carried: Float64
    sizes: Float64
    vectors: Float64

    @classmethod
    def of(cls, curvature: Curvature) -> _System:
        diagonal = np.einsum("sbb->sb", curvature.within)
        ridge = np.maximum(MIN_CURVATURE - diagonal, 0.0)
        inverse = np.linalg.inv(curvature.within + ridge[:, :, None] * np.eye(diagonal.shape[1]))
        carried = inverse @ curvature.border
        system = curvature.ends - np.einsum("sbi,sbj->ij", curvature.border, carried)
        values, vectors = np.linalg.eigh(0.5 * (system + system.T))
        return cls(inverse, carried, np.maximum(np.abs(values), FLAT * np.abs(values).max()), vectors)

    def solve(self, right: Float64) -> Float64:
        """Solve for the step of the ends; the last axis of the right-hand side is 2 · ranks."""
        return np.asarray((right @ self.vectors / self.sizes) @ self.vectors.T)


def _start(shown: CellTable, *, position: bool) -> Parameters:
    """Start with lines that span the click rates of the least and the most clicked documents."""
    rates = shown.by_rank(shown.clicks) / np.maximum(shown.by_rank(shown.displays), 1.0)
    expected = shown.by_document(shown.displays * rates[shown.position])
    known = expected >= EXPECTED_CLICKS
    lift = shown.by_document(shown.clicks)[known] / expected[known]
    highest = (
        max(1.0 / LOW_START, float(np.quantile(lift, LIFT_QUANTILE))) if known.any() else 1.0 / LOW_START
    )
    high = rates * highest
    # Where that is not a probability, start halfway between the click rate and 1.
    high = np.where(high < 1.0, high, 0.5 * (1.0 + rates))
    low = np.zeros(shown.positions) if position else LOW_START * rates
    edge = np.maximum(EDGE * np.minimum(rates, 1.0 - rates), MIN_EDGE)
    return Parameters(low, high, np.full((1, COMPONENTS), 1.0 / COMPONENTS), edge)
