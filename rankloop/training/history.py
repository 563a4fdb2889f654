"""The epochs of a training, which of them is kept, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from rankloop.progress import Progress, report
from rankloop.types import Float64, Model

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


def convinces(gain: Float64, caution: float) -> bool:
    """Whether the mean gain over the start exceeds ``caution`` standard errors.

    The standard error of few queries is itself uncertain, so it is multiplied by the quantile of Student's
    distribution that is exceeded as rarely as ``caution`` is by a standard normal number. Queries that never
    came have no clicks and a gain of exactly 0; they say nothing, and do not count.

    Args:
        gain: held-out queries, each the difference of two policies: how much queries differ in what can be
            earned on them cancels out. NaN without held-out queries, and then every epoch convinces.
        caution: number of standard errors; 0 for any gain.

    Example:
        >>> convinces(np.array([0.1, 0.3, 0.2]), caution=3.0)  # 3.5 standard errors, of three queries
        False
        >>> convinces(np.tile([0.1, 0.3, 0.2], 10), caution=3.0)
        True
    """
    if np.isnan(gain).any():
        return True
    if caution == 0.0:
        return bool(gain.mean() >= 0.0)
    of_queries = gain[gain != 0.0]
    n = len(of_queries)
    if n <= 1:
        return False
    quantile = stdtrit(n - 1, ndtr(caution))
    return bool(of_queries.mean() >= quantile * of_queries.std(ddof=1) / np.sqrt(n))
