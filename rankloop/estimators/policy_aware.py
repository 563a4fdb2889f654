"""The policy-aware estimator: clicks divided by the chance that the policy has the document examined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.estimators.base import ClippedEstimator
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64


@register
@dataclass(frozen=True)
class PolicyAware(ClippedEstimator):
    """Clicks divided by the examination that the document can expect under the policy that logged them.

        Δ̂_t(d) = c_t(d) / E_y[P(E = 1 | rank of d in y) | π_t, q_t]

    Corrects position and item-selection bias. Unbiased if every policy may show every document, and
    clicks on examined documents do not depend on the rank (no trust bias).

    Example:
        The document is examined every fourth time, so a click on it counts four times.

        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
        >>> statistics = Statistics.of_policy(
        ...     "a", [0, 1], Exposure(alpha=[0.25], beta=[0.0], examination=[0.25]),
        ...     impressions_by_query=[10], displays_by_position=[[3]], clicks_by_position=[[2]],
        ... )
        >>> PolicyAware(clip="off").weights(statistics, bias)
        array([0.8])

    Reference: Oosterhuis and de Rijke, "Policy-aware unbiased learning to rank for top-k rankings" (2020).
    """

    name: ClassVar[str] = "policy-aware"

    def _total(self, statistics: Statistics, _bias: Bias, /) -> Float64:
        total = np.zeros(statistics.n_documents)
        for policy in statistics.policies.values():
            total += self._divide(policy.clicks, policy.exposure.examination, statistics)
        return total
