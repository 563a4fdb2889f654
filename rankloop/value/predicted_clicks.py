"""The clicks on one policy, predicted from the clicks on another policy that served the same queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.statistics.intervals import draw_units, few_units_widening
from rankloop.types import Float64, Int64, Lines
from rankloop.value.valuation import Valuation

# Resamples if the bias has none of its own.
RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class PredictedClicks:
    """What the impressions of one policy say about the clicks on another, and what these clicks were.

        P = Σ_q N_q v_q / Σ_q N_q,    M = Σ_q C_q / Σ_q N_q

    N_q and C_q are the impressions of the predicted policy and their clicks; v_q is its value per impression
    of query q by the clicks on the other policy. All queries were served by both.

    Attributes:
        valuation: both policies, the predicted one first, on the traffic of the other one.
        impressions: int64, queries; N.
        clicks: int64, queries; C.
    """

    valuation: Valuation
    impressions: Int64
    clicks: Int64

    @property
    def predicted(self) -> float:
        """P."""
        return float(self._prediction(self.valuation.by_query, np.ones(len(self.impressions))))

    @property
    def measured(self) -> float:
        """M."""
        return float(self.clicks.sum() / self.impressions.sum())

    def error(
        self, biases: Sequence[Lines], shares: Float64, draws: Float64 | None, rng: np.random.Generator
    ) -> float:
        """The standard error of P − M: queries are resampled, together with the bias.

        Args:
            biases: the resamples of the bias; none if it is given.
            shares: float64, documents × ranks; where the other policy shows each document, per impression.
            draws: float64, resamples × queries; how often each query was drawn for each bias; None if that is
                not known.
            rng: random generator.
        """
        count, differences = len(self.impressions), []
        for number in range(len(biases) or RESAMPLES):
            drawn = draw_units(count, rng) if draws is None else draws[number]
            if not drawn @ self.impressions:
                continue
            sums = (
                self.valuation.by_query_with(biases[number], shares, drawn)
                if biases
                else self.valuation.by_query
            )
            measured = drawn @ self.clicks / (drawn @ self.impressions)
            differences.append(self._prediction(sums, drawn) - measured)
        spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
        return spread * few_units_widening(self.impressions)

    def _prediction(self, sums: Float64, drawn: Float64) -> Float64:
        weight = drawn * self.impressions
        value = sums[:, 0] / np.maximum(self.valuation.contribution.impressions, 1)
        result: Float64 = weight @ value / weight.sum()
        return result
