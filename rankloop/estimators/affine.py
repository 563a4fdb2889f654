"""The affine estimator: clicks minus those caused by trust, divided by the effect of relevance, per rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rankloop.estimators.base import ClippedEstimator
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64
from rankloop.value.contribution import unexplained


@register
@dataclass(frozen=True)
class Affine(ClippedEstimator):
    """Clicks corrected by the α and β of the rank at which the document was shown.

        Δ̂_t(d) = (c_t(d) − β_k) / α_k,  k = rank of d in y_t;  0 if d was not shown

    Corrects position and trust bias. Unbiased if every ranking shows every document at a rank with α ≠ 0; a
    document that is shown in a share p of the rankings is estimated at p times its relevance.

    Example:
        A document is shown ten times, at a rank where 2 of 10 users click on anything; relevance adds 0.5.

        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[0.5], beta=[0.2], examination=[1.0])
        >>> statistics = Statistics.of_policy(
        ...     "a", [0, 1], Exposure(alpha=[0.5], beta=[0.2], examination=[1.0]),
        ...     impressions_by_query=[10], displays_by_position=[[10]], clicks_by_position=[[6]],
        ... )
        >>> Affine(clip="off").weights(statistics, bias)  # (6/10 - 0.2) / 0.5
        array([0.8])

    Reference: Vardasbi, Oosterhuis and de Rijke, "When inverse propensity scoring does not work: affine
    corrections for unbiased learning to rank" (2020).
    """

    name: ClassVar[str] = "affine"

    def _total(self, statistics: Statistics, bias: Bias, /) -> Float64:
        corrected = unexplained(statistics.clicks_by_position, bias.beta * statistics.effective_displays)
        return self._divide(corrected, bias.alpha, statistics).sum(axis=1)  # type: ignore[no-any-return]
