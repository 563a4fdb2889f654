"""Rules of evidence: how sure it has to be that a learned policy may replace the one it started from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from rankloop.errors import RankloopError
from rankloop.evidence.decision import Assumption, Decision, Evidence, decide
from rankloop.names import BadNameError
from rankloop.registry import Named, Registry, register
from rankloop.statistics.intervals import tail_probability, tail_quantile
from rankloop.types import Float64
from rankloop.value import Gain, HeldOutClicks, calibrated_gain

# If the number of looks is not known, this many get half of the level.
EARLY_LOOKS = 10


class EvidenceRule(Named, ABC):
    """A rule for how sure the estimated gain of a policy has to be before it is deployed.

    It gives the gain, its interval and the loss to tolerate; `decide` does the rest.

    Rules are frozen dataclasses whose fields are the options of their name: ``str(rule)`` is the canonical
    name, and `rankloop.evidence.evidence` reads it back.
    """

    @abstractmethod
    def gain(self, clicks: HeldOutClicks, new: Float64, old: Float64, look: int) -> Gain:
        """Estimate the gain of a policy in the way that the rule judges.

        Args:
            clicks: of queries that neither policy was trained on.
            new: documents; the expected rank weights of the new policy.
            old: documents; those of the start.
            look: the number of the look at the evidence, from 1.
        """

    @abstractmethod
    def interval(self, gain: Gain, look: int) -> tuple[float, float]:
        """The ends of the interval of a gain that the rule relies on.

        Args:
            gain: the estimated gain over the start.
            look: the number of the look at the evidence, from 1.
        """

    @abstractmethod
    def level_at(self, look: int) -> float:
        """The probability that this look deploys a policy whose true gain is below what is required."""

    @property
    def tolerated(self) -> float:
        """The largest loss to tolerate, as a share of the value of the start."""
        return 0.0

    def decide(
        self, gain: Gain, value: float, look: int, assumptions: tuple[Assumption, ...] = ()
    ) -> Decision:
        """Decide on a gain.

        Args:
            gain: the estimated gain over the start.
            value: the value of the start itself, which tolerated losses are relative to.
            look: the number of the look at the evidence, from 1.
            assumptions: what else a policy that is deployed has to fulfil.
        """
        evidence = Evidence(
            gain.value, self.interval(gain, look), baseline=abs(value), assumptions=assumptions
        )
        return decide(evidence, margin=self.tolerated, level=self.level_at(look), look=look)


EVIDENCE: Registry[EvidenceRule] = Registry("rule of evidence", EvidenceRule)


def evidence(text: str) -> EvidenceRule:
    """The rule of evidence that a name spells.

    >>> evidence("click-noise(looks=any)")
    ClickNoise(level=0.05, looks='any', margin=0.01, estimate='calibrated')
    >>> str(evidence("standard-errors"))
    'standard-errors'
    """
    return EVIDENCE.parse(text)


def spent_level(level: float, number: int) -> float:
    """The level of the n-th of any number of trials: those of all trials together sum to ``level``.

    >>> round(sum(spent_level(0.05, number) for number in range(1, 100_000)), 4)
    0.05
    """
    return level * 6.0 / (math.pi * number) ** 2


@register
@dataclass(frozen=True)
class ClickNoise(EvidenceRule):
    """Deploy what is not worse than the start by more than a margin, by the noise of clicks, at any look.

        gain − z · error ≥ −margin · value of the start,    z = Φ⁻¹(1 − level of the look)

    The levels of all looks add up to `level`, so the probability that the rule ever deploys a policy that is
    worse by more than the margin is at most `level`, however the looks depend on each other and on what was
    deployed before.

    Attributes:
        level: the probability of ever deploying a policy that is worse by more than the margin.
        looks: the number of looks, each of which gets the same part of the level; or ``any``: look i gets
            ``level · 10 / ((i + 9) (i + 10))``, so that the first ten get half of it.
        margin: the largest loss to tolerate, as a share of the value of the start.
        estimate: ``calibrated``: by the guess of relevance, as clicks correct it (`calibrated_gain`); or
            ``unbiased``: by the clicks on each document alone (`HeldOutClicks`), which assumes nothing about
            documents that were hardly ever shown, and needs many more clicks.

    Example:
        >>> rule = ClickNoise(looks=20, margin=0.0)
        >>> rule.caution(1).__round__(3)  # Φ⁻¹(1 − 0.05 / 20)
        2.807
        >>> gain = Gain(0.03, click_error=0.01, observed_error=0.01, query_error=0.01, by_guess=0.02)
        >>> print(rule.decide(gain, value=1.0, look=1))
        better: +0.0300, from +0.0019 to +0.0581 (required +0.0000, look 1)
    """

    name: ClassVar[str] = "click-noise"
    level: float = 0.05
    looks: int | Literal["any"] = "any"
    margin: float = 0.01
    estimate: Literal["calibrated", "unbiased"] = "calibrated"

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 0.5:
            raise BadNameError(f"{self.name}: the level is above 0 and below 0.5, got {self.level}")
        if self.looks != "any" and self.looks < 1:
            raise BadNameError(f"{self.name}: looks is at least 1, or any, got {self.looks}")
        if not 0.0 <= self.margin < 1.0:
            raise BadNameError(f"{self.name}: the margin is at least 0 and below 1, got {self.margin}")

    def level_at(self, look: int) -> float:
        """Return the part of the level that a look may spend; 0 once all looks are used up."""
        if look < 1:
            raise RankloopError(f"looks are numbered from 1, got {look}")
        if self.looks == "any":
            return self.level * EARLY_LOOKS / ((look + EARLY_LOOKS - 1) * (look + EARLY_LOOKS))
        return self.level / self.looks if look <= self.looks else 0.0

    def caution(self, look: int) -> float:
        """Return the number of standard errors that are subtracted from a gain at this look."""
        return tail_quantile(self.level_at(look))

    def gain(self, clicks: HeldOutClicks, new: Float64, old: Float64, look: int) -> Gain:
        """Estimate the gain by the guess as clicks calibrate it, or by the clicks alone."""
        if self.estimate == "calibrated":
            return calibrated_gain(clicks, new, old)
        return clicks.gain(clicks.capped(new - old, self.caution(look)))

    def interval(self, gain: Gain, look: int) -> tuple[float, float]:
        """The gain, and as many standard errors to either side as the level of the look asks for."""
        half = self.caution(look) * gain.error
        return gain.value - half, gain.value + half

    @property
    def tolerated(self) -> float:
        """The margin."""
        return self.margin


@register
@dataclass(frozen=True)
class StandardErrors(EvidenceRule):
    """Deploy what gains more than a number of standard errors over queries, at each look by itself.

    Attributes:
        number: of standard errors.
    """

    name: ClassVar[str] = "standard-errors"
    number: float = 3.0

    def __post_init__(self) -> None:
        if self.number < 0.0:
            raise BadNameError(f"{self.name}: the number is at least 0, got {self.number}")

    def gain(self, clicks: HeldOutClicks, new: Float64, old: Float64, look: int) -> Gain:  # noqa: ARG002
        """Estimate the gain by the clicks alone."""
        return clicks.gain(new - old)

    def interval(self, gain: Gain, look: int) -> tuple[float, float]:  # noqa: ARG002
        """The gain, and a number of standard errors over queries to either side."""
        half = self.number * gain.query_error
        return gain.value - half, gain.value + half

    def level_at(self, look: int) -> float:  # noqa: ARG002
        """The probability of as many standard errors, at each look by itself."""
        return tail_probability(self.number)


@register
@dataclass(frozen=True)
class Off(EvidenceRule):
    """Deploy every policy that is learned."""

    name: ClassVar[str] = "off"

    def gain(self, clicks: HeldOutClicks, new: Float64, old: Float64, look: int) -> Gain:  # noqa: ARG002
        """Estimate the gain by the guess as clicks calibrate it."""
        return calibrated_gain(clicks, new, old)

    def interval(self, gain: Gain, look: int) -> tuple[float, float]:  # noqa: ARG002
        """The gain, as if it were certain."""
        return gain.value, gain.value

    def level_at(self, look: int) -> float:  # noqa: ARG002
        """Certainly: nothing is required."""
        return 1.0

    @property
    def tolerated(self) -> float:
        """Any loss."""
        return math.inf
