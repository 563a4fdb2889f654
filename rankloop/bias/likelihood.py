"""The likelihood of a log: the clicks on every document at every rank, with relevance integrated out.

    log L = Σ_d log Σ_t P(R_d = t | stratum of d) Π_k Binomial(c_dk; n_dk, low_k + t · (high_k − low_k))
            + Σ_s Σ_b pseudo_b · log prior_sb

``low`` and ``high`` are the click probabilities at the two ends of the grid of relevance: β and α + β, on an
arbitrary scale of relevance. The second line keeps components of the prior from vanishing. It adds
pseudo-documents to each stratum: one that is distributed like all documents, and a sixth of a document that
is spread evenly over the components.

Relevance is integrated out on nodes that are evenly spaced in ``x``, where ``R = sin²(πx/2)``. On this scale
a probability that is estimated from n displays has the same error everywhere, about ``1 / (π√n)``. Documents
that were shown more often need more nodes. The prior of a stratum is a mixture of a few hat functions.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import expit, logit

from rankloop.kernels.click_likelihood import count_nodes, curve, expect, mean_relevance, score
from rankloop.ragged import for_segments
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64, Int64

# Pseudo-documents per stratum that are distributed like all documents, and additional ones per component.
# Three times as many would be too many where documents are shown five times each: α at rank 1 would be off by
# another half of a standard error.
POOLED_DOCUMENTS, DOCUMENTS_PER_COMPONENT = 1.0, 0.01
# Click probabilities are clipped this far from 0 and 1 before taking logarithms.
TINY = 1e-12
# An end within this multiple of the smallest allowed distance from 0 or 1 counts as 0 or 1.
EDGE_FACTOR = 1.5
# The density is linear between this many points. Half as many would be too smooth for relevance with five
# grades: θ is then off by 0.8 standard errors in a log of 40,000 impressions.
COMPONENTS = 17
# The grid on which the fine structure of the distribution of relevance is estimated, such as grades. Every
# node keeps this probability.
SHAPE_NODES = 129
MIN_DENSITY = 1e-6
# Grid sizes. Documents that were shown more often use a finer grid. With 1.5 standard errors between nodes,
# the relative error of the trapezoid rule is 3e-4.
NODES = (33, 129, 513, 2049)
ERRORS_BETWEEN_NODES = 1.5
# Each block of documents has its own sums, so that results do not depend on the number of threads.
BLOCKS = 16


@dataclass(frozen=True, eq=False)
class Grid:
    """The nodes of the integral and the hat functions of the prior.

    Attributes:
        relevance: float64, nodes; relevance at each node.
        hats: float64, components × nodes; the probability of each node in each component. Each row sums to 1.
        knot: int64, nodes; the component that peaks at the node or left of it; never the last component.
    """

    relevance: Float64
    hats: Float64
    knot: Int64

    def lower(self, prior: Float64, density: Float64) -> Float64:
        """Compute the share of the density at each node due to the component left of it: strata × nodes."""
        nodes = np.arange(len(self.knot))
        share: Float64 = prior[:, self.knot] * self.hats[self.knot, nodes] / density
        return share


@cache
def grid(nodes: int) -> Grid:
    """Build the grid with this many nodes.

    >>> grid(33).relevance[[0, 16, 32]].round(3), grid(33).hats.shape
    (array([0. , 0.5, 1. ]), (17, 33))
    """
    x = np.linspace(0.0, 1.0, nodes)
    peaks = np.linspace(0.0, 1.0, COMPONENTS)
    hats = np.maximum(0.0, 1.0 - np.abs(x - peaks[:, None]) * (COMPONENTS - 1))
    # nodes − 1 is a multiple of COMPONENTS − 1, so every peak is a node.
    knot = np.minimum(np.arange(nodes) * (COMPONENTS - 1) // (nodes - 1), COMPONENTS - 2)
    return Grid(np.sin(0.5 * np.pi * x) ** 2, hats / hats.sum(axis=1, keepdims=True), knot)


def shaped_grid(nodes: int, shape: Float64) -> Grid:
    """Build the grid whose components have the fine structure of a distribution of relevance.

        component_b(t) ∝ hat_b(t) · g(t)

    Args:
        nodes: number of nodes.
        shape: float64, SHAPE_NODES; the distribution g on an evenly spaced grid. It sums to 1.
    """
    plain = grid(nodes)
    components = plain.hats * regrid(shape, nodes)
    # Every node keeps some probability, and so does every component.
    components = components + MIN_DENSITY * plain.hats
    return Grid(plain.relevance, components / components.sum(axis=1, keepdims=True), plain.knot)


def pooled_shape(prior: Float64, shape: Float64 | None) -> Float64:
    """The distribution on the grid of the shape that a mixture of components is; plain hats if None."""
    of = grid(SHAPE_NODES) if shape is None else shaped_grid(SHAPE_NODES, shape)
    found: Float64 = prior @ of.hats
    return found


def component_weights(shape: Float64) -> Float64:
    """The weights of the components of this shape that give back the shape itself."""
    hats = grid(SHAPE_NODES).hats
    # With a height of 1 each, the hats of a node sum to 1.
    weights = hats / hats.max(axis=1, keepdims=True) @ shape + MIN_DENSITY
    return np.asarray(weights / weights.sum())


def regrid(shape: Float64, nodes: int) -> Float64:
    """Convert a distribution on a grid to a grid with another number of nodes; the sum stays 1.

    >>> regrid(np.array([0.5, 0.0, 0.5]), 5)
    array([0.33333333, 0.16666667, 0.        , 0.16666667, 0.33333333])
    >>> regrid(np.array([0.5, 0.25, 0.0, 0.0, 0.25]), 3)
    array([0.625, 0.125, 0.25 ])
    """
    old = len(shape)
    if nodes == old:
        return shape
    if nodes > old:
        # Between two nodes, the density is linear.
        finer = np.interp(np.linspace(0.0, 1.0, nodes), np.linspace(0.0, 1.0, old), shape)
        return np.asarray(finer / finer.sum())
    # Each node's probability is divided between its two neighbours on the coarser grid.
    place = np.linspace(0.0, 1.0, old) * (nodes - 1)
    left = np.minimum(place.astype(np.int64), nodes - 2)
    share = place - left
    coarser = np.zeros(nodes)
    np.add.at(coarser, left, shape * (1.0 - share))
    np.add.at(coarser, left + 1, shape * share)
    return coarser


def grid_levels(displays: Float64) -> Int64:
    """Choose the grid for each document: an index into NODES, by how often the document was shown.

    >>> grid_levels(np.array([1.0, 300.0, 1e4, 1e9]))
    array([0, 1, 2, 3])
    """
    spacing = 1.0 / (np.array(NODES[:-1]) - 1)
    enough = (ERRORS_BETWEEN_NODES / (np.pi * spacing)) ** 2
    return np.searchsorted(enough, displays)


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of the fit.

    Attributes:
        low: float64, ranks; the click probability at the lower end of relevance. A value of 0 stays 0: the
            position-based model is the affine model with all of them starting at 0.
        high: float64, ranks; the click probability at the upper end of relevance.
        prior: float64, strata × components; the distribution of relevance. Each row sums to 1.
        edge: float64, ranks; the smallest distance of either end from 0 and 1. At 0 or 1 the log-odds are
            infinite, and no step could move away again.
    """

    low: Float64
    high: Float64
    prior: Float64
    edge: Float64

    @property
    def alpha(self) -> Float64:
        """The effect of relevance on the click probability, on this scale: ranks."""
        return self.high - self.low

    @property
    def free(self) -> tuple[Float64, Float64]:
        """α and β on this scale, with ends that reached the edge set to 0 or 1."""
        low = np.where(self.low <= self.edge * EDGE_FACTOR, 0.0, self.low)
        high = np.where(1.0 - self.high <= self.edge * EDGE_FACTOR, 1.0, self.high)
        return high - low, low

    def step(self, ends: Float64, components: Float64) -> Parameters:
        """Take a step in the log-odds of the ends (2 · ranks; low, high, low, …) and in the log-prior."""
        log_prior = np.log(self.prior) + components
        weights = np.exp(log_prior - log_prior.max(axis=1, keepdims=True))
        return replace(
            self,
            low=self.clip(expit(logit(self.low) + ends[0::2])),
            high=self.clip(expit(logit(self.high) + ends[1::2])),
            prior=weights / weights.sum(axis=1, keepdims=True),
        )

    def free_after(self, ends: Float64) -> tuple[Float64, Float64]:
        """The same as `free` after a short step in the log-odds of the ends (2 · ranks; low, high, low, …).

        The step is converted to probabilities at the current ends, and stays linear beyond 0 and 1: the
        log-odds of an end near 0 are far from normally distributed, the end itself is not.

        Another scale of relevance, R' = (R − zero) / (one − zero), moves low ends by α · zero and high ends
        by α · (one − 1). Clicks hardly tell such steps apart, so they can be long, and they change nothing
        that clicks tell. They are left out: of each kind of ends, only the part orthogonal to α is moved.
        """
        alpha, low = self.free
        slopes = _odds_slope(self)
        lower, upper = (
            change - alpha * (alpha @ change) / (alpha @ alpha)
            for change in (slopes[:, 0] * ends[0::2], slopes[:, 1] * ends[1::2])
        )
        return alpha + upper - lower, low + lower

    def clip(self, chances: Float64) -> Float64:
        """Keep probabilities at least `edge` away from 0 and 1; 0 stays 0."""
        return np.where(chances > 0.0, np.clip(chances, self.edge, 1.0 - self.edge), 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """The result of one pass over the documents.

    Attributes:
        value: the log-likelihood, including pseudo-documents.
        by_document: float64, documents; the log-likelihood of each document; 0 where its weight is 0.
        nodes: float64, nodes; the relevance of the nodes of all levels.
        chance: float64, ranks × nodes; click probabilities.
        displays: float64, ranks × nodes; expected displays.
        clicks: float64, ranks × nodes; expected clicks.
        components: float64, strata × components; expected documents, including pseudo-documents.
    """

    value: float
    by_document: Float64
    nodes: Float64
    chance: Float64
    displays: Float64
    clicks: Float64
    components: Float64

    def gradient(self, at: Parameters) -> tuple[Float64, Float64]:
        """The gradient by the log-odds of the ends, 2 · ranks, and by the log-prior, strata × components."""
        slope = self.clicks / self.chance - (self.displays - self.clicks) / (1.0 - self.chance)
        low = (slope @ (1.0 - self.nodes)) * at.low * (1.0 - at.low)
        high = (slope @ self.nodes) * at.high * (1.0 - at.high)
        total = self.components.sum(axis=1, keepdims=True)
        return np.stack([low, high], axis=1).ravel(), self.components - total * at.prior


@dataclass(frozen=True, eq=False)
class Curvature:
    """The negative Hessian of the log-likelihood.

    Attributes:
        ends: 2 ranks × 2 ranks; of the ends.
        border: strata × components × 2 ranks; between the priors and the ends.
        within: strata × components × components; of the priors. It is zero between strata.
    """

    ends: Float64
    border: Float64
    within: Float64


@dataclass(frozen=True, eq=False)
class _Level:
    """The documents that share one grid: their indices among all documents, and their counts."""

    where: Int64
    shown: CellTable
    stratum: Int64
    grid: Grid
    blocks: Int64


class Likelihood:
    """The likelihood of displays and clicks.

    Args:
        shown: displays and clicks per document and rank.
        stratum: documents; the index of each document's stratum.
        strata: number of strata.
        pooled: components; the distribution of relevance over all documents.
        shape: nodes of the shape; the fine structure that the components share; None for plain hats.
    """

    def __init__(
        self,
        shown: CellTable,
        stratum: Int64,
        strata: int,
        pooled: Float64,
        shape: Float64 | None = None,
    ) -> None:
        self.shown, self.stratum, self.strata, self.shape = shown, stratum, strata, shape
        self.pseudo_documents = POOLED_DOCUMENTS * pooled + DOCUMENTS_PER_COMPONENT
        level_of = grid_levels(shown.by_document(shown.displays))
        self._levels = []
        for level, nodes in enumerate(NODES):
            where = np.flatnonzero(level_of == level)
            if len(where):
                blocks = np.unique(np.linspace(0, len(where), BLOCKS + 1).astype(np.int64))
                own = grid(nodes) if shape is None else shaped_grid(nodes, shape)
                self._levels.append(_Level(where, shown.select(where), stratum[where], own, blocks))

    def with_clicks(self, shown: CellTable) -> Likelihood:
        """The likelihood of other clicks on the same displays, with the same strata and pseudo-documents."""
        other = copy(self)
        other.shown = shown
        other._levels = [replace(level, shown=shown.select(level.where)) for level in self._levels]
        return other

    def with_shape(self, shape: Float64) -> Likelihood:
        """The likelihood of the same counts, with components of another fine structure."""
        other = copy(self)
        other.shape = shape
        other._levels = [
            replace(level, grid=shaped_grid(len(level.grid.relevance), shape)) for level in self._levels
        ]
        return other

    def expect(self, at: Parameters, weights: Float64) -> Sums:
        """Run the expectation step: one pass over the documents, weighted by weights (documents)."""
        by_document = np.zeros(self.shown.n_documents)
        components = np.zeros((self.strata, COMPONENTS))
        # One tuple per level, in the order of the attributes of Sums.
        parts: list[tuple[Float64, Float64, Float64, Float64]] = []
        for level in self._levels:
            chance = _chance(at, level.grid)
            out = np.zeros((2, len(level.blocks) - 1, *chance.shape))
            own = np.zeros((len(level.blocks) - 1, *components.shape))
            value = np.zeros(len(level.where))
            self._run(expect, level, at, chance, weights, out[0], out[1], own, value)
            by_document[level.where] = value
            components += own.sum(axis=0)
            parts.append((level.grid.relevance, chance, out[0].sum(axis=0), out[1].sum(axis=0)))
        total = float(weights @ by_document) + float((np.log(at.prior) @ self.pseudo_documents).sum())
        nodes, chances, displays, clicks = (
            np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)
        )
        expected = components + self.pseudo_documents
        return Sums(total, by_document, nodes, chances, displays, clicks, expected)

    def curvature(self, at: Parameters, sums: Sums, weights: Float64) -> Curvature:
        """Compute the negative Hessian, by the same variables as `Sums.gradient`.

        The blocks within a stratum's prior are exact where the gradient is 0 and positive semidefinite
        everywhere.
        """
        ranks, t = self.shown.positions, sums.nodes
        odds_slope = _odds_slope(at)
        spread = np.zeros((2 * ranks, 2 * ranks))
        border = np.zeros((self.strata, COMPONENTS, 2 * ranks))
        within = np.zeros((self.strata, COMPONENTS, COMPONENTS))
        for level in self._levels:
            chance = _chance(at, level.grid)
            out = [np.zeros((len(level.blocks) - 1, *part.shape)) for part in (spread, border, within)]
            self._run(curve, level, at, chance, weights, *_slopes(chance), level.grid.relevance, *out)
            for part, own in zip((spread, border, within), out, strict=True):
                part += own.sum(axis=0)
        # From ends to their log-odds. The passes fill the lower triangle.
        by_odds = odds_slope.ravel()
        spread = (np.tril(spread) + np.tril(spread, -1).T) * np.outer(by_odds, by_odds)
        border *= by_odds
        bend = sums.clicks / sums.chance**2 + (sums.displays - sums.clicks) / (1.0 - sums.chance) ** 2
        ends, slope = -spread, sums.gradient(at)[0]
        shapes = np.stack([1.0 - t, t])
        for k in range(ranks):
            here = slice(2 * k, 2 * k + 2)
            both = np.outer(odds_slope[k], odds_slope[k])
            ends[here, here] += both * ((shapes * bend[k]) @ shapes.T)
            bent = 1.0 - 2.0 * np.array([at.low[k], at.high[k]])
            ends[here, here] -= np.diag(slope[here] * bent)
        return Curvature(ends, -border, within + np.diag(self.pseudo_documents))

    def scores(self, at: Parameters, carried: Float64) -> Float64:
        """The derivative of each document's log-likelihood by the ends, with the priors eliminated.

        Args:
            at: the parameters.
            carried: strata × components × 2 ranks; how much of the derivative by each component of the prior
                is taken off the derivative by each end, see `rankloop.bias.newton`.

        Returns:
            float64, documents × 2 ranks.
        """
        result = np.zeros((self.shown.n_documents, 2 * self.shown.positions))
        everything, by_odds = np.ones(self.shown.n_documents), _odds_slope(at).ravel()
        for level in self._levels:
            chance, out = _chance(at, level.grid), np.zeros((len(level.where), result.shape[1]))
            slopes = *_slopes(chance), level.grid.relevance, by_odds
            self._run(score, level, at, chance, everything, *slopes, carried, out)
            result[level.where] = out
        # The derivative by the logarithm of a prior's component is the document's share minus the prior.
        result += np.einsum("sb,sbe->se", at.prior, carried)[self.stratum]
        return result

    def sharpen(self, at: Parameters, weights: Float64) -> Float64:
        """Take one step of expectation maximisation on the shape that all components share."""
        shape = np.full(SHAPE_NODES, 1.0 / SHAPE_NODES) if self.shape is None else self.shape
        expected, found = np.zeros((2, SHAPE_NODES))
        fine = np.linspace(0.0, 1.0, SHAPE_NODES)
        for level in self._levels:
            chance, shown = _chance(at, level.grid), level.shown
            out = np.zeros((len(level.blocks) - 1, chance.shape[1]))
            own, density = weights[level.where], at.prior @ level.grid.hats
            for_segments(
                count_nodes,
                level.blocks,
                *(shown.starts, shown.position, shown.displays, shown.clicks, level.stratum, own),
                *(np.log(chance), np.log1p(-chance), density, out),
            )
            before = np.bincount(level.stratum, weights=own, minlength=self.strata) @ density
            ratio = np.interp(fine, np.linspace(0.0, 1.0, chance.shape[1]), out.sum(axis=0) / before)
            part = regrid(before / before.sum(), SHAPE_NODES) * before.sum()
            expected += part
            found += ratio * part
        sharper = shape * found / expected
        return np.asarray(sharper / sharper.sum())

    def mean_relevance(self, at: Parameters) -> Float64:
        """Compute the posterior mean of each document's relevance, on the grid's scale: documents."""
        result = np.zeros(self.shown.n_documents)
        for level in self._levels:
            out, chance = np.zeros(len(level.where)), _chance(at, level.grid)
            shown = level.shown
            for_segments(
                mean_relevance,
                np.arange(len(level.where) + 1),
                *(shown.starts, shown.position, shown.displays, shown.clicks, level.stratum),
                *(np.log(chance), np.log1p(-chance), at.prior @ level.grid.hats, level.grid.relevance, out),
            )
            result[level.where] = out
        return result

    def maximise(self, at: Parameters, sums: Sums) -> Parameters:
        """Run the maximisation step of expectation maximisation, which never lowers the likelihood.

        ``low + t (high − low)`` is a mixture of two click probabilities: `high` with probability t and `low`
        otherwise. The maximum of each is the share of its own expected displays that were clicked.
        """
        t = sums.nodes
        hits = sums.clicks / sums.chance
        misses = (sums.displays - sums.clicks) / (1.0 - sums.chance)
        ends = []
        for end, shape in ((at.low, 1.0 - t), (at.high, t)):
            clicked, skipped = end * (hits @ shape), (1.0 - end) * (misses @ shape)
            total = clicked + skipped
            ends.append(at.clip(np.divide(clicked, total, out=end.copy(), where=total > 0.0)))
        prior = sums.components / sums.components.sum(axis=1, keepdims=True)
        return replace(at, low=ends[0], high=ends[1], prior=prior)

    def _run(
        self, kernel: object, level: _Level, at: Parameters, chance: Float64, weights: Float64, *rest: object
    ) -> None:
        shown, density = level.shown, at.prior @ level.grid.hats
        for_segments(
            kernel,  # type: ignore[arg-type]
            level.blocks,
            *(
                shown.starts,
                shown.position,
                shown.displays,
                shown.clicks,
                level.stratum,
                weights[level.where],
            ),
            *(np.log(chance), np.log1p(-chance), density),
            *(level.grid.knot, level.grid.lower(at.prior, density)),
            *rest,
        )


def _chance(at: Parameters, nodes: Grid) -> Float64:
    r = nodes.relevance
    return np.clip(np.outer(at.low, 1.0 - r) + np.outer(at.high, r), TINY, 1.0 - TINY)


def _odds_slope(at: Parameters) -> Float64:
    """The derivatives of the two ends by their log-odds: ranks × 2."""
    return np.stack([at.low * (1.0 - at.low), at.high * (1.0 - at.high)], axis=1)


def _slopes(chance: Float64) -> tuple[Float64, Float64]:
    """The derivatives of log P(click) and −log P(no click) by P(click): ranks × nodes."""
    return 1.0 / chance, 1.0 / (1.0 - chance)
