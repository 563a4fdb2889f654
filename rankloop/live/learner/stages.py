"""The shares of each stage of a trial: canary, and full."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.ranking.deployment import LiveDeployment, Share
from rankloop.live.store.policies import history, load_stored_policy, register_policy

WHO = "learner"
LIVE, EXPLORE, CANARY, HOLDOUT = "live", "explore", "canary", "holdout"


def full_shares(connection: Connection, trial: LiveTrial, settings: LearnerSettings) -> list[Share]:
    """The candidate with most of the traffic, its softened form, and the baseline as a holdout.

    The softened form explores: it draws from the same scores, less sharply. The holdout makes harm visible.
    The last policy that a person deployed keeps what learned policies may not get.
    """
    policy = load_stored_policy(connection, trial.candidate)
    shares = []
    if settings.explore:
        soft = policy.scale * float(policy.details.get("soft", 1.0))
        explorer = replace(policy, name=f"{policy.name}-explore", scale=soft, number=0)
        register_policy(connection, explorer, WHO)
        shares.append(Share(explorer.name, settings.explore, EXPLORE))
    kept = {trial.baseline: settings.holdout}
    trusted = _trusted(connection)
    if trusted is not None and settings.most < 1.0:
        kept[trusted] = max(kept.get(trusted, 0.0), 1.0 - settings.most)
    total = sum(kept.values())
    shares = [replace(share, share=share.share * (1.0 - total)) for share in shares]
    shares += [Share(name, share, HOLDOUT) for name, share in kept.items() if share > 0.0]
    return [Share(policy.name, 1.0 - sum(share.share for share in shares), LIVE), *shares]


def _trusted(connection: Connection) -> str | None:
    """The main policy of the last deployment that a person made; None if there was none."""
    for one in history(connection, 1000):
        if one.who != WHO:
            return max(one.shares, key=lambda share: share.share).policy
    return None


def with_canary(current: LiveDeployment, trial: LiveTrial, share: float) -> list[Share]:
    """What is live, with a share for the candidate that the others give up in proportion."""
    others = [each for each in current.shares if each.policy != trial.candidate]
    total = sum(each.share for each in others)
    kept = [replace(each, share=each.share * (1.0 - share) / total) for each in others]
    return [*kept, Share(trial.candidate, 1.0 - sum(each.share for each in kept), CANARY)]
