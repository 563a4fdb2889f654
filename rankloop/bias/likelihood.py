"""The likelihood of a log: clicks of every item at every rank, with its relevance integrated out.

    log L = Σ_d log Σ_t P(R_d = t | stratum of d) Π_k Binomial(c_dk; n_dk, low_k + t · (high_k − low_k))
            + Σ_s Σ_b pseudo_b · log prior_sb

``low`` and ``high`` are the chances of a click at the two ends of the grid of relevance: β and α + β, on a
scale of relevance that is free. The second line, three items a stratum that are distributed as all items
are and half an item that is anywhere, keeps components of the prior from vanishing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from rankloop.bias.rank_counts import RankCounts
from rankloop.bias.relevance_prior import COMPONENTS, NODES, Grid, grid, levels
from rankloop.kernels.click_likelihood import curve, expect, mean_relevance
from rankloop.ragged import for_segments
from rankloop.types import Float64, Int64

# Pseudo-items a stratum, distributed as all items are, and in addition in every component. Of the latter 0.1
# would be too many: α is then off by half a standard error in a log of 100,000 impressions.
POOLED_ITEMS, ITEMS_A_COMPONENT = 3.0, 0.03
# Logarithms of chances are of numbers no smaller.
TINY = 1e-12
# How many times as far from 0 or 1 as it may be an end still counts as lying on the edge.
ON_THE_EDGE = 1.5
# Each block of items has sums of its own, so that they do not depend on the number of threads.
BLOCKS = 16


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is fitted.

    Attributes:
        low: float64, ranks; the chance of a click at the lower end of relevance. 0 stays 0: the
            position-based model is the affine one that starts with all of them 0.
        high: float64, ranks; at the upper end.
        prior: float64, strata × components; how relevance is distributed, each row adding up to 1.
        edge: float64, ranks; no nearer to 0 or to 1 does either end come. From the very edge, where
            logarithms of odds are infinite, no step would lead back.
    """

    low: Float64
    high: Float64
    prior: Float64
    edge: Float64

    @property
    def alpha(self) -> Float64:
        """What relevance adds to the chance of a click, on this scale: ranks."""
        return self.high - self.low

    @property
    def free(self) -> tuple[Float64, Float64]:
        """α and β on this scale; ends that have come as near to 0 or 1 as they may are 0 or 1."""
        low = np.where(self.low <= self.edge * ON_THE_EDGE, 0.0, self.low)
        high = np.where(1.0 - self.high <= self.edge * ON_THE_EDGE, 1.0, self.high)
        return high - low, low

    def moved(self, ends: Float64, components: Float64) -> Parameters:
        """After a step in the logarithms of odds (2 · ranks; low, high, low, …) and of the prior."""
        log_prior = np.log(self.prior) + components
        weights = np.exp(log_prior - log_prior.max(axis=1, keepdims=True))
        return replace(
            self,
            low=self.kept(expit(logit(self.low) + ends[0::2])),
            high=self.kept(expit(logit(self.high) + ends[1::2])),
            prior=weights / weights.sum(axis=1, keepdims=True),
        )

    def kept(self, chances: Float64) -> Float64:
        """Chances that are no nearer to the edges than they may be; 0 stays 0."""
        return np.where(chances > 0.0, np.clip(chances, self.edge, 1.0 - self.edge), 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """What one pass over the items gives.

    Attributes:
        value: the logarithm of the likelihood, pseudo-items included.
        by_item: float64, items; each item's own; 0 where its weight is 0.
        nodes: float64, nodes of all levels; their relevance.
        chance: float64, ranks × nodes; of a click.
        displays: float64, ranks × nodes; expected.
        clicks: float64, ranks × nodes; expected.
        components: float64, strata × components; expected items, pseudo-items included.
    """

    value: float
    by_item: Float64
    nodes: Float64
    chance: Float64
    displays: Float64
    clicks: Float64
    components: Float64

    def gradient(self, at: Parameters) -> tuple[Float64, Float64]:
        """By the logarithms of odds, 2 · ranks, and of the prior, strata × components."""
        slope = self.clicks / self.chance - (self.displays - self.clicks) / (1.0 - self.chance)
        low = (slope @ (1.0 - self.nodes)) * at.low * (1.0 - at.low)
        high = (slope @ self.nodes) * at.high * (1.0 - at.high)
        total = self.components.sum(axis=1, keepdims=True)
        return np.stack([low, high], axis=1).ravel(), self.components - total * at.prior


@dataclass(frozen=True, eq=False)
class Curvature:
    """Minus the second derivatives of the log-likelihood.

    Attributes:
        ends: 2 ranks × 2 ranks.
        border: strata × components × 2 ranks.
        within: strata × components × components; strata do not meet.
    """

    ends: Float64
    border: Float64
    within: Float64


@dataclass(frozen=True, eq=False)
class _Level:
    """Items that have one grid: their places among all items, and their counts."""

    where: Int64
    shown: RankCounts
    stratum: Int64
    grid: Grid
    blocks: Int64


class Likelihood:
    """The likelihood of what was shown.

    Args:
        shown: displays and clicks.
        stratum: items; by their number.
        strata: how many strata there are.
        pooled: components; how relevance is distributed over all items.
    """

    def __init__(self, shown: RankCounts, stratum: Int64, strata: int, pooled: Float64) -> None:
        self.shown, self.stratum, self.strata = shown, stratum, strata
        self.pseudo_items = POOLED_ITEMS * pooled + ITEMS_A_COMPONENT
        level_of = levels(shown.by_item(shown.displays))
        self._levels = []
        for level, nodes in enumerate(NODES):
            where = np.flatnonzero(level_of == level)
            if len(where):
                blocks = np.unique(np.linspace(0, len(where), BLOCKS + 1).astype(np.int64))
                self._levels.append(_Level(where, shown.select(where), stratum[where], grid(nodes), blocks))

    def expect(self, at: Parameters, weights: Float64) -> Sums:
        """One pass over the items; weights, items, say how often each of them counts."""
        by_item = np.zeros(self.shown.n_items)
        components = np.zeros((self.strata, COMPONENTS))
        # Of each level, in the order of the attributes of Sums.
        parts: list[tuple[Float64, Float64, Float64, Float64]] = []
        for level in self._levels:
            chance = _chance(at, level.grid)
            out = np.zeros((2, len(level.blocks) - 1, *chance.shape))
            own = np.zeros((len(level.blocks) - 1, *components.shape))
            value = np.zeros(len(level.where))
            self._run(expect, level, at, chance, weights, out[0], out[1], own, value)
            by_item[level.where] = value
            components += own.sum(axis=0)
            parts.append((level.grid.relevance, chance, out[0].sum(axis=0), out[1].sum(axis=0)))
        value_of_all = float(weights @ by_item) + float((np.log(at.prior) @ self.pseudo_items).sum())
        nodes, chances, displays, clicks = (
            np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)
        )
        expected = components + self.pseudo_items
        return Sums(value_of_all, by_item, nodes, chances, displays, clicks, expected)

    def curvature(self, at: Parameters, sums: Sums, weights: Float64) -> Curvature:
        """Minus the second derivatives, by the same logarithms as the gradient of the sums.

        Those within a stratum's prior are what they are where the gradient is 0: never negative.
        """
        ranks, t = self.shown.ranks, sums.nodes
        odds_slope = np.stack([at.low * (1.0 - at.low), at.high * (1.0 - at.high)], axis=1)
        spread = np.zeros((2 * ranks, 2 * ranks))
        border = np.zeros((self.strata, COMPONENTS, 2 * ranks))
        within = np.zeros((self.strata, COMPONENTS, COMPONENTS))
        for level in self._levels:
            chance, r = _chance(at, level.grid), level.grid.relevance
            lines = (odds_slope[:, :, None] * np.stack([1.0 - r, r])).reshape(2 * ranks, -1)
            several = np.repeat(chance, 2, axis=0)
            out = [np.zeros((len(level.blocks) - 1, *part.shape)) for part in (spread, border, within)]
            self._run(curve, level, at, chance, weights, lines / several, lines / (1.0 - several), *out)
            for part, own in zip((spread, border, within), out, strict=True):
                part += own.sum(axis=0)
        bend = sums.clicks / sums.chance**2 + (sums.displays - sums.clicks) / (1.0 - sums.chance) ** 2
        ends, slope = -spread, sums.gradient(at)[0]
        shapes = np.stack([1.0 - t, t])
        for k in range(ranks):
            here = slice(2 * k, 2 * k + 2)
            both = np.outer(odds_slope[k], odds_slope[k])
            ends[here, here] += both * ((shapes * bend[k]) @ shapes.T)
            bent = 1.0 - 2.0 * np.array([at.low[k], at.high[k]])
            ends[here, here] -= np.diag(slope[here] * bent)
        return Curvature(ends, -border, within + np.diag(self.pseudo_items))

    def mean_relevance(self, at: Parameters) -> Float64:
        """The posterior mean of each item's relevance, on the grid's scale: items."""
        result = np.zeros(self.shown.n_items)
        for level in self._levels:
            out, chance = np.zeros(len(level.where)), _chance(at, level.grid)
            shown = level.shown
            for_segments(
                mean_relevance,
                np.arange(len(level.where) + 1),
                *(shown.starts, shown.rank, shown.displays, shown.clicks, level.stratum),
                *(np.log(chance), np.log1p(-chance), at.prior @ level.grid.hats, level.grid.relevance, out),
            )
            result[level.where] = out
        return result

    def maximised(self, at: Parameters, sums: Sums) -> Parameters:
        """One step of expectation maximisation, which never lowers the likelihood.

        With chance t a click is one that relevance brings: ``low + t (high − low)`` is a mixture of two
        chances, and both are the shares of their own displays that were clicked.
        """
        t = sums.nodes
        hits = sums.clicks / sums.chance
        misses = (sums.displays - sums.clicks) / (1.0 - sums.chance)
        ends = []
        for end, shape in ((at.low, 1.0 - t), (at.high, t)):
            clicked, skipped = end * (hits @ shape), (1.0 - end) * (misses @ shape)
            total = clicked + skipped
            ends.append(at.kept(np.divide(clicked, total, out=end.copy(), where=total > 0.0)))
        prior = sums.components / sums.components.sum(axis=1, keepdims=True)
        return replace(at, low=ends[0], high=ends[1], prior=prior)

    def _run(
        self, kernel: object, level: _Level, at: Parameters, chance: Float64, weights: Float64, *rest: object
    ) -> None:
        shown, density = level.shown, at.prior @ level.grid.hats
        for_segments(
            kernel,  # type: ignore[arg-type]
            level.blocks,
            *(shown.starts, shown.rank, shown.displays, shown.clicks, level.stratum, weights[level.where]),
            *(np.log(chance), np.log1p(-chance), density),
            *(level.grid.knot, level.grid.lower(at.prior, density)),
            *rest,
        )


def _chance(at: Parameters, nodes: Grid) -> Float64:
    r = nodes.relevance
    return np.clip(np.outer(at.low, 1.0 - r) + np.outer(at.high, r), TINY, 1.0 - TINY)
