"""The intervention-oblivious estimator: each click corrected by the policy that logged it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.estimators.base import ClippedEstimator
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64
from rankloop.value.contribution import unexplained


@register
@dataclass(frozen=True)
class InterventionOblivious(ClippedEstimator):
    """Clicks corrected by the α and β that the document can expect under the policy that logged them.

        Δ̂_t(d) = (c_t(d) − E_y[β_d | π_t, q_t]) / E_y[α_d | π_t, q_t]

    Corrects position, trust and item-selection bias. Unbiased if every policy gives every document an
    expected α ≠ 0, also when policies change. But a click under a policy that hardly shows the document keeps
    its large weight, however often other policies have shown the document.

    Example:
        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[0.5], beta=[0.2], examination=[1.0])
        >>> statistics = Statistics.of_policy(
        ...     "a", [0, 1], Exposure(alpha=[0.25], beta=[0.1], examination=[0.5]),
        ...     impressions_by_query=[10], displays_by_position=[[5]], clicks_by_position=[[3]],
        ... )
        >>> InterventionOblivious(clip="off").weights(statistics, bias)  # (3/10 - 0.1) / 0.25
        array([0.8])

    Reference: Oosterhuis and de Rijke, "Unifying online and counterfactual learning to rank" (2021).
    """

    name: ClassVar[str] = "intervention-oblivious"

    def _total(self, statistics: Statistics, _bias: Bias, /) -> Float64:
        total = np.zeros(statistics.n_documents)
        for policy in statistics.policies.values():
            by_chance = statistics.per_document(policy.impressions_by_query) * policy.exposure.beta
            total += self._divide(unexplained(policy.clicks, by_chance), policy.exposure.alpha, statistics)
        return total
