"""The settings of a training, its epochs, which of them is kept, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from rankloop.errors import RankloopError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.models.optimisers import Adam, Optimiser
from rankloop.progress import Progress, report
from rankloop.types import Int64, Model

# A query takes up to a millisecond per step of a network.
QUERIES_PER_CALL = 1_000
# The name of the task that progress is reported under.
TRAINING = "training"


@dataclass(frozen=True)
class Epoch:
    """The state of training after one epoch.

    Attributes:
        number: the number of epochs (for trees: of trees) so far; 0 is the start.
        held_out: the objective on the held-out queries; NaN if there are none.
        best: whether this is the best epoch so far.
    """

    number: int
    held_out: float
    best: bool


@dataclass(frozen=True)
class Training:
    """The result of training.

    Attributes:
        model: the model of the best epoch, or of the last one if no queries were held out.
        history: all epochs, the start included.
        interrupted: whether training was stopped with Ctrl-C; the model is the best one until then.
    """

    model: Model
    history: tuple[Epoch, ...]
    interrupted: bool = False

    @property
    def best(self) -> Epoch:
        """The epoch whose model was kept."""
        return next(epoch for epoch in reversed(self.history) if epoch.best)


class History:
    """The epochs so far, and whether it is time to stop.

    Args:
        progress: called after every epoch; the `Epoch` is the detail of the update.
        patience: the number of epochs without a higher held-out value after which training stops.
        least_gain: the gain over the epoch before, below which training stops at once; None for no such rule.
        unit: what is counted, in the notes of the updates.
        most: the largest number of epochs, from which the share that is done is reported; None if unknown.

    Example:
        >>> history = History(None, patience=1)
        >>> [history.add(value) for value in (0.5, 0.7, 0.6)]
        [True, True, False]
        >>> history.exhausted
        True
    """

    def __init__(
        self,
        progress: Progress | None,
        patience: int,
        least_gain: float | None = None,
        *,
        unit: str = "epoch",
        most: int | None = None,
    ) -> None:
        self.epochs: list[Epoch] = []
        self._progress = progress
        self._patience = patience
        self._least_gain = -np.inf if least_gain is None else least_gain
        self._unit = unit
        self._most = most
        self._best = self._highest = -np.inf
        self._last_rise = 0

    def add(self, value: float, *, convincing: bool = True) -> bool:
        """Record an epoch's held-out value; return whether its model is the one to keep.

        Args:
            value: the held-out value.
            convincing: whether the gain over the start is large enough for the model to be kept.
        """
        # Without held-out queries every value is NaN; the comparisons are such that the last epoch is kept.
        best = convincing and not value <= self._best
        self._best = value if best else self._best
        if not value <= self._highest:
            self._highest, self._last_rise = value, len(self.epochs)
        epoch = Epoch(len(self.epochs), float(value), best)
        self.epochs.append(epoch)
        held_out = "" if np.isnan(epoch.held_out) else f"  held out {epoch.held_out:.4f}"
        report(
            self._progress,
            TRAINING,
            None if self._most is None else epoch.number / self._most,
            f"{self._unit} {epoch.number:3d}{held_out}",
            detail=epoch,
        )
        return best

    @property
    def exhausted(self) -> bool:
        """Whether training should stop."""
        gain = self.epochs[-1].held_out - self.epochs[-2].held_out
        return self.epochs[-1].number - self._last_rise >= self._patience or gain < self._least_gain


def in_parts(order: Int64, batch: int = 1) -> Iterator[Int64]:
    """Divide the queries of an epoch into whole batches: Ctrl-C is noticed between calls of compiled code."""
    stride = batch * -(-QUERIES_PER_CALL // batch)
    for first in range(0, len(order), stride):
        yield order[first : first + stride]


def diverged() -> RankloopError:
    """Build the error for scores that have grown too large to compute with."""
    return RankloopError(
        f"training diverged: scores grew beyond {LARGEST_SCORE:g}; lower the optimiser's rate, "
        "or scale the features"
    )


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
