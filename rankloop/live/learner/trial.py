"""A trial: a learned policy on its way from shadow over canary to full, with the evidence so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from rankloop.evidence import AsymptoticSequence
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trust import Room
from rankloop.types import ASSUMED, Bias, BiasEvidence, Float64

Stage = Literal["shadow", "canary", "full"]
Step = Literal["wait", "propose", "canary", "full", "widen", "stop"]
# Rare large increments need a late first look.
FIRST_LOOK = 300


@dataclass(frozen=True)
class LiveTrial:
    """The state of a trial; a value, stored as JSON.

    Attributes:
        number: how many trials there were before, plus one.
        candidate: the name of the learned policy.
        baseline: the name of the policy that is compared with.
        bias: α and β by rank, as they were assumed when the trial began.
        mean: the guess of the mean relevance.
        since: the part of the log after which it began.
        part: the last part of the log that was counted; a part is counted once.
        gain: the gain in clicks per impression, by all clicks since the trial began.
        arms: the difference in clicks between the two policies, while both are live.
        stage: ``shadow``, ``canary`` or ``full``.
        served: impressions that the candidate served.
        proposed: whether a person was asked to deploy it.
    """

    number: int
    candidate: str
    baseline: str
    bias: Mapping[str, Any]
    mean: float
    since: int
    part: int
    gain: AsymptoticSequence
    arms: AsymptoticSequence
    stage: Stage = "shadow"
    served: int = 0
    proposed: bool = False

    @classmethod
    def begin(
        cls,
        number: int,
        candidate: str,
        baseline: str,
        *,
        bias: Bias,
        mean: float,
        part: int,
        settings: LearnerSettings,
    ) -> LiveTrial:
        """A trial without any evidence, from the next part on."""
        known = {"alpha": bias.alpha.tolist(), "beta": bias.beta.tolist(), "estimated": bias.is_estimated}
        level = spent_level(settings.level, number)
        return cls(
            number,
            candidate,
            baseline,
            known,
            mean,
            part,
            part,
            AsymptoticSequence(level=level, first=FIRST_LOOK, tight_at=5_000),
            AsymptoticSequence(level=settings.level, first=FIRST_LOOK, tight_at=5_000),
        )

    @property
    def assumed_bias(self) -> Bias:
        """How users click, as it was assumed when the trial began."""
        alpha = self.bias["alpha"]
        evidence = BiasEvidence("pairs" if self.bias["estimated"] else ASSUMED)
        return Bias(np.array(alpha), np.array(self.bias["beta"]), np.ones(len(alpha)), evidence)

    def after(self, part: int, gains: Float64, differences: Float64, served: int) -> LiveTrial:
        """The trial after one more part; a part that was counted before changes nothing."""
        if part <= self.part:
            return self
        return replace(
            self,
            part=part,
            gain=self.gain.add(gains),
            arms=self.arms.add(differences),
            served=self.served + served,
        )

    def next_step(self, settings: LearnerSettings, room: Room | None = None) -> Step:
        """What the evidence allows, or demands.

        A canary needs a gain that is certain by the clicks so far. Full traffic needs that still, enough
        impressions of the canary, and no harm between the arms. Harm in either is a reason to stop.

        Args:
            settings: what may be deployed, and when.
            room: the traffic that learned policies may get; None for all of it.
        """
        if self.arms.upper < 0.0 or (self.stage == "canary" and self.gain.upper < 0.0):
            return "wait" if self.stage == "shadow" else "stop"
        if self.gain.lower <= 0.0:
            return "wait"
        if self.stage == "full":
            return "widen" if settings.deploy == "auto" and room is not None and room.grows else "wait"
        if settings.deploy == "ask":
            return "wait" if self.proposed else "propose"
        if self.stage == "shadow":
            return "canary"
        enough = self.served >= settings.canary_impressions
        return "full" if enough and (room is None or room.exceeds(settings.canary)) else "wait"

    def numbers(self) -> dict[str, Any]:
        """The evidence for people and for the history of deployments."""
        return {
            "candidate": self.candidate,
            "baseline": self.baseline,
            "stage": self.stage,
            "served": self.served,
            "gain": _interval(self.gain),
            "arms": _interval(self.arms),
        }

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return {**self.__dict__, "gain": self.gain.to_dict(), "arms": self.arms.to_dict()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LiveTrial:
        """The trial that `to_dict` stored."""
        sequences = {name: AsymptoticSequence.from_dict(state[name]) for name in ("gain", "arms")}
        return cls(**{**state, **sequences})


def spent_level(level: float, number: int) -> float:
    """The level of the n-th trial: the levels of all trials together sum to ``level``.

    >>> round(sum(spent_level(0.05, number) for number in range(1, 100_000)), 4)
    0.05
    """
    return level * 6.0 / (math.pi * number) ** 2


def _interval(sequence: AsymptoticSequence) -> dict[str, Any]:
    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "mean": finite(sequence.mean),
        "lower": finite(sequence.lower),
        "upper": finite(sequence.upper),
        "impressions": sequence.count,
        "level": sequence.level,
    }
