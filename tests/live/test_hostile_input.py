"""Hostile bodies: a 4xx that says why, nothing stored, nothing executed, and no error of the service."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select
from starlette.applications import Starlette

from rankloop.live import Service, ServiceSettings, Store
from rankloop.live.http.app import build_app
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.impressions import find_impression
from rankloop.live.store.tables import events, impressions
from tests.live.asgi import send
from tests.live.campaigns import campaign, report
from tests.live.conftest import linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

RANK = {
    "query": "cat",
    "candidates": [
        {"id": "x", "features": {"a": 1.0, "b": 2.0, "c": 0.0}},
        {"id": "y", "features": [1, 2, 3]},
    ],
    "top": 2,
    "pins": [{"id": "y", "position": 1}],
    "exclude": ["z"],
    "filters": [{"feature": "a", "at_least": 0.0}],
    "context": {"page": 1},
}
EVENTS = {
    "events": [{"impression": "i", "document": "d", "kind": "click", "id": "e", "value": 1.0, "time": 5.0}]
}
RANKING = {
    "event": "ranking",
    "id": "r",
    "items": [{"id": "x", "fields": [{"name": "a", "value": 1.0}]}],
    "fields": [{"name": "query", "value": "cat"}],
}
FEEDBACK = {
    "event": "interaction",
    "id": "e",
    "ranking": "nobody",
    "item": "x",
    "timestamp": "1599391467000",
}
UBI = {
    "action_name": "click",
    "query_id": "q",
    "timestamp": "2020-01-01T00:00:00Z",
    "event_attributes": {"object": {"object_id": "x"}, "position": {"ordinal": 1}},
}
DEPLOYMENT = {"shares": [{"policy": "start", "share": 1.0, "role": "live"}], "why": "a reason"}
SEEDS: dict[str, Any] = {
    "/rank": RANK,
    "/events": EVENTS,
    "/rank/model": RANKING,
    "/feedback": FEEDBACK,
    "/ubi/events": UBI,
    "/deployments": DEPLOYMENT,
    "/rollback": {"why": "a reason", "to": 1},
}
NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 1e308, -1e308, 10**30, 2**63, "", "x", "x" * 5000, "<script>alert(1)</script>",
    "'; DROP TABLE impressions; --", "\x00", "\ud800", "\u202e", [], {}, [[]], [None], {"a": {}}, [1] * 2000,
)  # fmt: skip


def mutate(value: Any, rng: np.random.Generator) -> Any:
    """The value with something wrong in one place of it."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = list(value)[int(rng.integers(len(value)))]
        choice = rng.random()
        if choice < 0.15:
            return {name: one for name, one in value.items() if name != key}
        if choice < 0.25:
            return {**value, "unknown": 1}
        return {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        if rng.random() < 0.2:
            return [*value, copy.deepcopy(value[place])]
        return [*value[:place], mutate(value[place], rng), *value[place + 1 :]]
    return NASTY[int(rng.integers(len(NASTY)))]


def bodies(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(seed)
    paths = list(SEEDS)
    for _ in range(count):
        path = paths[int(rng.integers(len(paths)))]
        value = SEEDS[path]
        for _ in range(int(rng.integers(1, 4))):
            value = mutate(value, rng)
        body = json.dumps(value).encode()
        choice = rng.random()
        if choice < 0.1:
            body = body[: int(rng.integers(len(body) + 1))]
        elif choice < 0.2:
            changed = bytearray(body)
            for place in rng.integers(len(changed), size=min(3, len(changed))):
                changed[place] = int(rng.integers(256))
            body = bytes(changed)
        elif choice < 0.25:
            body = body.replace(b"1.0", b"NaN").replace(b"2.0", b"1e999")
        yield path, body


async def attack(app: Starlette, store: Store, count: int, seed: int) -> dict[int, int]:
    statuses: dict[int, int] = {}
    for path, body in bodies(count, seed):
        status, answer = await send(app, "POST", path, body)
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, (path, body, answer)
        if status >= 400:
            assert json.loads(answer)["error"], (path, body)
    with store.engine.connect() as connection:
        stored = connection.scalar(select(func.count()).select_from(impressions)) or 0
        # Some bodies ask for an impression, and some click on what it shows. Nothing else is an event.
        joined = events.outerjoin(impressions, events.c.impression == impressions.c.number)
        found = select(impressions.c.id, events.c.position, events.c.document).select_from(joined)
        for impression, position, document in connection.execute(found).all():
            shown = find_impression(connection, impression)
            assert shown is not None
            assert shown.shown[position] == document
    # Bodies that are valid in spite of everything are served, and nothing else is stored.
    assert stored <= statuses[200]
    status, page = await send(app, "GET", "/")
    assert status == 200
    assert b"<script" not in page
    return statuses


@pytest.fixture
def app(store: Store) -> Iterator[Starlette]:
    put(store, policy_of(linear(1.0, -0.5, 0.25), "start"))
    service = Service(store, ServiceSettings(model_seconds=60.0, request_seconds=60.0))
    yield build_app(service, host="127.0.0.1")
    service.close()


def test_a_thousand_hostile_bodies(app: Starlette, store: Store) -> None:
    statuses = asyncio.run(attack(app, store, 1000, seed=0))
    with store.engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(events)) == 0
    assert sum(count for status, count in statuses.items() if 400 <= status < 500) > 500


@pytest.mark.long
@campaign
def test_a_hundred_thousand_hostile_bodies(app: Starlette, store: Store) -> None:
    statuses = asyncio.run(attack(app, store, 100_000, seed=1))
    report("hostile bodies", store=store.engine.dialect.name, statuses=statuses)


def test_hostile_headers_and_paths(app: Starlette) -> None:
    async def run() -> None:
        host = (b"host", b"localhost")
        for headers in (
            ((b"authorization", b"Bearer \xff\xfe"), host),
            ((b"authorization", b"Basic !!!"), host),
            ((b"content-length", b"99999999999999999999"), host),
            ((b"content-length", b"-5"), host),
            (),
        ):
            for path in ("/", "/rank", "/policies?name=../../etc", "/policies?name=x&scale=nan", "/nothing"):
                for method in ("GET", "POST", "PUT"):
                    status, _ = await send(app, method, path, b"{}", headers)
                    assert status < 500, (method, path, headers)

    asyncio.run(run())
