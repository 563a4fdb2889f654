"""The naive estimator: uncorrected clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.estimators.base import Estimator
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64


@register
@dataclass(frozen=True)
class Naive(Estimator):
    """Every click counts as relevance.

        Δ̂_t(d) = c_t(d)

    Corrects nothing: if users are biased, it learns to repeat what was shown before.

    Example:
        >>> from rankloop.estimators import naive
        >>> str(naive.Naive())
        'naive'
    """

    name: ClassVar[str] = "naive"

    def _total(self, statistics: Statistics, _bias: Bias, /) -> Float64:
        return statistics.clicks.astype(np.float64)
