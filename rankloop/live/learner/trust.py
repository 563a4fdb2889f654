"""How much traffic learned policies may get without a person: the more, the more clicks agree with a person.

Clicks cannot tell whether they mean what they seem to: users who click what is irrelevant, or a join that
mixes up documents, look like users who like something else. What is known is that a person chose a policy.
As long as clicks do not say that the documents which it shows more are more relevant, learned policies get a
small share of the traffic. The others keep their ranking, so for any relevance that is not negative

    value ≥ (1 − share) · value of the person's policy
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankloop.evidence import TrustRegion
from rankloop.live.learner.metric import CLICKS, MetricName
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.statistics import AsymptoticSequence
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64

# Rare large increments need a late first look, and agreement is usually plain after a thousand pages.
FIRST_LOOK, TIGHT_AT = 300, 1_000
# By what factor the share of learned policies grows at least, so that deployments are few.
GROWTH = 2.0
ROUNDING = 1e-9


@dataclass(frozen=True)
class Room:
    """The share of the traffic that learned policies may get, and the share that they have.

    Attributes:
        allowed: what they may get without a person.
        reached: what they would have if that were deployed: a holdout may keep more.
        given: what they have.
        limit: whether more will never be allowed.
    """

    allowed: float
    reached: float
    given: float
    limit: bool

    @property
    def grows(self) -> bool:
        """Whether they may get considerably more than they have, or all that they will ever get."""
        return self.exceeds(self.given) and self.reached > self.given + ROUNDING

    def exceeds(self, share: float) -> bool:
        """Whether what they may get is considerably more than a share, or all that they will ever get."""
        return self.limit or self.reached >= GROWTH * share


def _no_evidence(first: int = FIRST_LOOK) -> AsymptoticSequence:
    return AsymptoticSequence(first=first, tight_at=TIGHT_AT)


@dataclass(frozen=True)
class Trust:
    """The policy that a person deployed last, and how far clicks agree with it; a value, stored as JSON.

    Attributes:
        policy: its name.
        part: the last part of the log that was counted; a part is counted once.
        agreement: above 0 on average if what the policy shows more is more relevant, or worth more.
        highest: the logarithm of the highest e-value so far.
        metric: what users agree by: ``clicks``, or ``amount`` for what their actions are worth.

    Example:
        >>> import numpy as np
        >>> trust, settings = Trust("start", 0), LearnerSettings()
        >>> trust.share(settings)
        0.1
        >>> agreed = trust.after(1, np.random.default_rng(0).normal(0.2, 1.0, 2_000))
        >>> agreed.share(settings)
        1.0
    """

    policy: str
    part: int
    agreement: AsymptoticSequence = field(default_factory=_no_evidence)
    highest: float = 0.0
    metric: MetricName = CLICKS

    @classmethod
    def begin(cls, policy: str, part: int, *, metric: MetricName, first: int) -> Trust:
        """Trust without any evidence; `first` is the impression of the first look."""
        return cls(policy, part, _no_evidence(first), metric=metric)

    def after(self, part: int, increments: Float64) -> Trust:
        """The state after one more part; a part that was counted before changes nothing."""
        if part <= self.part:
            return self
        agreement = self.agreement.add(increments)
        return replace(self, part=part, agreement=agreement, highest=max(self.highest, agreement.log_e_value))

    def share(self, settings: LearnerSettings) -> float:
        """The share of the traffic that learned policies may get without a person.

        If clicks do not agree with the policy, it ever exceeds c times `risk` with a probability of at most
        1/c, however often one looks.
        """
        least = min(settings.risk, settings.most)
        return TrustRegion(least, settings.most).width(self.highest) if self.highest > 0.0 else least

    def room(self, current: LiveDeployment, baseline: str, settings: LearnerSettings) -> Room:
        """What learned policies may get, where a trial compares with this baseline."""
        allowed = self.share(settings)
        kept = {each.policy: each.share for each in current.shares}.get(self.policy, 0.0)
        least = max(1.0 - allowed, settings.holdout if self.policy == baseline else 0.0)
        return Room(allowed, 1.0 - least, 1.0 - kept, allowed >= settings.most)

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Trust:
        """The state that `to_dict` stored.

        Raises:
            DataError: it has other fields than those of today.
        """
        return from_plain(cls, state, "not the state of trust of this version")
