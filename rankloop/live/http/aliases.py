"""Paths that clients of other programs use already: Metarank's, and UBI events as browsers send them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.http.guards import json_response, read_body
from rankloop.live.http.messages import Id, decode
from rankloop.live.http.requests import answer_events, record, serve
from rankloop.live.http.state import ServerState
from rankloop.live.ranking.rules import RequestError
from rankloop.live.service import OWN, RankRequest
from rankloop.live.store.events import CLICK, UserEvent
from rankloop.live.store.keys import EVENTS, RANK

# The field of a Metarank ranking event that holds the query.
QUERY = "query"
UBI_CLICKS = ("click", "click_through")


class MetarankField(Struct):
    """A field: its name and value."""

    name: str
    value: Any


class MetarankItem(Struct):
    """A candidate, with its features as numeric fields."""

    id: Id
    fields: list[MetarankField] = []


class MetarankRanking(Struct):
    """A ranking event of Metarank, as `/rank/<model>` takes it."""

    id: Id
    items: list[MetarankItem]
    event: str = "ranking"
    timestamp: str | int | None = None
    user: str | None = None
    session: str | None = None
    fields: list[MetarankField] = []


class MetarankFeedback(Struct):
    """An event that `/feedback` takes; only interactions with a ranking are used."""

    event: str
    id: Id
    timestamp: str | int | None = None
    ranking: str | None = None
    item: str | None = None
    type: str = CLICK


class UbiObject(Struct):
    """What was clicked."""

    object_id: str | int | None = None


class UbiPosition(Struct):
    """Where it was."""

    ordinal: int | None = None


class UbiAttributes(Struct):
    """Attributes of an event; browsers send null for what they do not know."""

    object: UbiObject | None = None
    position: UbiPosition | None = None


class UbiEvent(Struct):
    """An event of User Behavior Insights."""

    action_name: str
    query_id: str | None = None
    event_id: str | None = None
    timestamp: str | int | None = None
    event_attributes: UbiAttributes | None = None


async def metarank_rank(state: ServerState, request: Request) -> Response:
    """Answer `POST /rank/<model>`: the id of the event becomes that of the impression."""
    state.allow(request, RANK)
    begun = time.perf_counter()
    message: MetarankRanking = await state.message(request, MetarankRanking)
    if not message.items or message.id.startswith(OWN):
        raise RequestError("items: at least one is needed, and the id must not begin with a dot")
    fields = {each.name: each.value for each in message.fields}
    asked = RankRequest(
        str(fields.get(QUERY, "")),
        tuple([item.id for item in message.items]),
        tuple([_features(item) for item in message.items]),
        message.id,
        len(message.items),
        context={
            name: value for name, value in (("user", message.user), ("session", message.session)) if value
        },
    )
    served, _ = await serve(state, asked)
    scores = {} if served.scores is None else dict(zip(served.problem.documents, served.scores, strict=True))
    items = [{"item": one, "score": float(scores.get(one, 0.0))} for one in served.shown.values()]
    return json_response({"state": None, "items": items, "took": round(1000 * (time.perf_counter() - begun))})


def _features(item: MetarankItem) -> Mapping[str, float] | None:
    """The numeric fields; Metarank's clients also send texts and lists, which are not features."""
    numbers = [each for each in item.fields if isinstance(each.value, int | float)]
    return {each.name: float(each.value) for each in numbers if not isinstance(each.value, bool)} or None


async def metarank_feedback(state: ServerState, request: Request) -> Response:
    """Answer `POST /feedback`: one event or a list; other events than interactions are counted only."""
    state.allow(request, EVENTS)
    body = await read_body(request, state.settings.max_body)
    messages = _listed(body, MetarankFeedback)
    batch = [
        UserEvent(one.ranking, one.item, one.type, one.id, None, _seconds(one.timestamp))
        for one in messages
        if one.event == "interaction" and one.ranking and one.item
    ]
    counts = await record(state, batch)
    return json_response({"status": "ok", "accepted": counts["accepted"], "problems": _others(counts)})


async def ubi_events(state: ServerState, request: Request) -> Response:
    """Answer `POST /ubi/events`: one event or a list; actions that are not about a document are left out."""
    state.allow(request, EVENTS)
    body = await read_body(request, state.settings.max_body)
    batch = []
    for one in _listed(body, UbiEvent):
        clicked = one.event_attributes and one.event_attributes.object
        if one.query_id is None or clicked is None or clicked.object_id is None:
            continue
        kind = CLICK if one.action_name in UBI_CLICKS else one.action_name
        at = _seconds(one.timestamp)
        batch.append(UserEvent(one.query_id, str(clicked.object_id), kind, one.event_id, None, at))
    return json_response(answer_events(await record(state, batch)))


def _others(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name != "accepted"}


def _listed(body: bytes, kind: type[Any]) -> list[Any]:
    if body.lstrip()[:1] == b"[":
        many: list[Any] = decode(body, list[kind])  # type: ignore[valid-type]
        return many
    return [decode(body, kind)]


def _seconds(given: str | int | None) -> float | None:
    """A time in milliseconds since 1970, as a number or as text, or in ISO 8601."""
    if given is None:
        return None
    try:
        if isinstance(given, int) or given.isdigit():
            return int(given) / 1000.0
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError):
        raise RequestError(f"timestamp: {str(given)[:50]!r} is not a time") from None
