"""Policies and deployments in a store: registered once, deployed and rolled back by appending."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, insert, select, text

from rankloop.errors import RankloopError
from rankloop.live.ranking.deployment import LiveDeployment, Mixture, Share, check_shares
from rankloop.live.ranking.feature_schema import check_feature_names
from rankloop.live.ranking.live_policy import FALLBACK, LivePolicy
from rankloop.live.store.database import insert_new
from rankloop.live.store.tables import deployments, notebook, policies
from rankloop.storage.plain import from_plain, to_plain

ROLLBACK, RESTORES, FROM = "rollback", "restores", "from"
# Where the names of features that requests may give are kept, in their order.
FEATURES_NOTE = "features"


def register_policy(connection: Connection, policy: LivePolicy, who: str) -> LivePolicy:
    """Store a policy and return it with its number; the same one under the same name is stored once.

    Raises:
        RankloopError: another policy has the name.
    """
    check_feature_names(policy.feature_names)
    row = {**policy.to_row(), "created_at": time.time(), "created_by": who}
    insert_new(connection, policies, [row])
    stored = connection.execute(
        select(policies.c.number, policies.c.fingerprint).where(policies.c.name == policy.name)
    ).one()
    if stored.fingerprint != policy.fingerprint:
        raise RankloopError(f"there is another policy with the name {policy.name!r}: choose another name")
    return replace(policy, number=stored.number)


def register_as(connection: Connection, policy: LivePolicy, who: str) -> LivePolicy:
    """Store a policy under its name, or under one like it if another policy has the name."""
    row = select(policies.c.fingerprint).where(policies.c.name == policy.name)
    name, number = policy.name, 1
    while connection.scalar(row) not in (None, policy.fingerprint):
        number += 1
        policy = replace(policy, name=f"{name}.{number}")
        row = select(policies.c.fingerprint).where(policies.c.name == policy.name)
    return register_policy(connection, policy, who)


def load_stored_policy(connection: Connection, name: str) -> LivePolicy:
    """The policy with a name.

    Raises:
        RankloopError: there is none.
    """
    row = connection.execute(select(policies).where(policies.c.name == name)).mappings().one_or_none()
    if row is None:
        known = connection.scalars(select(policies.c.name).order_by(policies.c.number)).all()
        raise RankloopError(f"there is no policy {name!r}; the policies are: {', '.join(known)}")
    return LivePolicy.from_row(row)


def load_numbered(connection: Connection, number: int) -> LivePolicy:
    """The policy with a number."""
    row = connection.execute(select(policies).where(policies.c.number == number)).mappings().one()
    return LivePolicy.from_row(row)


def list_policies(connection: Connection) -> list[dict[str, Any]]:
    """All policies without their models, oldest first."""
    columns = [column for column in policies.c if column.name != "content"]
    rows = connection.execute(select(*columns).order_by(policies.c.number)).mappings()
    return [{**row, **json.loads(row["details"])} for row in rows]


def load_details(connection: Connection, name: str) -> dict[str, Any]:
    """What is known about a policy besides its model."""
    details: dict[str, Any] = json.loads(
        connection.execute(select(policies.c.details).where(policies.c.name == name)).scalar_one()
    )
    return details


def read_feature_names(connection: Connection) -> tuple[str, ...]:
    """The features that requests may give: named ones, and those of policies that were deployed."""
    found = connection.scalar(select(notebook.c.content).where(notebook.c.name == FEATURES_NOTE))
    return tuple(json.loads(found or "[]"))


def remember_features(connection: Connection, names: Sequence[str]) -> None:
    """Add names of features that requests may give; the order of those that are known does not change.

    Raises:
        RankloopError: the log cannot have a column of that name.
    """
    known = read_feature_names(connection)
    together = tuple(dict.fromkeys([*known, *names]))
    if together != known:
        check_feature_names(together)
        content = json.dumps(together)
        insert_new(connection, notebook, [{"name": FEATURES_NOTE, "content": content}])
        connection.execute(notebook.update().where(notebook.c.name == FEATURES_NOTE).values(content=content))


def deploy(
    connection: Connection,
    shares: Sequence[Share],
    *,
    who: str,
    why: str,
    kind: str = "deploy",
    numbers: Mapping[str, Any] | None = None,
) -> LiveDeployment:
    """Append a deployment: from now on, requests are served with these shares.

    Raises:
        RankloopError: the shares do not sum to 1, or a policy does not exist.
    """
    lock_deployments(connection)
    checked = check_shares(shares)
    known = {*connection.scalars(select(policies.c.name))}
    for share in checked:
        if share.policy not in known or share.policy == FALLBACK:
            names = ", ".join(sorted(known - {FALLBACK})) or "none"
            raise RankloopError(f"there is no policy {share.policy!r} to deploy; the policies are: {names}")
    deployed = [load_details(connection, share.policy)["feature_names"] for share in checked]
    remember_features(connection, tuple(name for names in deployed for name in names))
    values = {
        "kind": kind,
        "shares": json.dumps(to_plain(checked)),
        "created_at": time.time(),
        "who": who,
        "why": why,
        "numbers": json.dumps(dict(numbers or {})),
    }
    number = connection.execute(insert(deployments).values(values)).inserted_primary_key
    assert number is not None
    return _deployment({**values, "number": number[0]})


def roll_back(
    connection: Connection,
    *,
    who: str,
    why: str,
    to: int | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> LiveDeployment:
    """Append a deployment that restores an earlier one: the one before the current one, or number ``to``.

    Rolling back twice goes back two steps.

    Raises:
        RankloopError: there is no such deployment.
    """
    lock_deployments(connection)
    current = current_deployment(connection)
    if current is None:
        raise RankloopError("nothing is deployed, so nothing can be rolled back")
    target = rollback_target(connection, current, to)
    if target is None:
        which = "earlier deployment" if to is None else f"deployment {to}"
        raise RankloopError(f"there is no {which} to roll back to")
    restored = target.numbers.get(RESTORES, target.number)
    return deploy(
        connection,
        target.shares,
        who=who,
        why=why,
        kind=ROLLBACK,
        numbers={**(numbers or {}), RESTORES: restored, FROM: current.number},
    )


def rollback_target(
    connection: Connection, current: LiveDeployment, to: int | None = None
) -> LiveDeployment | None:
    """What rolling back restores: number ``to``, or the one before the current one; None if there is none."""
    if to is None:
        # A policy was taken away from deployment `from`: the step back is the one before that.
        restored = current.numbers.get(RESTORES, current.numbers.get(FROM, current.number))
        found = (
            deployments.c.number
            == select(func.max(deployments.c.number))
            .where(deployments.c.number < restored, deployments.c.kind != ROLLBACK)
            .scalar_subquery()
        )
    else:
        found = deployments.c.number == to
    row = connection.execute(select(deployments).where(found)).mappings().one_or_none()
    return None if row is None else _deployment(row)


def lock_deployments(connection: Connection) -> None:
    """Keep others from deploying until this transaction ends: what is live now is what it acts on."""
    # A transaction of SQLite that writes is alone from its beginning.
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE deployments IN SHARE ROW EXCLUSIVE MODE"))


def current_deployment(connection: Connection) -> LiveDeployment | None:
    """What is live; None if nothing was deployed yet."""
    row = connection.execute(select(deployments).order_by(deployments.c.number.desc()).limit(1)).mappings()
    found = row.one_or_none()
    return None if found is None else _deployment(found)


def current_version(connection: Connection) -> tuple[int, int]:
    """The numbers of the last deployment and of the last policy: either changes when something is new."""
    last = connection.scalar(select(func.max(deployments.c.number)))
    return last or 0, connection.scalar(select(func.max(policies.c.number))) or 0


def load_mixture(
    connection: Connection, deployment: LiveDeployment, known: Mapping[str, LivePolicy] | None = None
) -> Mixture:
    """Load the policies of a deployment, except those that are known already."""
    loaded = known or {}
    return Mixture(
        deployment,
        tuple(
            loaded.get(share.policy) or load_stored_policy(connection, share.policy)
            for share in deployment.shares
        ),
    )


def history(connection: Connection, limit: int | None = 100) -> list[LiveDeployment]:
    """The last deployments, newest first; None for all of them."""
    rows = connection.execute(
        select(deployments).order_by(deployments.c.number.desc()).limit(limit)
    ).mappings()
    return [_deployment(row) for row in rows]


def _deployment(row: Mapping[Any, Any]) -> LiveDeployment:
    return LiveDeployment(
        row["number"],
        from_plain(tuple[Share, ...], json.loads(row["shares"])),
        row["kind"],
        row["created_at"],
        row["who"],
        row["why"],
        json.loads(row["numbers"]),
    )
