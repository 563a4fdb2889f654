"""A trial: a learned policy on its way from shadow over canary to full, with the evidence so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from rankloop.evidence import Assumption, Decision, DecisionKind, Evidence, decide
from rankloop.evidence.rules import spent_level
from rankloop.live.learner.metric import CLICKS, MetricName
from rankloop.live.learner.monitor import Watch, thinned
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trust import Room
from rankloop.statistics import AsymptoticSequence
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import ASSUMED, Bias, BiasEvidence, Float64

Stage = Literal["shadow", "canary", "full"]
Step = Literal["wait", "propose", "canary", "full", "widen", "stop", "end"]
# Rare large increments need a late first look.
FIRST_LOOK, TIGHT_AT = 300, 5_000


class GainPoint(NamedTuple):
    """The gain of a trial after so many impressions, with its interval."""

    pages: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class LiveTrial:
    """The state of a trial; a value, stored as JSON.

    Attributes:
        number: how many trials there were before, plus one.
        candidate: the name of the learned policy.
        baseline: the name of the policy that is compared with.
        bias: how displays gain the metric, as it was assumed when the trial began: α and β by rank.
        mean: the guess of the mean relevance.
        since: the part of the log after which it began.
        part: the last part of the log that was counted; a part is counted once.
        gain: the gain per impression, by all that users did since the trial began.
        metric: what is gained: ``clicks``, or ``amount`` for what actions are worth.
        unit: what relevance 1 is worth: 1 for clicks, and the highest amount when the trial began.
        stage: ``shadow``, ``canary`` or ``full``.
        served: impressions that the candidate served.
        proposed: whether a person was asked to deploy it.
        deployment: the number of the deployment that it acts on; another one was not its doing.
        trail: the gain over time, for people.
        doubts: by the name of an assumption, what the clicks of the log contradicted when the trial began.
    """

    number: int
    candidate: str
    baseline: str
    bias: Mapping[str, Any]
    mean: float
    since: int
    part: int
    gain: AsymptoticSequence
    metric: MetricName = CLICKS
    unit: float = 1.0
    stage: Stage = "shadow"
    served: int = 0
    proposed: bool = False
    deployment: int = 0
    trail: tuple[GainPoint, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)

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
        metric: MetricName = CLICKS,
        unit: float = 1.0,
        first: int = FIRST_LOOK,
        deployment: int = 0,
        doubts: Mapping[str, str] | None = None,
    ) -> LiveTrial:
        """A trial without any evidence, from the next part on; evidence is looked at from `first` on."""
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
            AsymptoticSequence(level=level, first=first, tight_at=TIGHT_AT),
            metric,
            unit,
            deployment=deployment,
            doubts=dict(doubts or {}),
        )

    @property
    def assumed_bias(self) -> Bias:
        """How users click, as it was assumed when the trial began."""
        alpha = self.bias["alpha"]
        evidence = BiasEvidence("pairs" if self.bias["estimated"] else ASSUMED)
        return Bias(np.array(alpha), np.array(self.bias["beta"]), np.ones(len(alpha)), evidence)

    def after(self, part: int, gains: Float64, served: int) -> LiveTrial:
        """The trial after one more part; a part that was counted before changes nothing."""
        if part <= self.part:
            return self
        gain = self.gain.add(gains)
        trail = self.trail
        if math.isfinite(gain.lower):
            trail = thinned((*trail, GainPoint(gain.count, gain.mean, gain.lower, gain.upper)))
        return replace(
            self,
            part=part,
            trail=trail,
            gain=gain,
            served=self.served + served,
        )

    @property
    def gained(self) -> Decision:
        """Whether the candidate is better than the baseline, by all that users did since the trial began.

        It leans if the clicks that it was learned from contradict the model of users.
        """
        doubts = tuple(Assumption(name, "broken", text) for name, text in self.doubts.items())
        evidence = replace(Evidence.of_sequence(self.gain), assumptions=doubts)
        return decide(evidence, level=self.gain.level)

    def proven(self, watch: Watch | None) -> bool:
        """Whether the candidate is better by the lists of both policies, and every guard holds.

        The level is that of this trial, so that all trials together are wrong as rarely as one.
        """
        return (
            watch is not None
            and watch.decision(self.gain.level).kind is DecisionKind.BETTER
            and watch.guarded(self.gain.level)
        )

    def next_step(
        self, settings: LearnerSettings, room: Room | None = None, watch: Watch | None = None
    ) -> Step:
        """What the evidence allows, or demands.

        Evidence by the model of users may open a canary, or close it. More traffic needs lists: a gain that
        is certain whatever users do, guards that hold, and enough impressions of the canary. Harm by lists,
        or a guard that is known not to hold, is a reason to stop; a canary that nothing decides ends.

        Args:
            settings: what may be deployed, and when.
            room: the traffic that learned policies may get; None for all of it.
            watch: the evidence by lists of the candidate against the baseline, while both are live.
        """
        gained = self.gained.kind
        promises = gained in (DecisionKind.BETTER, DecisionKind.LEANS_BETTER)
        proven = self.proven(watch)
        harmful = watch is not None and (
            watch.decision(settings.level).kind is DecisionKind.WORSE or bool(watch.broken(settings.level))
        )
        match self.stage:
            case "canary" | "full" if harmful:
                return "stop"
            case "canary" if gained is DecisionKind.WORSE and not proven:
                return "stop"
            case "full" if proven:
                return "widen" if settings.deploy == "auto" and room is not None and room.grows else "wait"
            case "shadow" | "canary" if settings.deploy == "ask" and (
                proven or (promises and self.stage == "shadow")
            ):
                return "wait" if self.proposed else "propose"
            case "shadow" if promises:
                return "canary"
            case "canary" if proven:
                enough = self.served >= settings.canary_impressions
                return "full" if enough and (room is None or room.exceeds(settings.canary)) else "wait"
            case "canary" if watch is not None and watch.worse.count >= settings.comparison_pages:
                return "end"
            case _:
                return "wait"

    def numbers(self, watch: Watch | None = None) -> dict[str, Any]:
        """The evidence for people and for the history of deployments."""
        return {
            "candidate": self.candidate,
            "baseline": self.baseline,
            "metric": self.metric,
            "stage": self.stage,
            "served": self.served,
            "gain": _interval(self.gain),
            "lists": None if watch is None else watch.numbers(self.metric),
        }

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LiveTrial:
        """The trial that `to_dict` stored.

        Raises:
            DataError: it has other fields than those of today.
        """
        return from_plain(cls, state, "not the state of a trial of this version")


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
