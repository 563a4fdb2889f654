"""How often policies fail, or answer too late, and whose fault that is."""

from __future__ import annotations

import json

from sqlalchemy import Connection, select

from rankloop.live.ranking.live_policy import FALLBACK, FAULTS, RESTING
from rankloop.live.store.tables import impressions, policies

# Failures are looked for among the last impressions; fewer are no reason to act.
RECENT, FEW_FAILURES = 2000, 20


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
