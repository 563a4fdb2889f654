"""A conditional score test: does something change clicks on the same document at the same position?

    r_y = y − ȳ_cell,   r_x = x − x̄_cell,   T = Σ r_y r_x,   V = Σ_u (Σ_{rows of u} √(n/(n−1)) r_y r_x)²

A cell has the n rows of one document at one position. Whatever documents and positions are like cancels out:
if x changes nothing, T has mean 0. Rows of one unit u, such as a user, may depend on each other. In units of
clicks, the effect is e = M⁻¹ T with M = Σ r_x r_x' ȳ: one more x changes the rate of clicks by the share e.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, chndtrinc, fdtrc

from rankloop.statistics.intervals import normal_quantile
from rankloop.types import Float64, Int64

# A column is left out of a test with fewer clicks in cells where it varies: its sum is not normal yet.
LEAST_CLICKS_OF_COLUMN = 25
# A change counts as one that would have been seen if a test at this level finds it with this probability: for
# one column, about 4 standard errors.
SEEN_LEVEL, SEEN_POWER = 0.001, 0.75
# Directions with less of the variance than this are rounding errors.
NEGLIGIBLE = 1e-9
LARGEST_CODE = 2**62
# Numbers are made dense by counting if they are at most so many times as many as the rows.
FEW_GAPS = 16


class CellGroups:
    """Rows in groups, such as the cells of a document at a position.

    Attributes:
        index: int64, rows; the number of the group.
        size: int64, groups; how many rows each has.

    Example:
        >>> groups = CellGroups(np.array([5, 5, 9]))
        >>> groups.residual(np.array([1.0, 3.0, 4.0]))
        array([-1.,  1.,  0.])
    """

    def __init__(self, *keys: Int64) -> None:
        self.index = combine(*keys)
        self.size = np.bincount(self.index)

    def mean(self, values: Float64) -> Float64:
        """The mean of each row's group: float64, rows."""
        result: Float64 = (np.bincount(self.index, values) / self.size)[self.index]
        return result

    def residual(self, values: Float64) -> Float64:
        """What is left of each row without the mean of its group: float64, rows."""
        return values - self.mean(values)


def combine(*keys: Int64) -> Int64:
    """One number per combination of keys, from 0 and without gaps, in the order of the keys.

    >>> combine(np.array([7, 7, 2]), np.array([0, 1, 0]))
    array([1, 2, 0])
    """
    code = _dense(keys[0])
    for key in keys[1:]:
        low, span = int(key.min(initial=0)), int(np.ptp(key)) + 1 if len(key) else 1
        if int(code.max(initial=0)) >= LARGEST_CODE // span:
            code = _dense(code)
        code = code * span + (key - low)
    return _dense(code)


def _dense(code: Int64) -> Int64:
    """The same numbers without gaps: by counting where that takes little memory, else by sorting."""
    if not len(code):
        return code.astype(np.int64)
    low = int(code.min())
    if int(code.max()) - low < FEW_GAPS * len(code):
        place = code - low
        used = np.zeros(int(place.max()) + 1, np.bool_)
        used[place] = True
        counted: Int64 = (np.cumsum(used) - 1)[place]
        return counted
    result: Int64 = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return result


class Joint(NamedTuple):
    """A test of several effects at once.

    Attributes:
        statistic: χ².
        freedom: its degrees of freedom; 0 if there is nothing to test.
        p: the probability of a larger one by chance.
    """

    statistic: float
    freedom: int
    p: float


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """The sums of a score test: one entry per column of x, or per column and block.

    Attributes:
        column: int64, entries; the number of the column.
        block: int64, entries; the number of the block, such as a position; 0 for all of them together.
        total: float64, entries; T.
        variance: float64, entries × entries; V.
        information: float64, entries × entries; M.
        clicks: float64, entries; the clicks in cells where the column varies.
        all_clicks: the clicks in cells where any column varies.
        units: how many units add anything.
    """

    column: Int64
    block: Int64
    total: Float64
    variance: Float64
    information: Float64
    clicks: Float64
    all_clicks: float
    units: int

    def over_blocks(self) -> ScoreSums:
        """The sums of one effect per column, the same in all blocks."""
        names, group = np.unique(self.column, return_inverse=True)
        member = (np.arange(len(names))[:, None] == group).astype(np.float64)
        return replace(
            self,
            column=names,
            block=np.zeros(len(names), np.int64),
            total=member @ self.total,
            variance=member @ self.variance @ member.T,
            information=member @ self.information @ member.T,
            clicks=member @ self.clicks,
        )

    def effects(self) -> Effects:
        """The relative effects of all entries that have enough clicks."""
        kept = np.flatnonzero(self.clicks >= LEAST_CLICKS_OF_COLUMN)
        pairs = np.ix_(kept, kept)
        inverse = np.linalg.pinv(self.information[pairs], rcond=NEGLIGIBLE, hermitian=True)
        return Effects(
            self.column[kept],
            self.block[kept],
            inverse @ self.total[kept],
            inverse @ self.variance[pairs] @ inverse,
            np.diag(self.information)[kept],
            self.units,
        )


@dataclass(frozen=True, eq=False)
class Effects:
    """Relative effects on the rate of clicks.

    Attributes:
        column: int64, effects; the number of the column.
        block: int64, effects; the number of the block.
        values: float64, effects.
        covariance: float64, effects × effects.
        weights: float64, effects; how many clicks tell about each.
        units: how many units they come from.
    """

    column: Int64
    block: Int64
    values: Float64
    covariance: Float64
    weights: Float64
    units: int

    def errors(self) -> Float64:
        """The standard errors."""
        result: Float64 = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return result

    def intervals(self) -> tuple[Float64, Float64]:
        """The ends of the confidence intervals."""
        half = normal_quantile() * self.errors()
        return self.values - half, self.values + half

    def deviations(self) -> Effects:
        """How the effects of each column differ from their weighted mean over the blocks."""
        same = self.column[:, None] == self.column
        means = same * self.weights / np.maximum((same * self.weights).sum(axis=1, keepdims=True), NEGLIGIBLE)
        apart = np.eye(len(self.values)) - means
        return replace(self, values=apart @ self.values, covariance=apart @ self.covariance @ apart.T)

    def test(self) -> Joint:
        """Test that all effects are 0.

        The statistic is χ² with many units. With few, ``(C − m) χ² / (m (C − χ²))`` has the F distribution
        with m and C − m degrees of freedom (Hotelling), C being the number of units.
        """
        scale = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        used = np.flatnonzero(scale > 0.0)
        if not len(used):
            return Joint(0.0, 0, 1.0)
        standard = self.values[used] / scale[used]
        correlation = self.covariance[np.ix_(used, used)] / np.outer(scale[used], scale[used])
        sizes, axes = np.linalg.eigh(correlation)
        kept = sizes > NEGLIGIBLE * len(used)
        statistic = float(((axes.T @ standard)[kept] ** 2 / sizes[kept]).sum())
        freedom = int(kept.sum())
        rest = self.units - freedom
        if rest < 1:
            return Joint(statistic, 0, 1.0)
        ratio = rest * statistic / (freedom * max(self.units - statistic, NEGLIGIBLE))
        return Joint(statistic, freedom, float(fdtrc(freedom, rest, ratio)))

    def size(self) -> float:
        """The root mean square of the effects, without what noise adds."""
        square = self.weights @ self.values**2 - self.weights @ np.diag(self.covariance)
        return float(np.sqrt(max(square / max(self.weights.sum(), NEGLIGIBLE), 0.0)))

    def smallest_seen(self, freedom: int) -> float:
        """The root mean square of the smallest effects that would have been seen."""
        if not freedom:
            return float("nan")
        needed = chndtrinc(chdtri(freedom, SEEN_LEVEL), freedom, 1.0 - SEEN_POWER)
        noise = self.weights @ np.diag(self.covariance) / freedom
        return float(np.sqrt(needed * noise / max(self.weights.sum(), NEGLIGIBLE)))


def sum_scores(
    cells: CellGroups,
    clicked: Float64,
    columns: Sequence[Float64],
    unit: Int64,
    *,
    block: Int64 | None = None,
    blocks: int = 1,
) -> ScoreSums:
    """Sum up the scores of some columns.

    Args:
        cells: the rows of one document at one position, and of whatever else must not matter.
        clicked: float64, rows.
        columns: x; float64, rows each.
        unit: int64, rows; the number of the user or impression.
        block: int64, rows; a column has one effect per block, such as one per position. None for one block.
        blocks: how many blocks there are.

    Returns:
        The sums of all columns, each block by block.
    """
    if block is None:
        block = np.zeros(len(clicked), np.int64)
    mean = cells.mean(clicked)
    size = cells.size[cells.index]
    # Residuals vary less than what they are residuals of.
    surprise = (clicked - mean) * np.sqrt(size / np.maximum(size - 1, 1))
    left = [cells.residual(column) for column in columns]
    varies = [np.abs(part) > NEGLIGIBLE for part in left]
    some = np.logical_or.reduce(varies)
    unit = combine(unit[some])
    units = int(unit.max(initial=-1)) + 1
    place = unit * blocks + block[some]
    by_unit = np.concatenate(
        [np.bincount(place, (surprise * part)[some], units * blocks).reshape(units, blocks) for part in left],
        axis=1,
    )
    count = len(columns)
    information = np.zeros((count, blocks, count, blocks))
    ranks = np.arange(blocks)
    for i, first in enumerate(left):
        for j, second in enumerate(left[: i + 1]):
            shared = np.bincount(block, first * second * mean, blocks)
            information[i, ranks, j, ranks] = information[j, ranks, i, ranks] = shared
    total = np.concatenate([np.bincount(block, (clicked - mean) * part, blocks) for part in left])
    clicks = np.concatenate([_clicks_where(cells, clicked, moved, block, blocks) for moved in varies])
    return ScoreSums(
        np.repeat(np.arange(count), blocks),
        np.tile(ranks, count),
        total,
        by_unit.T @ by_unit,
        information.reshape(count * blocks, count * blocks),
        clicks,
        float(_clicks_where(cells, clicked, some, block, blocks).sum()),
        units,
    )


def _clicks_where(
    cells: CellGroups, clicked: Float64, varies: NDArray[np.bool_], block: Int64, blocks: int
) -> Float64:
    """The clicks in cells with a row that varies, by block."""
    some = np.bincount(cells.index, varies) > 0.0
    result: Float64 = np.bincount(block, clicked * some[cells.index], blocks).astype(np.float64)
    return result
