"""What is estimated about how users click, by which method, and with which intervals."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.bias.bias_estimate import AUTO, METHODS
from rankloop.errors import RankloopError
from rankloop.names import unknown
from rankloop.types import ASSUMED

# Examination k^−η, for logs with few clicks.
CURVE = "curve"
MODELS = ("affine", "position", "harvesting", CURVE)
# The contexts that are not a column of the log.
LENGTH, NO_CONTEXT = "length", "none"
# With fewer resamples, the 5 % quantile cannot be estimated.
MIN_RESAMPLES = 20


@dataclass(frozen=True)
class BiasOptions:
    """How a bias is estimated.

    Attributes:
        method: ``pairs``, ``documents``, ``features``, ``randomised`` or ``assumed``; ``auto`` for the first
            that the log supports.
        model: ``affine``, ``position`` or ``harvesting``; or ``curve``, examination k^−η, which needs the
            fewest clicks.
        randomised: the id of a policy that ranks at random, if there is one.
        curve: the name of simulated users, such as ``paper@10`` or ``position@10(eta=1)``, to assume if
            nothing can be estimated.
        resamples: number of bootstrap resamples of the queries for the intervals; 0 for no intervals.
        confidence: confidence level of the intervals.
        held_out: whether to compare the affine and the position-based model on held-out queries.
        context: in which contexts users may click more: ``length`` for lists of other lengths, or a column of
            the log; ``auto`` for the one that the self-test of the log finds; ``none``.
    """

    method: str = AUTO
    model: str = "affine"
    randomised: str | None = None
    curve: str | None = None
    resamples: int = 200
    confidence: float = 0.9
    held_out: bool = True
    context: str = AUTO

    def __post_init__(self) -> None:
        if self.method not in (AUTO, *METHODS):
            raise unknown("method", self.method, (AUTO, *METHODS))
        if self.model not in MODELS:
            raise unknown("model", self.model, MODELS)
        if self.randomised is not None and self.method not in (AUTO, "randomised"):
            raise RankloopError(f"a randomised policy is for the method 'randomised', not {self.method!r}")
        if self.curve is not None and self.method not in (AUTO, ASSUMED):
            raise RankloopError(f"a curve is for the method 'assumed', not {self.method!r}")
        if self.resamples and self.resamples < MIN_RESAMPLES:
            raise RankloopError(
                f"intervals need at least {MIN_RESAMPLES} resamples, got {self.resamples}; use 0 for no "
                f"intervals"
            )
        if not 0.0 < self.confidence < 1.0:
            raise RankloopError(f"confidence must be between 0 and 1, such as 0.9, got {self.confidence}")

    @property
    def forced(self) -> bool:
        """Whether one method was asked for: it is then used with a warning where ``auto`` would refuse it."""
        return self.method != AUTO
