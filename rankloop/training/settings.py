"""Settings of the training of networks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

from rankloop.errors import RankloopError
from rankloop.models import Adam
from rankloop.models.optimisers import Optimiser


@dataclass(frozen=True)
class Settings:
    """Settings of the training of networks.

    Attributes:
        optimiser: how a gradient becomes a step.
        batch: queries per step.
        epochs: the maximum number of epochs, each of one pass over the queries or of several.
        least_steps: an epoch passes over the queries until it has at least this many steps. Without it, an
            epoch over three queries is three steps, and training runs out of patience before it has moved.
        patience: the number of epochs without a better held-out value after which training stops.
        least_gain: stop as soon as an epoch gains less than this, independently of the patience;
            None for no such rule. The paper's programs stop at 0.001.
        caution: an epoch is kept only if its mean held-out gain over the start, measured per query, exceeds
            this many standard errors; more of them if few queries have clicks (Student's t). It guards
            against keeping a model whose gain may be noise.
    """

    optimiser: Optimiser = field(default_factory=lambda: Adam(rate=0.003))
    batch: int = 1
    epochs: int = 100
    least_steps: int = 1
    patience: int = 5
    least_gain: float | None = None
    caution: float = 0.0

    def __post_init__(self) -> None:
        if self.caution < 0.0:
            raise RankloopError(f"caution must be at least 0, got {self.caution}")
        for name in ("batch", "epochs", "least_steps", "patience"):
            if getattr(self, name) < 1:
                raise RankloopError(f"{name} must be at least 1, got {getattr(self, name)}")

    def passes(self, queries: int) -> int:
        """Return how many passes over the queries an epoch has.

        >>> Settings(batch=10, least_steps=5).passes(25), Settings().passes(25)
        (2, 1)
        """
        steps = max(math.ceil(queries / self.batch), 1)
        return math.ceil(self.least_steps / steps)

    def without_caution(self) -> Self:
        """Return the same settings, but keep the best epoch however small its gain over the start.

        >>> Settings(epochs=7, caution=3.0).without_caution() == Settings(epochs=7)
        True
        """
        return replace(self, caution=0.0)
