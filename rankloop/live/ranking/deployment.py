"""What is live: a mixture of policies, each with its share of the traffic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankloop.errors import RankloopError
from rankloop.live.ranking.live_policy import LivePolicy

# What a policy is there for: to serve, to explore, to be tried, or to be compared with.
LIVE, EXPLORE, CANARY, HOLDOUT = "live", "explore", "canary", "holdout"
# Shares that differ from 1 by more in sum are a mistake, not rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Share:
    """A policy's share of the traffic.

    Attributes:
        policy: the name of the policy.
        share: above 0 and up to 1.
        role: what it is there for: ``live``, ``explore``, ``canary`` or ``holdout``.
    """

    policy: str
    share: float
    role: str = LIVE


@dataclass(frozen=True)
class LiveDeployment:
    """One entry of the history of deployments.

    Attributes:
        number: its number in the store.
        shares: the policies and their shares, which sum to 1.
        kind: ``deploy``, ``canary``, ``full`` or ``rollback``.
        created_at: when, in seconds since 1970.
        who: a person or a program.
        why: the reason.
        numbers: the evidence that it rests on.
    """

    number: int
    shares: tuple[Share, ...]
    kind: str
    created_at: float
    who: str
    why: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def check_shares(shares: Sequence[Share]) -> tuple[Share, ...]:
    """Shares that can be deployed, scaled to sum to 1 exactly.

    >>> [each.share for each in check_shares([Share("a", 0.75), Share("b", 0.25)])]
    [0.75, 0.25]
    """
    names = [each.policy for each in shares]
    total = math.fsum(each.share for each in shares)
    if not shares or len({*names}) < len(names):
        raise RankloopError("a deployment names at least one policy, and each only once")
    if not all(0.0 < each.share <= 1.0 for each in shares) or not abs(total - 1.0) <= ROUNDING:
        raise RankloopError(f"shares are above 0 and sum to 1; these sum to {total:g}")
    return tuple(shares)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A deployment with its policies loaded: what requests are served from.

    Attributes:
        deployment: the entry of the history.
        policies: in the order of its shares.
    """

    deployment: LiveDeployment
    policies: tuple[LivePolicy, ...]

    @property
    def ordered(self) -> bool:
        """Whether the order of the candidates matters to any of its policies."""
        return any(policy.ordered for policy in self.policies)

    def choose(self, uniform: float) -> LivePolicy:
        """The policy that a number from [0, 1) chooses: each with the probability of its share."""
        reached = 0.0
        for share, policy in zip(self.deployment.shares, self.policies, strict=True):
            reached += share.share
            if uniform < reached:
                return policy
        return self.policies[-1]
