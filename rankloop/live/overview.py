"""What people want to know about a running service, read from the store in one go."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from rankloop.live.learner.notes import SETTINGS, load_note, load_trial, load_trust
from rankloop.live.learner.trial import LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.store.database import Store, read
from rankloop.live.store.events import CLICK, read_tallies
from rankloop.live.store.parts import SEALED
from rankloop.live.store.policies import current_deployment, history
from rankloop.live.store.tables import events, impressions, parts, policies, verdicts

# Rates are those of the last impressions.
RECENT = 20_000
# Points of a curve over time.
POINTS = 60
VERDICTS = 30


@dataclass(frozen=True)
class PolicyRate:
    """How often the pages of a policy were clicked, among the last impressions.

    Attributes:
        policy: its name.
        impressions: pages.
        clicks: clicks on them.
        error: the standard error of the clicks per page.
    """

    policy: str
    impressions: int
    clicks: int
    error: float

    @property
    def rate(self) -> float:
        """Clicks per page."""
        return self.clicks / self.impressions if self.impressions else math.nan


@dataclass(frozen=True, eq=False)
class Overview:
    """The state of a service.

    Attributes:
        deployment: what is live.
        history: deployments, newest first.
        rates: by policy.
        by_rank: by rank, how often it was shown and clicked, among the last impressions.
        over_time: by part, the time of its last impression, impressions and clicks.
        tallies: events that were accepted, or had a problem.
        trial: the trial that is going on.
        trust: the policy that a person deployed last, and how far clicks agree with it.
        verdicts: what the learner found out, newest first.
        learner: settings of the learner, if one has run.
        sealed: impressions in the log.
        unsealed: impressions that are not sealed yet.
    """

    deployment: LiveDeployment | None
    history: list[LiveDeployment]
    rates: list[PolicyRate]
    by_rank: list[tuple[int, int, int]]
    over_time: list[tuple[float, int, int]]
    tallies: Mapping[str, int]
    trial: LiveTrial | None
    trust: Trust | None
    verdicts: list[dict[str, Any]]
    learner: Mapping[str, Any] | None
    sealed: int
    unsealed: int


def read_overview(store: Store) -> Overview:
    """Read the state of a service."""
    with read(store) as connection:
        return Overview(
            current_deployment(connection),
            history(connection, 30),
            *_rates(connection),
            _over_time(connection),
            read_tallies(connection),
            load_trial(connection),
            load_trust(connection),
            read_verdicts(connection),
            load_note(connection, SETTINGS),
            int(connection.scalar(select(func.sum(parts.c.impressions)).where(parts.c.state == SEALED)) or 0),
            connection.scalar(select(func.count()).where(impressions.c.part.is_(None))) or 0,
        )


def read_verdicts(connection: Connection) -> list[dict[str, Any]]:
    """What the learner found out, newest first."""
    rows = connection.execute(select(verdicts).order_by(verdicts.c.number.desc()).limit(VERDICTS)).mappings()
    return [{**row, "numbers": json.loads(row["numbers"])} for row in rows]


def _rates(connection: Connection) -> tuple[list[PolicyRate], list[tuple[int, int, int]]]:
    last = connection.scalar(select(func.max(impressions.c.number))) or 0
    recent = impressions.c.number > last - RECENT
    clicked = (
        select(events.c.impression, events.c.document, func.min(events.c.position).label("position"))
        .where(events.c.impression > last - RECENT, events.c.kind == CLICK)
        .group_by(events.c.impression, events.c.document)
        .subquery()
    )
    per_page = (
        select(clicked.c.impression, func.count().label("clicks")).group_by(clicked.c.impression).subquery()
    )
    clicks = func.coalesce(per_page.c.clicks, 0)
    rows = connection.execute(
        select(policies.c.name, func.count(), func.sum(clicks), func.sum(clicks * clicks))
        .select_from(impressions)
        .join(policies, policies.c.number == impressions.c.policy)
        .outerjoin(per_page, per_page.c.impression == impressions.c.number)
        .where(recent)
        .group_by(policies.c.name)
    )
    rates = []
    for name, pages, total, squares in rows:
        mean = float(total) / pages
        spread = max(float(squares) / pages - mean**2, 0.0)
        rates.append(PolicyRate(name, pages, int(total), math.sqrt(spread / pages)))
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
