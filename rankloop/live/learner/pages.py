"""What was shown and clicked in a part of the log, as arrays that evidence is computed from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.store.events import CLICK
from rankloop.live.store.impressions import read_drawn, read_pins
from rankloop.live.store.tables import deployments, events, impressions, policies, problems


@dataclass(frozen=True, eq=False)
class PageView:
    """One impression.

    Attributes:
        problem: the key of what was ranked, in `PartViews.problems`.
        policy: the name of the policy that ranked.
        deployment: the number of the deployment, in `PartViews.shares`.
        slots: positions that the policy filled, from 0, as far as the page goes.
        drawn: numbers of the documents in these positions.
        clicked: for each of them, whether it was clicked.
        clicks: all clicks on the page, pinned documents included.
    """

    problem: bytes
    policy: str
    deployment: int
    slots: tuple[int, ...]
    drawn: tuple[int, ...]
    clicked: tuple[bool, ...]
    clicks: int


@dataclass(frozen=True, eq=False)
class PartViews:
    """All impressions of a part.

    Attributes:
        views: the impressions in their order.
        problems: what was ranked, by key.
        shares: the shares of each deployment, by its number.
    """

    views: tuple[PageView, ...]
    problems: dict[bytes, RankingProblem]
    shares: dict[int, tuple[Share, ...]]


def read_part(connection: Connection, part: int) -> PartViews:
    """Read the impressions of a sealed part from the store."""
    rows = connection.execute(
        select(
            impressions.c.number,
            impressions.c.problem,
            impressions.c.deployment,
            impressions.c.drawn,
            impressions.c.rules,
            policies.c.name,
        )
        .join(policies, policies.c.number == impressions.c.policy)
        .where(impressions.c.part == part)
        .order_by(impressions.c.number)
    ).all()
    known = {
        row["id"]: RankingProblem.from_row(row)
        for row in connection.execute(
            select(problems).where(
                problems.c.id.in_(select(impressions.c.problem).where(impressions.c.part == part))
            )
        ).mappings()
    }
    clicked: dict[int, set[str]] = {}
    for row in connection.execute(
        select(events.c.impression, events.c.document)
        .join(impressions, impressions.c.number == events.c.impression)
        .where(impressions.c.part == part, events.c.kind == CLICK)
    ):
        clicked.setdefault(row.impression, set()).add(row.document)
    numbers = {row.deployment for row in rows}
    shares = {
        row.number: tuple(Share(**share) for share in json.loads(row.shares))
        for row in connection.execute(select(deployments).where(deployments.c.number.in_(numbers)))
    }
    views = tuple(_view(row, known[row.problem].documents, clicked.get(row.number, set())) for row in rows)
    return PartViews(views, known, shares)


def _view(row: Any, documents: Sequence[str], clicked: set[str]) -> PageView:
    rules = msgspec.json.decode(row.rules)
    pins = read_pins(rules)
    drawn = tuple(read_drawn(row.drawn).tolist())
    slots = tuple(place - 1 for place in range(1, rules["top"] + 1) if place not in pins)
    return PageView(
        row.problem,
        row.name,
        row.deployment,
        slots,
        drawn,
        tuple([documents[number] in clicked for number in drawn]),
        len(clicked),
    )
