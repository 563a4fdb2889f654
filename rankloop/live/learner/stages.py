"""The shares of each stage of a trial, canary and full, and what is restored if a policy has to go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from rankloop.live.learner.monitor import main_share
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.ranking.deployment import CANARY, EXPLORE, HOLDOUT, LIVE, LiveDeployment, Share
from rankloop.live.store.policies import RESTORES, history, load_stored_policy, register_as

WHO = "learner"


def full_shares(
    connection: Connection,
    trial: LiveTrial,
    settings: LearnerSettings,
    *,
    trusted: str = "",
    allowed: float = 1.0,
) -> list[Share]:
    """The candidate with most of what learned policies may get, its softened form, and what others keep.

    The softened form explores: it draws from the same scores, less sharply. The baseline is a holdout, which
    makes harm visible.

    Args:
        connection: within a transaction.
        trial: the trial of the candidate.
        settings: the shares.
        trusted: the policy that keeps what learned policies may not get.
        allowed: the share that learned policies may get.
    """
    policy = load_stored_policy(connection, trial.candidate)
    kept = {trial.baseline: settings.holdout}
    if trusted not in ("", trial.candidate):
        kept[trusted] = max(kept.get(trusted, 0.0), 1.0 - allowed)
    left = 1.0 - sum(kept.values())
    shares = [Share(name, share, HOLDOUT) for name, share in kept.items() if share > 0.0]
    if settings.explore:
        soft = policy.scale * float(policy.details.get("soft", 1.0))
        explorer = replace(policy, name=explorer_name(policy.name), scale=soft, number=0)
        explorer = register_as(connection, explorer, WHO)
        shares.insert(0, Share(explorer.name, settings.explore * left, EXPLORE))
    return [Share(policy.name, 1.0 - sum(share.share for share in shares), LIVE), *shares]


def trusted_policy(connection: Connection) -> str:
    """The main policy of the last deployment that a person made; empty if there was none."""
    for one in history(connection, None):
        if one.who != WHO:
            return max(one.shares, key=lambda share: share.share).policy
    return ""


def with_canary(
    current: LiveDeployment, trial: LiveTrial, share: float, *, trusted: str = "", allowed: float = 1.0
) -> list[Share]:
    """What is live, with a share for the candidate that the others give up in proportion.

    A trusted policy keeps at least what learned policies may not get.
    """
    others = {each.policy: each for each in current.shares if each.policy != trial.candidate}
    share = min(share, allowed)
    total = sum(each.share for each in others.values())
    kept = {name: each.share * (1.0 - share) / total for name, each in others.items()}
    least = min(1.0 - allowed, 1.0 - share)
    if trusted in kept and kept[trusted] < least:
        rest = sum(kept.values()) - kept[trusted]
        for name in kept:
            kept[name] = least if name == trusted else kept[name] * (1.0 - share - least) / rest
    shares = [replace(others[name], share=each) for name, each in kept.items() if each > 0.0]
    return [*shares, Share(trial.candidate, 1.0 - sum(each.share for each in shares), CANARY)]


@dataclass(frozen=True)
class Restored:
    """What is deployed if a policy is taken away.

    Attributes:
        shares: the policies that stay, or come back.
        number: the deployment that is restored; None if the others only take over the share.
    """

    shares: tuple[Share, ...]
    number: int | None = None


def without_policy(
    connection: Connection, current: LiveDeployment, policy: str, heir: str = ""
) -> Restored | None:
    """What is left if a policy and what explores with it go; None if nothing is.

    Others take over the share of a canary. If what is live goes, the last deployment without it is restored
    in which the heir was live, and without such a deployment the heir serves everybody.

    Args:
        connection: within a transaction.
        current: what is live.
        policy: the policy that goes.
        heir: the policy that was found to be better, if there is one.
    """
    main = main_share(current.shares)
    gone = {policy, explorer_name(policy)}
    if policy == main.policy:
        gone |= {share.policy for share in current.shares if share.role == EXPLORE}
    left = [share for share in current.shares if share.policy not in gone]
    if policy != main.policy and left:
        return Restored(_scaled(left))
    for one in history(connection, None):
        earlier = one.number < current.number and not gone & {share.policy for share in one.shares}
        if earlier and heir in ("", main_share(one.shares).policy):
            return Restored(one.shares, int(one.numbers.get(RESTORES, one.number)))
    if heir:
        return Restored((Share(heir, 1.0, LIVE),))
    return Restored(_scaled(left)) if left else None


def _scaled(shares: Sequence[Share]) -> tuple[Share, ...]:
    total = sum(share.share for share in shares)
    return tuple(replace(share, share=share.share / total) for share in shares)


def explorer_name(policy: str) -> str:
    """The name of the softened form of a learned policy."""
    return f"{policy}-explore"
