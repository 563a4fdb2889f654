"""The learner: seals, learns from what is sealed, proves, and deploys or asks for it.

One step does what is due and can be interrupted anywhere. Its state is one trial and one monitor, stored in
the same transaction as what follows from them; everything else is a function of the log. What is live is
read in the transaction that changes it, and what a person decided on is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, func, or_, select

from rankloop.errors import RankloopError, one_line
from rankloop.live.backup import reconcile
from rankloop.live.learner.control import Control, end_trial
from rankloop.live.learner.judgement import judge, judge_failures, remove
from rankloop.live.learner.metric import MetricName, metric_of
from rankloop.live.learner.monitor import Watch, main_share
from rankloop.live.learner.notes import (
    LEARNED,
    MONITOR,
    TRIAL,
    TRIALS,
    TRUST,
    add_entry,
    has_old_trial,
    load_monitor,
    load_note,
    load_trial,
    load_trust,
    lock_note,
    save_note,
)
from rankloop.live.learner.pages import PageEvidence, PartViews, read_part
from rankloop.live.learner.retention import retain
from rankloop.live.learner.schedule import LastLearned, SteadyClock, Windows
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.stages import WHO, full_shares, trusted_policy, with_canary
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import CANARY, LiveDeployment, Share
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.sealing import Sealed, seal
from rankloop.live.store.database import Store, read
from rankloop.live.store.parts import SEALED, count_sealed
from rankloop.live.store.policies import (
    current_deployment,
    deploy,
    load_stored_policy,
    lock_deployments,
    register_as,
)
from rankloop.live.store.tables import impressions, parts

if TYPE_CHECKING:
    from rankloop.live.learner.learning import Learned

LOGGER = logging.getLogger("rankloop.live")
# How many times the impressions of a canary a new policy is watched before the next one is learned.
WATCHED = 3


class AtOnce(Executor):
    """Runs a job when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a job that has ended."""
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class LiveLearner:
    """Learns from a store, step by step.

    Args:
        store: the store.
        settings: when and how to learn, and what may be deployed.
        sealing_only: whether to seal and to watch what is live, and not to learn.
        executor: runs what takes long, so that sealing and watching go on; by default it is waited for.
    """

    def __init__(
        self,
        store: Store,
        settings: LearnerSettings,
        *,
        sealing_only: bool = False,
        executor: Executor | None = None,
    ) -> None:
        self.store, self.settings, self.sealing_only = store, settings, sealing_only
        self._executor = executor or AtOnce()
        self._learning: tuple[LastLearned, int, Future[Learned]] | None = None
        self._policies: dict[str, LivePolicy] = {}
        self._clock = SteadyClock()
        self._windows = Windows(settings.window, self._clock.now)

    def step(self) -> list[str]:
        """Do what is due, and say what was done."""
        done = self._reconcile()
        done += [
            f"sealed part {part.number}: {part.impressions:,} impressions, {part.clicks:,} clicks"
            for part in self._seal()
        ]
        if not self.sealing_only:
            done += self._end_old()
        with self._turn() as connection:
            done += judge_failures(connection, self.settings)
        done += self._count()
        with self._turn() as connection:
            done += judge(connection, self.settings)
        if not self.sealing_only:
            done += self._advance()
            done += self._learn()
        done += retain(self.store, self.settings, now=self._clock.now(), counted=self._counted())
        return done

    def _reconcile(self) -> list[str]:
        """Make the log fit the database, should either have been restored from a backup."""
        self.store.check()
        done = reconcile(self.store)
        if done:
            with self.store.engine.begin() as connection:
                for line in done:
                    add_entry(connection, "restored", line, {})
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
            # What people deploy comes before this or after it.
            lock_deployments(connection)
            yield connection

    def _counted(self) -> int:
        """The last part that the monitor and the trial have counted."""
        with read(self.store) as connection:
            monitor = load_monitor(connection)
            trial = None if self.sealing_only else load_trial(connection)
        return monitor.part if trial is None else min(monitor.part, trial.part)

    def _count(self) -> list[str]:
        """Count new parts, for the monitor and for the trial."""
        with read(self.store) as connection:
            current = current_deployment(connection)
            before = load_monitor(connection)
            trial = None if self.sealing_only else load_trial(connection)
            first = before.part if trial is None else min(before.part, trial.part)
            new = list(
                connection.scalars(
                    select(parts.c.number)
                    .where(parts.c.state == SEALED, parts.c.number > first)
                    .order_by(parts.c.number)
                )
            )
            trust = None if trial is None else current_trust(connection, trial.part, trial)
        if current is None or not new:
            return []
        monitor, counted = before.follow(current.shares, self.settings), trial
        changed: MetricName | None = None
        for number in new:
            if counted is None and not monitor.watches:
                monitor = replace(monitor, part=number)
                continue
            views = self.read(number)
            monitor = monitor.after(views, self._policy, self._clock.now(), self.settings)
            if counted is None or trust is None or number <= counted.part:
                continue
            metric = metric_of(self.settings.metric, counted.metric, views.metric)
            if metric != counted.metric:
                counted, changed = None, metric
            else:
                counted, trust = self.count(counted, trust, views)
        with self._turn() as connection:
            if load_monitor(connection) != before or (
                not self.sealing_only and load_trial(connection) != trial
            ):
                return []
            save_note(connection, MONITOR, monitor.to_dict())
            if trial is not None and changed is not None:
                # What is learned next is learned by the new one: do not wait until the log has doubled.
                save_note(connection, LEARNED, None)
                why = f"what counts is {changed} now, and it was learned and compared by {trial.metric}"
                return [end_trial(connection, trial.candidate, why, trial.numbers())]
            if counted is not None and trust is not None:
                save_note(connection, TRIAL, counted.to_dict())
                save_note(connection, TRUST, trust.to_dict())
        return []

    def read(self, number: int) -> PartViews:
        """What the pages of a sealed part showed, and what users did there."""
        with read(self.store) as connection:
            return read_part(connection, number)

    def count(self, trial: LiveTrial, trust: Trust, views: PartViews) -> tuple[LiveTrial, Trust]:
        """The trial and the trust after one more part."""
        evidence = PageEvidence(trial.assumed_bias, trial.mean, self._policy, trial.metric, trial.unit)
        gains = evidence.gains(views, self._policy(trial.candidate), self._policy(trial.baseline))
        served = sum(view.policy == trial.candidate for view in views.views)
        agreement = evidence.agreement(views, self._policy(trust.policy))
        return trial.after(views.number, gains, served), trust.after(views.number, agreement)

    def _end_old(self) -> list[str]:
        """End a trial that another version stored in a form which this one does not read."""
        with self._turn() as connection:
            if not has_old_trial(connection):
                return []
            candidate = str(load_note(connection, TRIAL).get("candidate", "an earlier policy"))
            return [end_trial(connection, candidate, "another version of rankloop began it", {})]

    def _advance(self) -> list[str]:
        """Take the step of the trial that the evidence allows, and that people allow."""
        with self._turn() as connection:
            trial, current = load_trial(connection), current_deployment(connection)
            if current is None or trial is None:
                return []
            if trial.deployment != current.number:
                return self._adopt(connection, trial, current)
            control = Control.load(connection)
            asking = self.settings.model_copy(update={"deploy": "ask"})
            settings = asking if control.holds(current) else self.settings
            trust = current_trust(connection, trial.part, trial)
            room = trust.room(current, trial.baseline, settings)
            monitor = load_monitor(connection)
            watch = (
                monitor.watch_of(trial.candidate, trial.baseline) if monitor.metric == trial.metric else None
            )
            step = trial.next_step(settings, room, watch)
            if step == "wait" or (control.paused and step != "stop"):
                return []
            numbers = {**trial.numbers(watch), "allowed": room.allowed}
            if step == "end":
                why = f"its lists do not tell it from those of {trial.baseline}"
                return [end_trial(connection, trial.candidate, why, numbers)]
            if step == "stop":
                why = f"{trial.candidate} does harm and was rolled back"
                return remove(connection, current, trial.candidate, why, numbers, trial.baseline)
            words = said(trial, watch)
            if step == "propose":
                text = f"{trial.candidate} is better than {trial.baseline}: {words}"
                trial = replace(trial, proposed=True)
            elif step == "canary":
                shares = with_canary(
                    current, trial, self.settings.canary, trusted=trust.policy, allowed=room.allowed
                )
                text = f"{trial.candidate} serves {shares[-1].share:.0%} of the traffic: {words}"
                trial = self._deploy(connection, replace(trial, stage="canary"), shares, step, text, numbers)
            else:
                shares = full_shares(
                    connection, trial, self.settings, trusted=trust.policy, allowed=room.allowed
                )
                text = f"{trial.candidate} is live with {shares[0].share:.0%} of the traffic: {words}"
                trial = self._deploy(connection, replace(trial, stage="full"), shares, step, text, numbers)
            save_note(connection, TRIAL, trial.to_dict())
            add_entry(connection, step, text, numbers)
        return [text]

    def _adopt(self, connection: Connection, trial: LiveTrial, current: LiveDeployment) -> list[str]:
        """Go on with what somebody else deployed, or end the trial of what is not live any more."""
        roles = {share.policy: share.role for share in current.shares}
        role, stage = roles.get(trial.candidate), trial.stage
        if role is not None:
            stage = "canary" if role == CANARY else "full"
        elif trial.stage != "shadow" or trial.baseline not in roles:
            save_note(connection, TRIAL, None)
            text = f"the trial of {trial.candidate} ended: {current.who} changed what is live ({current.why})"
            add_entry(connection, "ended", text, trial.numbers())
            return [text]
        proposed = trial.proposed and stage == trial.stage
        adopted = replace(trial, stage=stage, deployment=current.number, proposed=proposed)
        save_note(connection, TRIAL, adopted.to_dict())
        return [f"{trial.candidate} was deployed by {current.who}"] if stage != trial.stage else []

    def _learn(self) -> list[str]:
        """Learn a policy if the log has grown enough, and no trial would be disturbed."""
        trial, now = self.trial, self._clock.now()
        with read(self.store) as connection:
            learned_from = LastLearned(count_sealed(connection), count_sealed(connection, held=True), now)
            last = LastLearned.from_note(load_note(connection, LEARNED))
            current = current_deployment(connection)
            paused = Control.load(connection).paused
            trials = load_note(connection, TRIALS) or 0
        if self._learning is None:
            due = learned_from.sealed >= self.settings.least and (
                last is None or last.is_past(learned_from.sealed, now, self.settings)
            )
            if current is None or paused or not due or not self._may_begin(trial):
                return []
            job = self._executor.submit(_learn_now, self.store.log, self.settings)
            self._learning = learned_from, trials, job
        learned_from, trials, learning = self._learning
        if not learning.done():
            return []
        self._learning = None
        try:
            learned = learning.result()
        except Exception as error:
            # Whatever it is, it would fail again at once: the next attempt is one with more data.
            if not isinstance(error, RankloopError):
                LOGGER.exception("learning failed")
            with self._turn() as connection:
                save_note(connection, LEARNED, learned_from.to_dict())
                add_entry(connection, "not learned", f"nothing was learned: {one_line(error)}", {})
            return [f"nothing was learned: {one_line(error)}"]
        return self._begin(learned, learned_from, trials)

    def _may_begin(self, trial: LiveTrial | None) -> bool:
        """Whether a new trial would disturb none that is going on."""
        if trial is None:
            return True
        if trial.stage == "shadow":
            # Proven, and a person was asked: it stays what it is.
            return not trial.gained.deploy
        # If it was deployed a moment ago, harm would show now.
        watched = WATCHED * self.settings.canary_impressions
        return trial.stage == "full" and trial.served >= watched

    def _begin(self, learned: Learned, learned_from: LastLearned, trials: int) -> list[str]:
        with self._turn() as connection:
            current = current_deployment(connection)
            before = load_note(connection, TRIALS) or 0
            if current is None or before != trials or Control.load(connection).paused:
                return []
            if not self._may_begin(load_trial(connection)):
                return []
            number = trials + 1
            policy = register_as(connection, replace(learned.policy, name=f"learned-{number}"), WHO)
            baseline = main_share(current.shares).policy
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
                deployment=current.number,
                doubts=learned.doubts,
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
        self,
        connection: Connection,
        trial: LiveTrial,
        shares: Sequence[Share],
        kind: str,
        why: str,
        numbers: dict[str, Any],
    ) -> LiveTrial:
        """The trial of what is deployed for it."""
        done = deploy(connection, shares, who=WHO, why=why, kind=kind, numbers=numbers)
        return replace(trial, deployment=done.number)

    def _policy(self, name: str) -> LivePolicy:
        if name not in self._policies:
            with read(self.store) as connection:
                self._policies[name] = load_stored_policy(connection, name)
        return self._policies[name]


def _learn_now(log: Path, settings: LearnerSettings) -> Learned:
    # Loads engines and models that nothing else here needs.
    from rankloop.live.learner.learning import learn

    return learn(log, settings)


def current_trust(connection: Connection, part: int, trial: LiveTrial) -> Trust:
    """The policy that a person deployed last, and how far users agree with it by the metric of a trial.

    Without evidence, from this part on, if that policy or the metric is another now.
    """
    trusted, stored = trusted_policy(connection), load_trust(connection)
    if stored is not None and (stored.policy, stored.metric) == (trusted, trial.metric):
        return stored
    return Trust.begin(trusted, part, metric=trial.metric, first=trial.gain.first)


def said(trial: LiveTrial, watch: Watch | None) -> str:
    """The gain that a step rests on, in words: by the lists of both policies, or by the model of users."""
    if watch is not None and trial.proven(watch):
        gain = watch.decision(trial.gain.level)
        return (
            f"{gain.estimate:+.4f} {trial.metric} per impression by their lists, after "
            f"{watch.better.count:,} pages"
        )
    gain = trial.gained
    return (
        f"{gain.estimate:+.4f} {trial.metric} per impression, [{gain.lower:+.4f}, {gain.upper:+.4f}], by the "
        f"model of users"
    )
