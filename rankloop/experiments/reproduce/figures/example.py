"""The paper's example: the exact weight of a click on one document, before and after an intervention."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop.estimators import Estimator
from rankloop.experiments.reproduce.presets import Arm
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, Float64, Int64

# Users without bias: a document's weight is then its click weight alone.
_BIAS = Bias(alpha=np.ones(1), beta=np.zeros(1), examination=np.ones(1))


class ExampleFigure(BaseModel):
    """One document of one query under a logging policy that is changed once.

    Attributes:
        name: the name of its files, and on the command line.
        caption: what it shows.
        change: the last impression of the first policy.
        before: the document's expected α under the first policy.
        after: the document's expected α under the second policy.
        last: the last impression T.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "example"
    caption: str = "The weight of a click on one document around an intervention at t = 100."
    change: int = 100
    before: float = 0.25
    after: float = 0.05
    last: int = 400

    @property
    def arms(self) -> tuple[Arm, ...]:
        """It needs no runs."""
        return ()

    @property
    def times(self) -> Int64:
        """Every impression T."""
        return np.arange(1, self.last + 1)

    def weights(self, estimator: Estimator) -> Float64:
        """The weight of a click at impression T when T impressions have been logged, for every T."""
        return np.array([self.weight(estimator, click=int(t), impressions=int(t)) for t in self.times])

    def weight(self, estimator: Estimator, *, click: int, impressions: int) -> float:
        """The weight of a click at one impression when this many have been logged.

        Example:
            >>> from rankloop.estimators import InterventionAware
            >>> figure, aware = ExampleFigure(), InterventionAware(clip="off")
            >>> round(figure.weight(aware, click=101, impressions=400), 9)
            10.0
        """
        parts = [("first", self.before, min(impressions, self.change), click <= self.change)]
        if impressions > self.change:
            parts.append(("second", self.after, impressions - self.change, click > self.change))
        log = Statistics.empty(np.array([0, 1]), 1)
        for policy, alpha, length, clicked in parts:
            log += Statistics.of_policy(
                policy,
                np.array([0, 1]),
                Exposure(np.array([alpha]), np.zeros(1), np.array([alpha])),
                impressions_by_query=[length],
                displays_by_position=[[int(clicked)]],
                clicks_by_position=[[int(clicked)]],
            )
        return float(estimator.weights(log, _BIAS)[0] * log.impressions)


FIGURE = ExampleFigure()
