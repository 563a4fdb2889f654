"""What people decide, and how it binds the learner: one transaction per decision, with its record.

A person who deploys or rolls back holds what is live: the learner goes on learning and asking, and changes
nothing until a person lets it. A paused learner does not learn, either. Both are said on the page, with who
and why, and stay in the diary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from rankloop.errors import RankloopError
from rankloop.live.learner.notes import (
    CONTROL,
    TRIAL,
    add_entry,
    load_note,
    load_trial,
    save_note,
)
from rankloop.live.learner.stages import WHO, without_policy
from rankloop.live.ranking.deployment import CANARY, LiveDeployment, Share
from rankloop.live.store.policies import (
    FROM,
    RESTORES,
    ROLLBACK,
    current_deployment,
    deploy,
    lock_deployments,
    roll_back,
)
from rankloop.storage.plain import from_plain, to_plain


@dataclass(frozen=True)
class Control:
    """What people decided about the learner.

    Attributes:
        held: the number of the deployment that a person decided on, and that only a person changes; 0 if
            there is none.
        paused: whether the learner neither learns nor deploys.
        who: who decided last.
        why: the reason.
    """

    held: int = 0
    paused: bool = False
    who: str = ""
    why: str = ""

    def holds(self, deployment: LiveDeployment) -> bool:
        """Whether a person decided that this is live."""
        return self.held == deployment.number

    @property
    def state(self) -> str:
        """In one word."""
        return "paused" if self.paused else "held" if self.held else "free"

    @classmethod
    def load(cls, connection: Connection) -> Control:
        """What people decided so far."""
        stored = load_note(connection, CONTROL)
        return cls() if stored is None else from_plain(cls, stored, "what people decided")

    def save(self, connection: Connection) -> None:
        """Store what people decided now."""
        save_note(connection, CONTROL, to_plain(self))


def deploy_as_person(
    connection: Connection,
    shares: Sequence[Share],
    *,
    who: str,
    why: str,
    hold: bool,
    numbers: Mapping[str, Any] | None = None,
) -> LiveDeployment:
    """Deploy what a person decided on, and hold it unless it is left to the learner."""
    return _bound(connection, deploy(connection, shares, who=who, why=why, numbers=numbers), hold)


def roll_back_as_person(
    connection: Connection, *, who: str, why: str, hold: bool, to: int | None = None
) -> LiveDeployment:
    """Restore an earlier deployment, as a person decided, and hold it unless it is left to the learner."""
    return _bound(connection, roll_back(connection, who=who, why=why, to=to), hold)


def _bound(connection: Connection, done: LiveDeployment, hold: bool) -> LiveDeployment:
    control = Control.load(connection)
    held = done.number if hold else 0
    replace(control, held=held, who=done.who, why=done.why).save(connection)
    return done


def pause(connection: Connection, *, who: str, why: str) -> Control:
    """Let the learner neither learn nor deploy, until it is resumed."""
    return _decided(connection, replace(Control.load(connection), paused=True, who=who, why=why), "paused")


def resume(connection: Connection, *, who: str, why: str) -> Control:
    """Let the learner learn, and change what a person decided on."""
    return _decided(connection, Control(who=who, why=why), "resumed")


def _decided(connection: Connection, control: Control, word: str) -> Control:
    control.save(connection)
    text = f"{control.who} {word} the learner: {control.why}"
    add_entry(connection, word, text, {"who": control.who, "why": control.why})
    return control


def end_trial_as_person(connection: Connection, *, who: str, why: str) -> str:
    """End the trial that is going on: a canary is taken back, and what is live stays.

    Raises:
        RankloopError: nothing is on trial.
    """
    trial = load_trial(connection)
    if trial is None:
        raise RankloopError("nothing is on trial: there is nothing to end")
    numbers = {**trial.numbers(), "who": who}
    return end_trial(connection, trial.candidate, f"{who} ended it: {why}", numbers, person=True)


def end_trial(
    connection: Connection, candidate: str, why: str, numbers: Mapping[str, Any], *, person: bool = False
) -> str:
    """End a trial without a decision: a canary is taken back, and what is fully deployed stays.

    A canary that a person decided on stays, too, unless a person ends its trial.
    """
    lock_deployments(connection)
    text = f"the trial of {candidate} ended: {why}"
    current = current_deployment(connection)
    if current is not None and any(
        share.policy == candidate and share.role == CANARY for share in current.shares
    ):
        if not person and Control.load(connection).holds(current):
            text += f"; {current.who} decided on what is live, so it stays"
        else:
            take_away(connection, current, candidate, why=text, numbers=numbers)
    save_note(connection, TRIAL, None)
    add_entry(connection, "ended", text, dict(numbers))
    return text


def take_away(
    connection: Connection,
    current: LiveDeployment,
    policy: str,
    *,
    why: str,
    numbers: Mapping[str, Any],
    heir: str = "",
) -> LiveDeployment | None:
    """Deploy what is left without a policy; None if nothing else can be served.

    The rest of what a person held stays held.
    """
    restored = without_policy(connection, current, policy, heir)
    if restored is None:
        return None
    content = {**numbers, FROM: current.number}
    if restored.number is not None:
        content[RESTORES] = restored.number
    return deploy_instead(connection, current, restored.shares, why=why, kind=ROLLBACK, numbers=content)


def deploy_instead(
    connection: Connection,
    current: LiveDeployment,
    shares: Sequence[Share],
    *,
    why: str,
    kind: str,
    numbers: Mapping[str, Any],
) -> LiveDeployment:
    """Deploy, as the learner, what takes the place of something; what a person held of it stays held."""
    done = deploy(connection, shares, who=WHO, why=why, kind=kind, numbers=numbers)
    control = Control.load(connection)
    if control.holds(current):
        replace(control, held=done.number).save(connection)
    return done


def may_take_away(control: Control, current: LiveDeployment, policy: str) -> bool:
    """Whether a harmful policy may go without a person: any that no person decided on, and any canary.

    Who deploys a canary wants to know whether it does harm; who deploys a policy fully has decided.
    """
    roles = {share.policy: share.role for share in current.shares}
    return not control.holds(current) or roles.get(policy) == CANARY
