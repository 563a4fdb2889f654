"""Inverse propensity scoring: clicks divided by how likely their rank is examined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rankloop.estimators.base import ClippedEstimator
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64


@register
@dataclass(frozen=True)
class IPS(ClippedEstimator):
    """Clicks divided by the examination of the rank they happened at.

        Δ̂_t(d) = c_t(d) / P(E = 1 | rank of d in y_t)

    Corrects position bias. Unbiased if every ranking shows every document at a rank that is examined, and
    clicks on examined documents do not depend on the rank (no trust bias).

    Example:
        Half of all users examine rank 2, so a click there counts twice.

        >>> import numpy as np
        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[1.0, 0.5], beta=[0.0, 0.0], examination=[1.0, 0.5])
        >>> statistics = Statistics.of_policy(
        ...     "a", [0, 2], Exposure(*np.ones((3, 2))),
        ...     impressions_by_query=[10],
        ...     displays_by_position=[[10, 0], [0, 10]], clicks_by_position=[[3, 0], [0, 3]],
        ... )
        >>> IPS(clip="off").weights(statistics, bias)
        array([0.3, 0.6])

    Reference: Joachims, Swaminathan and Schnabel, "Unbiased learning-to-rank with biased feedback" (2017).
    """

    name: ClassVar[str] = "ips"

    def _total(self, statistics: Statistics, bias: Bias, /) -> Float64:
        by_rank = self._divide(statistics.clicks_by_position, bias.examination, statistics)
        return by_rank.sum(axis=1)  # type: ignore[no-any-return]
