"""The likelihood of clicks as an objective: scores whose logistic function is the relevance of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.click_probabilities import click_derivatives
from rankloop.ragged import for_segments, offsets_of
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64, Int64, as_numbers, as_whole_numbers

# A relevance is never guessed to be surer than this before its features are known.
LEAST_RELEVANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """How often documents were shown and clicked at the ranks where they were shown at all.

    Attributes:
        cells: int64, items + 1; the cells of item d are ``cells[d]`` to ``cells[d + 1]``.
        ranks: int64, cells; from 0.
        displays: float64, cells.
        clicks: float64, cells.
    """

    cells: Int64
    ranks: Int64
    displays: Float64
    clicks: Float64

    def __post_init__(self) -> None:
        # Kernels do not check their arguments, so everything is checked once, here.
        for name in ("cells", "ranks"):
            object.__setattr__(self, name, as_whole_numbers(getattr(self, name), name))
        for name in ("displays", "clicks"):
            object.__setattr__(self, name, as_numbers(getattr(self, name), name))
        shape = (int(self.cells[-1]) if self.cells.ndim == 1 and len(self.cells) else -1,)
        if not (self.ranks.shape == self.displays.shape == self.clicks.shape == shape):
            raise DataError(
                f"cells must end at the number of counts, got cells of shape {self.cells.shape}, and ranks, "
                f"displays and clicks of shapes {self.ranks.shape}, {self.displays.shape} and "
                f"{self.clicks.shape}"
            )
        if self.cells[0] != 0 or (self.cells[1:] < self.cells[:-1]).any() or (self.ranks < 0).any():
            raise DataError("cells must ascend from 0, and ranks be at least 0")

    @classmethod
    def of(cls, statistics: Statistics) -> Self:
        """The counts of all policies together."""
        items, ranks = np.nonzero(statistics.displays_by_rank)
        return cls(
            offsets_of(np.bincount(items, minlength=statistics.n_items)),
            ranks.astype(np.int64),
            statistics.displays_by_rank[items, ranks].astype(np.float64),
            statistics.clicks_by_rank[items, ranks].astype(np.float64),
        )

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.cells) - 1

    def select(self, items: Int64) -> Self:
        """The counts of some of the items, in ascending order.

        >>> counts = ClickCounts(np.array([0, 1, 3]), np.array([0, 0, 1]), np.ones(3), np.zeros(3))
        >>> counts.select(np.array([1])).ranks
        array([0, 1])
        """
        sizes = np.diff(self.cells)
        chosen = np.zeros(self.n_items, np.bool_)
        chosen[items] = True
        inside = np.repeat(chosen, sizes)
        return type(self)(
            offsets_of(sizes[chosen]), self.ranks[inside], self.displays[inside], self.clicks[inside]
        )


@dataclass(frozen=True, eq=False)
class LikelihoodValue:
    """The log-likelihood of clicks and its derivatives by the scores.

    Attributes:
        values: float64, items; the objective is their sum.
        gradient: float64, items.
        curvature: float64, items; the expected information, not negative.
    """

    values: Float64
    gradient: Float64
    curvature: Float64

    @property
    def value(self) -> float:
        """The value of the objective."""
        return float(self.values.sum())


def click_likelihood(scores: object, counts: ClickCounts, bias: Bias) -> LikelihoodValue:
    """Compute the log-likelihood of clicks, if a document at rank k is clicked with ``α_k σ(s_d) + β_k``.

        Σ_d Σ_k c_dk log p_dk + (n_dk − c_dk) log(1 − p_dk),    p_dk = α_k σ(s_d) + β_k

    Args:
        scores: s, items.
        counts: n and c, how often items were shown and clicked at each rank.
        bias: α and β by rank.

    Example:
        Shown three times at a rank where α = 1 and β = 0, clicked twice: at σ(0) = 1/2 the gradient is
        2 − 3/2.

        >>> counts = ClickCounts(np.array([0, 1]), np.array([0]), np.array([3.0]), np.array([2.0]))
        >>> found = click_likelihood([0.0], counts, Bias(alpha=[1.0], beta=[0.0], examination=[1.0]))
        >>> found.gradient, found.curvature
        (array([0.5]), array([0.75]))
    """
    flat = as_numbers(scores, "scores")
    if flat.shape != (counts.n_items,):
        raise DataError(f"{counts.n_items} items need as many scores, got shape {flat.shape}")
    if len(counts.ranks) and counts.ranks.max() >= bias.ranks:
        raise DataError(
            f"the bias has {bias.ranks} ranks, but documents were shown at rank {counts.ranks.max() + 1}: "
            f"count the log with the ranks of the bias"
        )
    out = np.empty((3, len(flat)))

    def kernel(first: int, last: int, *_: object) -> None:
        click_derivatives(
            first,
            last,
            counts.cells,
            flat,
            counts.ranks,
            counts.displays,
            counts.clicks,
            bias.alpha,
            bias.beta,
            out,
        )

    for_segments(kernel, np.arange(len(flat) + 1))
    return LikelihoodValue(*out)


def mean_score(counts: ClickCounts, bias: Bias) -> float:
    """The score that explains all clicks best if it is the same for every item, by moments."""
    examined = float(counts.displays @ bias.alpha[counts.ranks])
    extra = float(counts.clicks.sum() - counts.displays @ bias.beta[counts.ranks])
    mean = extra / examined if examined > 0.0 else 0.5
    bounded = min(max(mean, LEAST_RELEVANCE), 1.0 - LEAST_RELEVANCE)
    return float(np.log(bounded / (1.0 - bounded)))
