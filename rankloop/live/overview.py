"""What people want to know about a running service, read from the store in one go."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from rankloop.live.learner.control import Control
from rankloop.live.learner.health import Health, read_health
from rankloop.live.learner.judgement import recent_failures
from rankloop.live.learner.metric import AMOUNT, CLICKS, MetricName, metric_of
from rankloop.live.learner.monitor import Monitor
from rankloop.live.learner.notes import (
    SETTINGS,
    load_monitor,
    load_note,
    load_trial,
    load_trust,
    load_warnings,
)
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.store.database import Store, read
from rankloop.live.store.events import CLICK, read_tallies
from rankloop.live.store.parts import SEALED, count_sealed
from rankloop.live.store.policies import ROLLBACK, current_deployment, history, rollback_target
from rankloop.live.store.tables import deployments, diary, events, impressions, parts, policies

# Rates are those of the last impressions.
RECENT = 20_000
# Points of a curve over time.
POINTS = 60
ENTRIES = 30


@dataclass(frozen=True)
class PolicyRate:
    """What the pages of a policy gained, among the last impressions.

    Attributes:
        policy: its name.
        impressions: pages.
        total: the clicks on them, or what actions on them were worth.
        error: the standard error of the mean per page.
    """

    policy: str
    impressions: int
    total: float
    error: float

    @property
    def rate(self) -> float:
        """The mean per page."""
        return self.total / self.impressions if self.impressions else math.nan


@dataclass(frozen=True, eq=False)
class LearnerState:
    """All that is known about the learner at one moment.

    Attributes:
        deployment: what is live.
        control: what people decided about the learner.
        health: whether it is alive.
        trial: the trial that is going on.
        monitor: the evidence about what is live.
        warnings: what a person should look at.
        rollbacks: how many there were since the store was made.
        unsealed: impressions that are not sealed yet.
    """

    deployment: LiveDeployment | None
    control: Control
    health: Health
    trial: LiveTrial | None
    monitor: Monitor
    warnings: list[str]
    rollbacks: int
    unsealed: int


def read_learner(connection: Connection) -> LearnerState:
    """All that is known about the learner."""
    current, health = current_deployment(connection), read_health(connection)
    rollbacks = select(func.count()).select_from(deployments).where(deployments.c.kind == ROLLBACK)
    unsealed = select(func.count()).where(impressions.c.part.is_(None))
    return LearnerState(
        current,
        Control.load(connection),
        health,
        load_trial(connection),
        load_monitor(connection),
        [*health.problems, *(each["text"] for each in load_warnings(connection, current))],
        int(connection.scalar(rollbacks) or 0),
        int(connection.scalar(unsealed) or 0),
    )


@dataclass(frozen=True, eq=False)
class Overview(LearnerState):
    """The state of a service.

    Attributes:
        restores: what rolling back restores, if no other one is chosen.
        history: deployments, newest first.
        metric: what rates and evidence are about: ``clicks``, or ``amount`` for what actions are worth.
        rates: by policy.
        by_rank: by rank, how often it was shown and clicked, among the last impressions.
        over_time: by part, the time of its last impression, impressions and clicks.
        tallies: events that were accepted, or had a problem.
        trust: the policy that a person deployed last, and how far clicks agree with it.
        diary: what the learner did and found, newest first.
        learner: settings of the learner, if one has run.
        failures: by policy, failures and requests among the last impressions of what is live.
        sealed: impressions in the log.
    """

    restores: LiveDeployment | None
    history: list[LiveDeployment]
    metric: MetricName
    rates: list[PolicyRate]
    by_rank: list[tuple[int, int, int]]
    over_time: list[tuple[float, int, int]]
    tallies: Mapping[str, int]
    trust: Trust | None
    diary: list[dict[str, Any]]
    learner: Mapping[str, Any] | None
    failures: Mapping[str, tuple[int, int]]
    sealed: int


def read_overview(store: Store) -> Overview:
    """Read the state of a service."""
    with read(store) as connection:
        known, settings = read_learner(connection), load_note(connection, SETTINGS)
        choice = LearnerSettings.model_validate(settings or {}).metric
        trial, current = known.trial, known.deployment
        metric = metric_of(choice, _metric(connection)) if trial is None else trial.metric
        rates, by_rank = _rates(connection, metric)
        return Overview(
            **known.__dict__,
            restores=None if current is None else rollback_target(connection, current),
            history=history(connection, 30),
            metric=metric,
            rates=rates,
            by_rank=by_rank,
            over_time=_over_time(connection),
            tallies=read_tallies(connection),
            trust=load_trust(connection),
            diary=read_diary(connection),
            learner=settings,
            failures=_failures(connection, current),
            sealed=count_sealed(connection, held=True),
        )


def _failures(connection: Connection, current: LiveDeployment | None) -> Mapping[str, tuple[int, int]]:
    if current is None:
        return {}
    failed, asked = recent_failures(connection, current.number)
    return {name: (failed.get(name, 0), asked[name]) for name in asked}


def read_diary(connection: Connection) -> list[dict[str, Any]]:
    """What the learner did and found, newest first."""
    rows = connection.execute(select(diary).order_by(diary.c.number.desc()).limit(ENTRIES)).mappings()
    return [{**row, "numbers": json.loads(row["numbers"])} for row in rows]


def _metric(connection: Connection) -> MetricName:
    """``amount`` if any of the last actions carries one."""
    last = connection.scalar(select(func.max(impressions.c.number))) or 0
    valued = events.c.value.is_not(None) & or_(events.c.kind != CLICK, events.c.value != 1.0)
    found = select(events.c.id).where(events.c.impression > last - RECENT, valued).limit(1)
    return CLICKS if connection.scalar(found) is None else AMOUNT


def _rates(connection: Connection, metric: MetricName) -> tuple[list[PolicyRate], list[tuple[int, int, int]]]:
    last = connection.scalar(select(func.max(impressions.c.number))) or 0
    recent = impressions.c.number > last - RECENT
    clicked = (
        select(events.c.impression, events.c.document, func.min(events.c.position).label("position"))
        .where(events.c.impression > last - RECENT, events.c.kind == CLICK)
        .group_by(events.c.impression, events.c.document)
        .subquery()
    )
    amount: ColumnElement[Any]
    if metric == CLICKS:
        gained, amount = clicked, func.count()
    else:
        earned = func.coalesce(events.c.value, case((events.c.kind == CLICK, 1.0), else_=0.0))
        gained = (
            select(events.c.impression, func.max(case((earned > 0.0, earned), else_=0.0)).label("amount"))
            .where(events.c.impression > last - RECENT)
            .group_by(events.c.impression, events.c.document)
            .subquery()
        )
        amount = func.sum(gained.c.amount)
    per_page = select(gained.c.impression, amount.label("total")).group_by(gained.c.impression).subquery()
    total = func.coalesce(per_page.c.total, 0)
    rows = connection.execute(
        select(policies.c.name, func.count(), func.sum(total), func.sum(total * total))
        .select_from(impressions)
        .join(policies, policies.c.number == impressions.c.policy)
        .outerjoin(per_page, per_page.c.impression == impressions.c.number)
        .where(recent)
        .group_by(policies.c.name)
    )
    rates = []
    for name, pages, sum_of_all, squares in rows:
        mean = float(sum_of_all) / pages
        spread = max(float(squares) / pages - mean**2, 0.0)
        rates.append(PolicyRate(name, pages, float(sum_of_all), math.sqrt(spread / pages)))
    # A drawn document takes two bytes; pinned ones come on top, which hardly changes the shape of the curve.
    lengths = connection.execute(
        select(func.length(impressions.c.drawn), func.count())
        .where(recent)
        .group_by(func.length(impressions.c.drawn))
    ).all()
    by_position: dict[int, int] = {
        row[0]: row[1]
        for row in connection.execute(select(clicked.c.position, func.count()).group_by(clicked.c.position))
    }
    ranks = range(1, max((length // 2 for length, _ in lengths), default=0) + 1)
    by_rank = [
        (rank, sum(count for length, count in lengths if length // 2 >= rank), by_position.get(rank, 0))
        for rank in ranks
    ]
    return sorted(rates, key=lambda rate: -rate.impressions), by_rank


def _over_time(connection: Connection) -> list[tuple[float, int, int]]:
    rows = connection.execute(
        select(parts.c.last_time, parts.c.impressions, parts.c.clicks)
        .where(parts.c.state == SEALED)
        .order_by(parts.c.number.desc())
        .limit(20 * POINTS)
    ).all()[::-1]
    step = max(1, math.ceil(len(rows) / POINTS))
    groups = [rows[first : first + step] for first in range(0, len(rows), step)]
    return [
        (float(group[-1][0]), sum(int(row[1]) for row in group), sum(int(row[2]) for row in group))
        for group in groups
    ]
