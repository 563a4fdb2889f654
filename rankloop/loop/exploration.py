"""Exploration: how much the learned policy is softened before it is deployed to log clicks.

A learned policy may be so confident that most documents are hardly ever shown again, and the next round
learns nothing about them. The policy that is deployed is therefore a softened one: the learned scores times a
number below 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.errors import RankloopError
from rankloop.ragged import segment_std
from rankloop.registry import Named, Registry, register
from rankloop.types import Float64, Int64

# Steps of the search for a scale: a precision of 2^-12 of the range, far finer than matters.
SEARCH_STEPS = 12
# The share of `Explore` is constant up to this number of impressions.
DECAY_FROM = 1_000

Exposed = Callable[[Float64], Float64]


class Exploration(Named, ABC):
    """How a learned policy is softened before it logs.

    Explorations are frozen dataclasses whose fields are the options of their name: ``str(exploration)`` is
    the canonical name, and `rankloop.loop.exploration` reads it back.
    """

    @abstractmethod
    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:
        """Return the number that the scores are multiplied by.

        Args:
            scores: of the learned policy, documents.
            offsets: queries + 1; query q owns documents ``offsets[q]:offsets[q + 1]``.
            exposed: from scores to the expected α of each document under the policy with these scores.
            clip: the paper's bound ``10 / √T`` at the horizon; a document with less exposure teaches little.

        Returns:
            A number above 0 and up to 1.
        """

    def explored(self, impressions: int) -> float:  # noqa: ARG002
        """Return the share of impressions that the softened policy serves; the learned one serves the rest.

        Args:
            impressions: the number of impressions so far.
        """
        return 1.0


EXPLORATIONS: Registry[Exploration] = Registry("exploration", Exploration)


def exploration(text: str) -> Exploration:
    """The exploration that a name spells.

    >>> exploration("support(share=0.8)")
    Support(share=0.8, softest=0.05)
    """
    return EXPLORATIONS.parse(text)


@register
@dataclass(frozen=True)
class AsLearned(Exploration):
    """The learned policy itself logs, as in the paper."""

    name: ClassVar[str] = "as-learned"

    def scale(self, scores: Float64, offsets: Int64, exposed: Exposed, clip: float) -> float:  # noqa: ARG002
        """Return 1: nothing is softened."""
        return 1.0


@register
@dataclass(frozen=True)
class Soft(Exploration):
    """The learned scores times a fixed number.

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


@register
@dataclass(frozen=True)
class Spread(Exploration):
    """As soft as needed to limit the spread of the scores within a query.

    A Plackett–Luce policy sorts by score plus Gumbel noise, whose standard deviation is 1.28: the spread is
    what was learned, the noise is the exploration. Learned scores grow with the number of epochs and the
    optimiser's rate; with a fixed spread, the policy that logs stays as soft as before.

    Attributes:
        to: the largest standard deviation of the scores within a query, averaged over queries.

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
        """The scale that reduces the spread to ``to``; 1 if it is smaller already."""
        several = np.diff(offsets) > 1  # a query with one candidate has nothing to explore
        spread = segment_std(scores, offsets)[several].sum() / max(several.sum(), 1)
        return min(1.0, self.to / float(spread)) if spread > 0.0 else 1.0


@register
@dataclass(frozen=True)
class Explore(Spread):
    """A share of the impressions explores; the learned policy itself serves the others.

    Logging policies are then mixtures. Which of the two policies served an impression is known, so each has
    statistics of its own, and these add.

    Attributes:
        to: the spread of the scores of the policy that explores, as in `Spread`.
        share: the share of the impressions that it serves at first.
        decay: from 1,000 impressions on, the share falls with this power of their number.

    Example:
        >>> half_life = Explore(share=0.2, decay=0.5)
        >>> [round(half_life.explored(t), 4) for t in (100, 1_000, 4_000, 100_000)]
        [0.2, 0.2, 0.1, 0.02]
    """

    name: ClassVar[str] = "explore"
    share: float = 0.1
    decay: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0.0 < self.share <= 1.0 and 0.0 <= self.decay <= 1.0):
            raise RankloopError(
                f"explore: share must be above 0, decay at least 0, and both at most 1, got {self.share}, "
                f"{self.decay}"
            )

    def explored(self, impressions: int) -> float:
        """Return the share after this many impressions."""
        fallen: float = min(1.0, DECAY_FROM / max(impressions, 1)) ** self.decay
        return self.share * fallen


@register
@dataclass(frozen=True)
class Support(Exploration):
    """As soft as needed, and no softer, to keep a share of the documents exposed above the clip.

    Attributes:
        share: of all documents. If even a random policy exposes fewer, the scale is ``softest``.
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
