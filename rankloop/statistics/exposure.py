"""The expected exposure of each item under a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.errors import DataError
from rankloop.policies import expected_rank_weights
from rankloop.statistics._arrays import build_unchecked, read_only
from rankloop.types import Bias, Float64, Int64

# The error bound of `expected_rank_weights`: exposures that differ by more belong to different policies.
EXPOSURE_RTOL, EXPOSURE_ATOL = 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class Exposure:
    """The expected exposure of each item under one policy, over all rankings that it may show.

        alpha_d = E_y[α_rank(d)],   beta_d = E_y[β_rank(d)],   examination_d = E_y[P(E | rank(d))]

    so that d is clicked with probability ``alpha_d · R(d) + beta_d`` whenever its query comes. Zero in all
    three means that the policy never shows the item.

    Attributes:
        alpha: float64, items.
        beta: float64, items.
        examination: float64, items.

    Example:
        Two items with equal scores and users who see one rank: each item is there half of the time.

        >>> bias = Bias(alpha=[0.8], beta=[0.1], examination=[1.0])
        >>> exposure = Exposure.of_scores(np.zeros(2), np.array([0, 2]), bias)
        >>> exposure.alpha.round(6), exposure.beta.round(6)
        (array([0.4, 0.4]), array([0.05, 0.05]))
    """

    alpha: Float64
    beta: Float64
    examination: Float64

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "examination"):
            values = read_only(getattr(self, name), np.float64, f"the expected {name}")
            object.__setattr__(self, name, values)
            if values.shape != self.alpha.shape or values.ndim != 1:
                raise DataError(
                    f"exposures must be flat arrays over the same items, got {name} of shape {values.shape}"
                )
            # alpha may be negative: users may click relevant items less often.
            bad = np.flatnonzero(~np.isfinite(values) | ((values < 0) & (name != "alpha")))
            if len(bad):
                raise DataError(f"item {bad[0]}: the expected {name} is {values[bad[0]]}")

    @classmethod
    def of_scores(cls, scores: object, offsets: Int64, bias: Bias) -> Exposure:
        """The exposure under the Plackett–Luce policy with these scores; exact, not sampled."""
        by_rank = np.stack([bias.alpha, bias.beta, bias.examination])
        return cls(*np.ascontiguousarray(expected_rank_weights(scores, offsets, by_rank).T))

    def agrees_with(self, other: Exposure) -> bool:
        """Return whether both can be the exposure of one policy."""
        return self is other or all(
            np.allclose(getattr(self, name), getattr(other, name), rtol=EXPOSURE_RTOL, atol=EXPOSURE_ATOL)
            for name in ("alpha", "beta", "examination")
        )

    def __getitem__(self, items: Any) -> Exposure:
        alpha, beta, examination = self.alpha[items], self.beta[items], self.examination[items]
        return build_unchecked(Exposure, alpha=alpha, beta=beta, examination=examination)
