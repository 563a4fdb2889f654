"""From the learned policy to the logging policy: soft enough for the next round to learn from.

A learned policy may be so peaked that most items are hardly ever shown again, and the next round learns
nothing about them. The logging policy is therefore softened: the learned scores are multiplied by a number
below 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from rankloop import names
from rankloop.errors import RankloopError
from rankloop.ragged import segment_std
from rankloop.types import Float64, Int64

# Bisection steps in the search for a scale: 2^-12 of the range is far finer than needed.
SEARCH_STEPS = 12

Exposed = Callable[[Float64], Float64]


class Exploration(Protocol):
    """How a learned policy is softened before it logs."""

    name: ClassVar[str]

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:
        """Return the number that the scores are multiplied by.

        Args:
            scores: items; the scores of the learned policy.
            offsets: the offsets of their queries.
            exposed: a function from scores to the expected α of each item under their policy.
            clip: the paper's bound ``10 / √T`` at the horizon; little is learned about items exposed less.
        """
        ...


class _Named:
    name: ClassVar[str]

    def __str__(self) -> str:
        return names.name_of(self, self.name)


@dataclass(frozen=True)
class AsLearned(_Named):
    """The learned policy itself logs, as in the paper."""

    name: ClassVar[str] = "as-learned"

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:  # noqa: ARG002
        """Return 1: nothing is softened."""
        return 1.0


@dataclass(frozen=True)
class Soft(_Named):
    """Multiply the learned scores by a fixed number.

    >>> str(Soft(by=0.5))
    'soft(by=0.5)'
    """

    name: ClassVar[str] = "soft"
    by: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.by <= 1.0:
            raise RankloopError(f"soft: by must be above 0 and at most 1, got {self.by}")

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:  # noqa: ARG002
        """Return the fixed number."""
        return self.by


@dataclass(frozen=True)
class Spread(_Named):
    """Soften until the scores within a query spread no more than this, on average.

    A Plackett–Luce policy sorts by score plus Gumbel noise, whose standard deviation is 1.28: the spread is
    the signal, the noise is the exploration. Scores grow with the number of epochs and with the optimiser's
    rate; the softness of the logging policy does not change with them.

    Attributes:
        to: the standard deviation of the scores within a query, averaged over the queries.

    Example:
        >>> scores = np.array([0.0, 8.0, 0.0, 4.0])  # two queries, with standard deviations 4 and 2
        >>> Spread(to=1.5).scale(scores, np.array([0, 2, 4]), exposed=lambda s: s, clip=0.0)
        0.5
    """

    name: ClassVar[str] = "spread"
    to: float = 1.5

    def __post_init__(self) -> None:
        if not 0.0 < self.to < np.inf:
            raise RankloopError(f"spread: to must be a number above 0, got {self.to}")

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:  # noqa: ARG002
        """Return the scale that reduces the spread to the given one; 1 if it is already smaller."""
        several = np.diff(offsets) > 1  # there is nothing to explore in a query with a single candidate
        spread = segment_std(scores, offsets)[several].sum() / max(several.sum(), 1)
        return min(1.0, self.to / float(spread)) if spread > 0.0 else 1.0


@dataclass(frozen=True)
class Support(_Named):
    """Soften just enough for a share of the items to stay exposed above the clip.

    Attributes:
        share: the share of all items. If even a random policy exposes fewer, the softest scale is used.
        softest: the smallest scale allowed.
    """

    name: ClassVar[str] = "support"
    share: float = 0.9
    softest: float = 0.05

    def __post_init__(self) -> None:
        if not (0.0 < self.share <= 1.0 and 0.0 < self.softest <= 1.0):
            raise RankloopError(
                f"support: share and softest must be above 0 and at most 1, got {self.share}, {self.softest}"
            )

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:  # noqa: ARG002
        """Return the largest scale, up to 1, that keeps the share above the clip."""

        def enough(scale: float) -> bool:
            return bool(np.mean(exposed(scale * scores) >= clip) >= self.share)

        if enough(1.0):
            return 1.0
        low, high = self.softest, 1.0
        for _ in range(SEARCH_STEPS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if enough(middle) else (low, middle)
        return low


_READERS: Mapping[str, tuple[type[Any], Mapping[str, Callable[[str], Any]]]] = {
    AsLearned.name: (AsLearned, {}),
    Soft.name: (Soft, {"by": names.number}),
    Spread.name: (Spread, {"to": names.number}),
    Support.name: (Support, {"share": names.number, "softest": names.number}),
}


def exploration(text: str) -> Exploration:
    """Parse the name of an exploration.

    >>> exploration("support(share=0.8)")
    Support(share=0.8, softest=0.05)
    """
    name = names.parse_without_cutoff(text, _READERS, kind="exploration")
    chosen, readers = _READERS[name.name]
    made: Exploration = chosen(**names.arguments(name, readers))
    return made
