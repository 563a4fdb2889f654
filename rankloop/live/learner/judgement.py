"""What follows from the monitor: warnings, equal shares, rollbacks, and news for people.

| what is judged | evidence | what follows |
|---|---|---|
| what is live, against a holdout | the detector says that it became worse | both get equal shares |
| the same, with equal shares | bets say worse | the other one is restored |
| | bets say better, or nothing after many pages | the shares are restored |
| another policy, against what is live | the detector, bets or a guard say worse | it goes |
| | bets say better, and every guard holds | people are told |

Who deploys a policy fully has decided: then people are only warned.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from rankloop.evidence import DecisionKind
from rankloop.live.learner.control import Control, deploy_instead, may_take_away, take_away
from rankloop.live.learner.monitor import EqualShares, Watch, judged_pairs, main_share
from rankloop.live.learner.notes import (
    MONITOR,
    TRIAL,
    WARNINGS,
    add_entry,
    load_monitor,
    load_trial,
    load_warnings,
    save_note,
)
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.ranking.live_policy import FALLBACK, FAULTS, RESTING
from rankloop.live.store.policies import RESTORES, current_deployment
from rankloop.live.store.tables import impressions, policies

EQUAL, RESTORED = "equal", "restored"
# Failures are looked for among the last impressions; fewer are no reason to act.
RECENT, FEW_FAILURES = 2000, 20


def judge_failures(connection: Connection, settings: LearnerSettings) -> list[str]:
    """Take a policy away that fails, or answers too late, too often."""
    current = current_deployment(connection)
    if current is None:
        return []
    failed, of = recent_failures(connection, current.number)
    worst = max(failed, key=failed.__getitem__, default="")
    count, asked = failed.get(worst, 0), of.get(worst, 0)
    if count < FEW_FAILURES or count <= settings.failures * asked:
        return []
    why = f"{worst} failed or was too slow in {count} of {asked} requests"
    return remove(connection, current, worst, why, {"failed": count, "requests": asked})


def recent_failures(connection: Connection, deployment: int) -> tuple[dict[str, int], dict[str, int]]:
    """By policy, failures and requests among the last impressions of a deployment.

    Only failures of the policy count: a request without the features that it needs would fail any policy.
    Pages while it is left out do not count, or a moment in which everything was slow would be hundreds.
    """
    rows = connection.execute(
        select(impressions.c.rules, impressions.c.policy, impressions.c.deployment)
        .where(impressions.c.rules.not_like(f'%"failed": [%"{RESTING}"]%'))
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
            name, reason = json.loads(row.rules).get("failed", (FALLBACK, ""))
            if reason not in FAULTS:
                continue
            failed[name] = failed.get(name, 0) + 1
        asked[name] = asked.get(name, 0) + 1
    return failed, asked


def _names(connection: Connection) -> dict[int, str]:
    return {row.number: row.name for row in connection.execute(select(policies.c.number, policies.c.name))}


def judge(connection: Connection, settings: LearnerSettings) -> list[str]:
    """Act on the evidence about every pair, whoever deployed it and whatever is on trial."""
    monitor, current = load_monitor(connection), current_deployment(connection)
    if current is None:
        return []
    if monitor.equal is not None and monitor.equal.deployment != current.number:
        # Somebody else decided.
        monitor = replace(monitor, equal=None)
        save_note(connection, MONITOR, monitor.to_dict())
    done: list[str] = []
    for watch in monitor.watches:
        current = current_deployment(connection)
        if current is None or (watch.policy, watch.against) not in judged_pairs(current.shares):
            continue
        equal = load_monitor(connection).equal
        if equal is not None and (equal.policy, equal.against) == (watch.policy, watch.against):
            done += _compare(connection, current, watch, equal, settings)
        elif watch.policy == main_share(current.shares).policy:
            if watch.harm.alarms and equal is None:
                done += _suspect(connection, current, watch)
        else:
            done += _judge_other(connection, current, watch, settings)
    return done


def _suspect(connection: Connection, current: LiveDeployment, watch: Watch) -> list[str]:
    """Give what may do harm and its holdout equal shares; if a person decided on it, warn."""
    why = _harm(connection, watch, "may do harm")
    if not may_take_away(Control.load(connection), current, watch.policy):
        _begin_again(connection, watch)
        return warn(connection, current, watch.policy, f"{why}; {current.who} decided on it, so it stays")
    pair = {watch.policy, watch.against}
    half = sum(share.share for share in current.shares if share.policy in pair) / 2.0
    shares = [replace(each, share=half) if each.policy in pair else each for each in current.shares]
    text = f"{why}: both get equal shares until their lists decide"
    numbers = watch.numbers(load_monitor(connection).metric)
    done = deploy_instead(connection, current, shares, why=text, kind=EQUAL, numbers=numbers)
    _begin_again(connection, watch)
    equal = EqualShares(
        done.number,
        watch.policy,
        watch.against,
        current.shares,
        int(current.numbers.get(RESTORES, current.number)),
    )
    save_note(connection, MONITOR, replace(load_monitor(connection), equal=equal).to_dict())
    add_entry(connection, EQUAL, text, numbers)
    return [text]


def _compare(
    connection: Connection,
    current: LiveDeployment,
    watch: Watch,
    equal: EqualShares,
    settings: LearnerSettings,
) -> list[str]:
    """End a comparison with equal shares, once lists decide or after many pages."""
    monitor = load_monitor(connection)
    numbers, decision = watch.numbers(monitor.metric), watch.decision(settings.level)
    if decision.kind is DecisionKind.WORSE:
        why = (
            f"{watch.policy} does harm: {decision.estimate:+.4f} {monitor.metric} per page compared with "
            f"{watch.against}, over {watch.worse.count:,} pages with equal shares"
        )
        return remove(connection, current, watch.policy, why, numbers, watch.against)
    if decision.kind is not DecisionKind.BETTER and watch.worse.count < settings.comparison_pages:
        return []
    because = "is better" if decision.kind is DecisionKind.BETTER else "does no harm that lists could tell"
    text = f"{watch.policy} {because} compared with {watch.against}: the shares before are restored"
    content = {**numbers, RESTORES: equal.restores}
    deploy_instead(connection, current, equal.before, why=text, kind=RESTORED, numbers=content)
    save_note(connection, MONITOR, replace(monitor.replaced(watch.again()), equal=None).to_dict())
    add_entry(connection, RESTORED, text, numbers)
    return [text]


def _judge_other(
    connection: Connection, current: LiveDeployment, watch: Watch, settings: LearnerSettings
) -> list[str]:
    """Take away what does harm beside what is live, and tell people what is better."""
    metric = load_monitor(connection).metric
    numbers, decision = watch.numbers(metric), watch.decision(settings.level)
    broken = watch.broken(settings.level)
    if watch.harm.alarms or broken or decision.kind is DecisionKind.WORSE:
        # The next alarm, if it stays, is one of evidence from here on.
        _begin_again(connection, watch)
        why = _harm(connection, watch, "does harm")
        if broken:
            guards = " and ".join(broken)
            why = f"{watch.policy} does harm: {guards} does not hold compared with {watch.against}"
        return remove(connection, current, watch.policy, why, numbers, watch.against)
    if decision.kind is DecisionKind.BETTER and watch.guarded(settings.level) and not watch.said:
        text = (
            f"{watch.policy} is better than {watch.against} by their lists: {decision.estimate:+.4f} "
            f"{metric} per page, after {watch.better.count:,} pages"
        )
        save_note(connection, MONITOR, load_monitor(connection).replaced(replace(watch, said=True)).to_dict())
        add_entry(connection, "better", text, numbers)
        return [text]
    return []


def _harm(connection: Connection, watch: Watch, words: str) -> str:
    pages, harm = watch.harm.onset if watch.harm.alarms else (watch.worse.count, watch.worse.mean)
    metric = load_monitor(connection).metric
    return (
        f"{watch.policy} {words}: {-harm:+.4f} {metric} per page compared with {watch.against}, over the "
        f"last {pages:,} pages"
    )


def _begin_again(connection: Connection, watch: Watch) -> None:
    save_note(connection, MONITOR, load_monitor(connection).replaced(watch.again()).to_dict())


def remove(
    connection: Connection,
    current: LiveDeployment,
    policy: str,
    why: str,
    numbers: Mapping[str, Any],
    heir: str = "",
) -> list[str]:
    """Take a policy away that fails or does harm; if a person decided on it, warn."""
    if not may_take_away(Control.load(connection), current, policy):
        return warn(connection, current, policy, f"{why}; {current.who} decided on it, so it stays")
    done = take_away(connection, current, policy, why=why, numbers=numbers, heir=heir)
    if done is None:
        return warn(connection, current, policy, f"{why}, but there is nothing else to serve")
    trial = load_trial(connection)
    if trial is not None and trial.candidate == policy:
        save_note(connection, TRIAL, None)
    add_entry(connection, "rollback", f"rolled back: {why}", dict(numbers))
    return [f"rolled back: {why}"]


def warn(connection: Connection, current: LiveDeployment, policy: str, text: str) -> list[str]:
    """Warn people about a policy that stays, once per deployment; the page and the metrics show it."""
    known = load_warnings(connection, current)
    if any(each["policy"] == policy for each in known):
        return []
    entry = {"policy": policy, "deployment": current.number, "text": text, "time": time.time()}
    save_note(connection, WARNINGS, [*known, entry])
    add_entry(connection, "warning", text, {"policy": policy, "deployment": current.number})
    return [text]
