"""Rules of evidence: whether a learned policy may replace the one it started from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from scipy.special import ndtr, ndtri

from rankloop.errors import RankloopError
from rankloop.evidence.calibrated_gain import calibrated_gain
from rankloop.evidence.debiased_clicks import DebiasedClicks, Gain
from rankloop.names import BadNameError
from rankloop.registry import Named, Registry, register
from rankloop.types import Float64

# If the number of looks is not known, this many get half of the level.
EARLY_LOOKS = 10


@dataclass(frozen=True)
class Decision:
    """What a rule concludes, with its numbers.

    Attributes:
        deploy: whether the new policy may be deployed.
        gain: the estimated gain over the start, per impression.
        error: its standard error.
        lower: the lower bound of the gain that the rule relies on.
        required: the bound that is required.
        look: the number of the look at the evidence, from 1.
        level: the probability that this look deploys a policy whose true gain is below what is required.
    """

    deploy: bool
    gain: float
    error: float
    lower: float
    required: float
    look: int
    level: float

    def __str__(self) -> str:
        verdict = "deploy" if self.deploy else "keep"
        return (
            f"{verdict}: gain {self.gain:+.4f} ± {self.error:.4f}, at least {self.lower:+.4f} "
            f"(required {self.required:+.4f}, look {self.look})"
        )


class EvidenceRule(Named, ABC):
    """A rule that decides whether the estimated gain of a policy is enough to deploy it.

    Rules are frozen dataclasses whose fields are the options of their name: ``str(rule)`` is the canonical
    name, and `rankloop.evidence.evidence` reads it back.
    """

    @abstractmethod
    def gain(self, clicks: DebiasedClicks, new: Float64, old: Float64, look: int) -> Gain:
        """Estimate the gain of a policy in the way that the rule judges.

        Args:
            clicks: of queries that neither policy was trained on.
            new: items; the expected rank weights of the new policy.
            old: items; those of the start.
            look: the number of the look at the evidence, from 1.
        """

    @abstractmethod
    def judge(self, gain: Gain, value: float, look: int) -> Decision:
        """Decide on a gain.

        Args:
            gain: the estimated gain over the start.
            value: the value of the start itself, which tolerated losses are relative to.
            look: the number of the look at the evidence, from 1.
        """


EVIDENCE: Registry[EvidenceRule] = Registry("rule of evidence", EvidenceRule)


def evidence(text: str) -> EvidenceRule:
    """The rule of evidence that a name spells.

    >>> evidence("click-noise(looks=any)")
    ClickNoise(level=0.05, looks='any', margin=0.01, estimate='calibrated')
    >>> str(evidence("standard-errors"))
    'standard-errors'
    """
    return EVIDENCE.parse(text)


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
            ``unbiased``: by the clicks on each item alone (`DebiasedClicks`), which assumes nothing about
            items that were hardly ever shown, and needs many more clicks.

    Example:
        >>> rule = ClickNoise(looks=20, margin=0.0)
        >>> rule.caution(1).__round__(3)  # Φ⁻¹(1 − 0.05 / 20)
        2.807
        >>> gain = Gain(0.03, click_error=0.01, observed_error=0.01, query_error=0.01, by_guess=0.02)
        >>> print(rule.judge(gain, value=1.0, look=1))
        deploy: gain +0.0300 ± 0.0100, at least +0.0019 (required -0.0000, look 1)
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
        return float(-ndtri(self.level_at(look)))

    def gain(self, clicks: DebiasedClicks, new: Float64, old: Float64, look: int) -> Gain:
        """Estimate the gain by the guess as clicks calibrate it, or by the clicks alone."""
        if self.estimate == "calibrated":
            return calibrated_gain(clicks, new, old)
        return clicks.gain(clicks.capped(new - old, self.caution(look)))

    def judge(self, gain: Gain, value: float, look: int) -> Decision:
        """Compare the lower bound of the gain with the margin."""
        lower, required = gain.value - self.caution(look) * gain.error, -self.margin * abs(value)
        return Decision(lower >= required, gain.value, gain.error, lower, required, look, self.level_at(look))


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

    def gain(self, clicks: DebiasedClicks, new: Float64, old: Float64, look: int) -> Gain:  # noqa: ARG002
        """Estimate the gain by the clicks alone."""
        return clicks.gain(new - old)

    def judge(self, gain: Gain, value: float, look: int) -> Decision:  # noqa: ARG002
        """Compare the gain with its standard error over queries."""
        lower = gain.value - self.number * gain.query_error
        return Decision(
            lower > 0.0, gain.value, gain.query_error, lower, 0.0, look, float(ndtr(-self.number))
        )


@register
@dataclass(frozen=True)
class Off(EvidenceRule):
    """Deploy every policy that is learned."""

    name: ClassVar[str] = "off"

    def gain(self, clicks: DebiasedClicks, new: Float64, old: Float64, look: int) -> Gain:  # noqa: ARG002
        """Estimate the gain by the guess as clicks calibrate it."""
        return calibrated_gain(clicks, new, old)

    def judge(self, gain: Gain, value: float, look: int) -> Decision:  # noqa: ARG002
        """Deploy."""
        return Decision(True, gain.value, gain.error, gain.value, float("-inf"), look, 1.0)
