"""The learner: seals, learns from what is sealed, proves, and deploys or asks for it.

One step does what is due and can be interrupted anywhere. Its state is one trial, stored in the same
transaction as what follows from it; everything else is a function of the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, func, or_, select

from rankloop.errors import DataError, RankloopError
from rankloop.live.learner.clock import SteadyClock, Windows
from rankloop.live.learner.notes import (
    LEARNED,
    TRIAL,
    TRIALS,
    TRUST,
    add_entry,
    has_old_trial,
    load_note,
    load_trial,
    load_trust,
    lock_note,
    save_note,
)
from rankloop.live.learner.pages import AMOUNT, CLICKS, PageEvidence, PartViews, read_part
from rankloop.live.learner.retention import retain
from rankloop.live.learner.schedule import LastLearned
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.stages import CANARY, LIVE, WHO, full_shares, trusted_policy, with_canary
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import LiveDeployment, Share
from rankloop.live.ranking.live_policy import FALLBACK, LivePolicy
from rankloop.live.sealing import Sealed, seal
from rankloop.live.store.database import Store, read
from rankloop.live.store.parts import SEALED, count_sealed
from rankloop.live.store.policies import (
    current_deployment,
    deploy,
    load_stored_policy,
    register_as,
    roll_back,
)
from rankloop.live.store.tables import impressions, parts, policies

if TYPE_CHECKING:
    from rankloop.live.learner.learning import Learned

LOGGER = logging.getLogger("rankloop.live")
# How many times the impressions of a canary a new policy is watched before the next one is learned.
WATCHED = 3
# Failures are looked for among the last impressions; fewer are no reason to act.
RECENT, FEW_FAILURES = 2000, 20


class LiveLearner:
    """Learns from a store, step by step.

    Args:
        store: the store.
        settings: when and how to learn, and what may be deployed.
        sealing_only: whether to seal and do nothing else.
    """

    def __init__(self, store: Store, settings: LearnerSettings, *, sealing_only: bool = False) -> None:
        self.store, self.settings, self.sealing_only = store, settings, sealing_only
        self._policies: dict[str, LivePolicy] = {}
        self._clock = SteadyClock()
        self._windows = Windows(settings.window, self._clock.now)

    def step(self) -> list[str]:
        """Do what is due, and say what was done."""
        done = [
            f"sealed part {part.number}: {part.impressions:,} impressions, {part.clicks:,} clicks"
            for part in self._seal()
        ]
        if not self.sealing_only:
            done += self._end_old()
            done += self._watch()
            done += self._advance()
            done += self._learn()
        done += retain(self.store, self.settings, now=self._clock.now(), counted=self._counted())
        return done

    def _seal(self) -> list[Sealed]:
        """Seal what is older than the window in which events count."""
        number = impressions.c.number
        with read(self.store) as connection:
            last = connection.scalar(select(func.max(number))) or 0
        closed = self._windows.look(last)
        old = and_(number <= closed.known, impressions.c.time < closed.before)
        return seal(self.store, or_(number <= closed.through, old), now=self._clock.now())

    @property
    def trial(self) -> LiveTrial | None:
        """The trial that is going on."""
        with read(self.store) as connection:
            return load_trial(connection)

    @contextmanager
    def _turn(self) -> Iterator[Connection]:
        """A transaction in which no other learner decides anything, should two run by mistake.

        What a decision rests on is read within it, or compared with what is stored by now.
        """
        with self.store.engine.begin() as connection:
            lock_note(connection, TRIAL)
            yield connection

    def _counted(self) -> int | None:
        """The last part that the trial has counted; None if no trial needs any."""
        trial = None if self.sealing_only else self.trial
        return None if trial is None else trial.part

    def _watch(self) -> list[str]:
        """Roll back if what is live fails, or answers too late, too often."""
        with self._turn() as connection:
            current = current_deployment(connection)
            if current is None:
                return []
            failed, of = recent_failures(connection, current.number)
            worst = max(failed, key=failed.__getitem__, default="")
            count, asked = failed.get(worst, 0), of.get(worst, 0)
            if count < FEW_FAILURES or count <= self.settings.failures * asked:
                return []
            why = f"{worst} failed or was too slow in {count} of {asked} requests"
            numbers = {"failed": count, "requests": asked}
            try:
                roll_back(connection, who=WHO, why=why, numbers=numbers)
            except RankloopError as error:
                return [f"{why}, but {error}"]
            trial = load_trial(connection)
            if trial is not None and trial.candidate == worst:
                save_note(connection, TRIAL, None)
            add_entry(connection, "rollback", f"rolled back: {why}", numbers)
        return [f"rolled back: {why}"]

    def _advance(self) -> list[str]:
        """Count new parts in the trial, and take the step that the evidence allows."""
        trial = before = self.trial
        if trial is None or before is None:
            return []
        with read(self.store) as connection:
            new = list(
                connection.scalars(
                    select(parts.c.number)
                    .where(parts.c.state == SEALED, parts.c.number > trial.part)
                    .order_by(parts.c.number)
                )
            )
            trust = current_trust(connection, trial.part, trial)
        for number in new:
            views = self.read(number)
            if trial.metric == CLICKS and views.metric == AMOUNT:
                return self._end_other_metric(before)
            trial, trust = self.count(trial, trust, views)
        if new:
            with self._turn() as connection:
                if load_trial(connection) != before:
                    return []
                save_note(connection, TRIAL, trial.to_dict())
                save_note(connection, TRUST, trust.to_dict())
        return self._act(trial)

    def read(self, number: int) -> PartViews:
        """What the pages of a sealed part showed, and what users did there."""
        with read(self.store) as connection:
            return read_part(connection, number)

    def count(self, trial: LiveTrial, trust: Trust, views: PartViews) -> tuple[LiveTrial, Trust]:
        """The trial and the trust after one more part."""
        evidence = PageEvidence(trial.assumed_bias, trial.mean, self._policy, trial.metric, trial.unit)
        gains = evidence.gains(views, self._policy(trial.candidate), self._policy(trial.baseline))
        differences = evidence.differences(views, trial.candidate, trial.baseline)
        served = sum(view.policy == trial.candidate for view in views.views)
        agreement = evidence.agreement(views, self._policy(trust.policy))
        return trial.after(views.number, gains, differences, served), trust.after(views.number, agreement)

    def _end_other_metric(self, trial: LiveTrial) -> list[str]:
        """End a trial by clicks, since actions carry amounts now."""
        why = "actions carry amounts now, and it was learned and compared by clicks"
        with self._turn() as connection:
            if load_trial(connection) != trial:
                return []
            # What is learned next is learned from the amounts: do not wait until the log has doubled.
            save_note(connection, LEARNED, None)
            return [self._end(connection, trial.candidate, why, trial.numbers())]

    def _end_old(self) -> list[str]:
        """End a trial that another version stored in a form which this one does not read."""
        with self._turn() as connection:
            if not has_old_trial(connection):
                return []
            candidate = str(load_note(connection, TRIAL).get("candidate", "an earlier policy"))
            return [self._end(connection, candidate, "another version of rankloop began it", {})]

    def _end(self, connection: Connection, candidate: str, why: str, numbers: dict[str, Any]) -> str:
        """End a trial without a decision: a canary is taken back, and what is fully deployed stays."""
        text = f"the trial of {candidate} ended: {why}"
        current = current_deployment(connection)
        if current is not None and any(
            share.policy == candidate and share.role == CANARY for share in current.shares
        ):
            self._deploy_without(connection, current, candidate, text, numbers)
        save_note(connection, TRIAL, None)
        add_entry(connection, "ended", text, numbers)
        return text

    def _act(self, trial: LiveTrial) -> list[str]:
        with self._turn() as connection:
            current = current_deployment(connection)
            if current is None or load_trial(connection) != trial:
                return []
            trust = current_trust(connection, trial.part, trial)
            room = trust.room(current, trial.baseline, self.settings)
            step = trial.next_step(self.settings, room)
            if step == "wait" or (step == "widen" and current.who != WHO):
                return self._follow(connection, trial, current)
            numbers = {**trial.numbers(), "allowed": room.allowed}
            gain = trial.gained
            ends = f"[{gain.lower:+.4f}, {gain.upper:+.4f}]"
            words = f"{gain.estimate:+.4f} {trial.metric} per impression, {ends}"
            if step == "propose":
                text = f"{trial.candidate} is better than {trial.baseline}: {words}"
                save_note(connection, TRIAL, replace(trial, proposed=True).to_dict())
            elif step == "canary":
                shares = with_canary(
                    current, trial, self.settings.canary, trusted=trust.policy, allowed=room.allowed
                )
                text = f"{trial.candidate} serves {shares[-1].share:.0%} of the traffic: {words}"
                self._deploy(connection, shares, step, text, numbers)
                save_note(connection, TRIAL, replace(trial, stage="canary").to_dict())
            elif step in ("full", "widen"):
                shares = full_shares(
                    connection, trial, self.settings, trusted=trust.policy, allowed=room.allowed
                )
                text = f"{trial.candidate} is live with {shares[0].share:.0%} of the traffic: {words}"
                self._deploy(connection, shares, step, text, numbers)
                save_note(connection, TRIAL, replace(trial, stage="full").to_dict())
            else:
                text = f"{trial.candidate} does harm and was rolled back"
                self._deploy_without(connection, current, trial.candidate, text, numbers)
                save_note(connection, TRIAL, None)
            add_entry(connection, step, text, numbers)
        return [text]

    def _follow(self, connection: Connection, trial: LiveTrial, current: LiveDeployment) -> list[str]:
        """Notice when a person deployed the candidate, or took it or its baseline away."""
        shares = {share.policy: share for share in current.shares}
        live = trial.candidate in shares and shares[trial.candidate].role == LIVE
        if live and trial.stage == "shadow":
            save_note(connection, TRIAL, replace(trial, stage="full").to_dict())
            return [f"{trial.candidate} was deployed by {current.who}"]
        gone = trial.baseline not in shares and not live
        if gone or (trial.stage != "shadow" and trial.candidate not in shares):
            save_note(connection, TRIAL, None)
            return [f"the trial of {trial.candidate} ended: what is live was changed"]
        return []

    def _learn(self) -> list[str]:
        """Learn a policy if the log has grown enough, and no trial would be disturbed."""
        trial, now = self.trial, self._clock.now()
        with read(self.store) as connection:
            learned_from = LastLearned(count_sealed(connection), count_sealed(connection, held=True), now)
            last = LastLearned.from_note(load_note(connection, LEARNED))
            current = current_deployment(connection)
        if current is None or learned_from.sealed < self.settings.least:
            return []
        if last is not None and not last.is_past(learned_from.sealed, now, self.settings):
            return []
        if trial is not None and trial.stage == "canary":
            return []
        if (
            trial is not None
            and trial.stage == "full"
            and trial.served < WATCHED * self.settings.canary_impressions
        ):
            # It was deployed a moment ago: harm would show now.
            return []
        if trial is not None and trial.stage == "shadow" and trial.gained.deploy:
            # Proven, and a person was asked: it stays what it is.
            return []
        # Loads engines and models that nothing else here needs.
        from rankloop.live.learner.learning import learn

        try:
            learned = learn(self.store.log, self.settings)
        except (DataError, RankloopError) as error:
            with self._turn() as connection:
                save_note(connection, LEARNED, learned_from.to_dict())
                add_entry(connection, "not learned", f"nothing was learned: {error}", {})
            return [f"nothing was learned: {error}"]
        return self._begin(learned, trial, learned_from)

    def _begin(self, learned: Learned, before: LiveTrial | None, learned_from: LastLearned) -> list[str]:
        with self._turn() as connection:
            current = current_deployment(connection)
            if current is None or load_trial(connection) != before:
                return []
            number = (load_note(connection, TRIALS) or 0) + 1
            policy = register_as(connection, replace(learned.policy, name=f"learned-{number}"), WHO)
            baseline = max(current.shares, key=lambda share: share.share).policy
            last = connection.scalar(select(func.max(parts.c.number))) or 0
            trial = LiveTrial.begin(
                number,
                policy.name,
                baseline,
                bias=learned.bias,
                mean=learned.mean,
                part=last,
                settings=self.settings,
                metric=learned.metric,
                unit=learned.unit,
                first=learned.first,
            )
            save_note(connection, TRIAL, trial.to_dict())
            # Earlier parts have served to learn the bias, by which the following ones are judged.
            trust = replace(current_trust(connection, last, trial), part=last)
            save_note(connection, TRUST, trust.to_dict())
            save_note(connection, TRIALS, number)
            save_note(connection, LEARNED, learned_from.to_dict())
            text = (
                f"{policy.name} was learned from {learned_from.held:,} impressions; it is compared with "
                f"{baseline} in shadow, by {learned.metric}"
            )
            add_entry(connection, "learned", text, learned.numbers)
        return [text]

    def _deploy(
        self, connection: Connection, shares: Sequence[Share], kind: str, why: str, numbers: dict[str, Any]
    ) -> None:
        deploy(connection, shares, who=WHO, why=why, kind=kind, numbers=numbers)

    def _deploy_without(
        self,
        connection: Connection,
        current: LiveDeployment,
        candidate: str,
        why: str,
        numbers: dict[str, Any],
    ) -> None:
        """Roll back, if what is live is what the trial deployed; otherwise take the candidate out."""
        if current.who == WHO:
            roll_back(connection, who=WHO, why=why, numbers=numbers)
            return
        left = [share for share in current.shares if share.policy != candidate]
        total = sum(share.share for share in left)
        if left and total < 1.0:
            kept = [replace(share, share=share.share / total) for share in left]
            deploy(connection, kept, who=WHO, why=why, kind="rollback", numbers=numbers)

    def _policy(self, name: str) -> LivePolicy:
        if name not in self._policies:
            with read(self.store) as connection:
                self._policies[name] = load_stored_policy(connection, name)
        return self._policies[name]


def current_trust(connection: Connection, part: int, trial: LiveTrial) -> Trust:
    """The policy that a person deployed last, and how far users agree with it by the metric of a trial.

    Without evidence, from this part on, if that policy or the metric is another now.
    """
    trusted, stored = trusted_policy(connection), load_trust(connection)
    if stored is not None and (stored.policy, stored.metric) == (trusted, trial.metric):
        return stored
    return Trust.begin(trusted, part, metric=trial.metric, first=trial.gain.first)


def recent_failures(connection: Connection, deployment: int) -> tuple[dict[str, int], dict[str, int]]:
    """By policy, failures and requests among the last impressions of a deployment."""
    rows = connection.execute(
        select(impressions.c.rules, impressions.c.policy, impressions.c.deployment)
        .order_by(impressions.c.number.desc())
        .limit(RECENT)
    ).all()
    failed: dict[str, int] = {}
    asked: dict[str, int] = {}
    names = _names(connection)
    for row in rows:
        if row.deployment != deployment:
            continue
        name = names[row.policy]
        if name == FALLBACK:
            name = json.loads(row.rules).get("failed", (FALLBACK,))[0]
            failed[name] = failed.get(name, 0) + 1
        asked[name] = asked.get(name, 0) + 1
    return failed, asked


def _names(connection: Connection) -> dict[int, str]:
    return {row.number: row.name for row in connection.execute(select(policies.c.number, policies.c.name))}
