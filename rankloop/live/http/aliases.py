"""Paths that clients of other programs use already: Metarank's, and UBI events as browsers send them."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.http.guards import json_response
from rankloop.live.http.messages import LATEST, LONGEST_QUERY, Id, ShortText, decode
from rankloop.live.http.requests import answer_events, record, serve
from rankloop.live.http.state import ServerState
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.rules import RequestError
from rankloop.live.service import OWN, RankRequest
from rankloop.live.store.events import CLICK, UserEvent
from rankloop.live.store.keys import EVENTS, RANK

# Fields of a Metarank ranking event: the query, and a score of an item.
QUERY, RELEVANCY = "query", "relevancy"
UBI_CLICKS = ("click", "click_through")


class MetarankField(Struct):
    """A field: its name and value."""

    name: str
    value: Any


class MetarankItem(Struct):
    """A candidate, with its features as numeric fields; older clients give one of them as ``relevancy``."""

    id: Id
    fields: list[MetarankField] = []
    relevancy: float | None = None


class MetarankRanking(Struct):
    """A ranking event of Metarank, as `/rank/<model>` takes it."""

    id: Id
    items: Annotated[list[MetarankItem], Meta(min_length=1)]
    event: str = "ranking"
    timestamp: str | int | None = None
    user: ShortText | None = None
    session: ShortText | None = None
    fields: list[MetarankField] = []


class MetarankScored(Struct, omit_defaults=True):
    """A document of the answer; the score falls with the position, for clients that sort by it."""

    item: str
    score: float
    features: list[MetarankField] | None = None


class MetarankAnswer(Struct):
    """The answer of `/rank/<model>`: what to show, in this order; ``took`` is in milliseconds."""

    took: int
    items: list[MetarankScored]


class MetarankFeedback(Struct):
    """An event that `/feedback` takes; only interactions with a ranking are used."""

    event: str
    id: Id
    timestamp: str | int | None = None
    ranking: ShortText | None = None
    item: ShortText | None = None
    type: Id = CLICK


class MetarankFeedbackAnswer(Struct):
    """The answer of `/feedback`: how many events were stored, and how many had which problem."""

    status: str
    accepted: int
    updated: int
    tookMillis: int  # noqa: N815
    problems: dict[str, int]


class UbiObject(Struct):
    """What was clicked."""

    object_id: ShortText | int | None = None


class UbiPosition(Struct):
    """Where it was."""

    ordinal: int | None = None


class UbiAttributes(Struct):
    """Attributes of an event; browsers send null for what they do not know."""

    object: UbiObject | None = None
    position: UbiPosition | None = None


class UbiEvent(Struct):
    """An event of User Behavior Insights."""

    action_name: Id
    query_id: ShortText | None = None
    event_id: ShortText | None = None
    timestamp: str | int | None = None
    event_attributes: UbiAttributes | None = None


async def metarank_rank(state: ServerState, request: Request) -> Response:
    """Answer `POST /rank/<model>`: the id of the event becomes that of the impression."""
    state.allow(request, RANK)
    begun = time.perf_counter()
    explain = _is_true(request.query_params.get("explain", "false"))
    message: MetarankRanking = await state.message(request, MetarankRanking)
    if message.id.startswith(OWN):
        raise RequestError(f"id: an id that begins with {OWN!r} cannot be chosen")
    fields = {each.name: each.value for each in message.fields}
    known = state.service.schema.columns
    asked = RankRequest(
        _query(fields.get(QUERY, "")),
        tuple([item.id for item in message.items]),
        tuple([_features(item, known) for item in message.items]),
        message.id,
        len(message.items),
        context={
            name: value for name, value in (("user", message.user), ("session", message.session)) if value
        },
    )
    served, _ = await serve(state, asked)
    items = [
        MetarankScored(one, 1.0 / position, _explained(served.problem, one) if explain else None)
        for position, one in served.shown.items()
    ]
    return json_response(MetarankAnswer(_milliseconds(begun), items))


def _is_true(text: str) -> bool:
    if text not in ("true", "false"):
        raise RequestError(f"explain: true or false, not {text[:50]!r}")
    return text == "true"


def _query(value: Any) -> str:
    if len(str(value)) > LONGEST_QUERY:
        raise RequestError(f"fields: the query has more than {LONGEST_QUERY} characters")
    return str(value)


def _features(item: MetarankItem, known: Collection[str]) -> Mapping[str, float] | None:
    """The fields that are features here; Metarank's clients also send texts, lists, and fields for others."""
    given = {each.name: each.value for each in item.fields}
    if item.relevancy is not None:
        given.setdefault(RELEVANCY, item.relevancy)
    numbers = {name: _number(name, value) for name, value in given.items() if name in known}
    return {name: value for name, value in numbers.items() if value is not None} or None


def _number(name: str, value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        raise RequestError(f"fields: the value of {name!r} is too large") from None


def _explained(problem: RankingProblem, document: str) -> list[MetarankField]:
    """The features of a document, without missing ones."""
    row = problem.features[problem.documents.index(document)].tolist()
    pairs = zip(problem.feature_names, row, strict=True)
    return [MetarankField(name, value) for name, value in pairs if not math.isnan(value)]


async def metarank_feedback(state: ServerState, request: Request) -> Response:
    """Answer `POST /feedback`: one event or a list; other events than interactions are only counted."""
    state.allow(request, EVENTS)
    begun = time.perf_counter()
    body = await state.body(request, state.settings.max_body)
    messages = _listed(body, MetarankFeedback)
    batch = [
        UserEvent(one.ranking, one.item, one.type, one.id, None, _seconds(one.timestamp))
        for one in messages
        if one.event == "interaction" and one.ranking and one.item
    ]
    done = answer_events(await record(state, batch, len(messages) - len(batch)))
    return json_response(MetarankFeedbackAnswer("ok", done.accepted, 0, _milliseconds(begun), done.problems))


async def ubi_events(state: ServerState, request: Request) -> Response:
    """Answer `POST /ubi/events`: one event or a list; others than actions on a document are only counted."""
    state.allow(request, EVENTS)
    body = await state.body(request, state.settings.max_body)
    batch, messages = [], _listed(body, UbiEvent)
    for one in messages:
        clicked = one.event_attributes and one.event_attributes.object
        if one.query_id is None or clicked is None or clicked.object_id is None:
            continue
        kind = CLICK if one.action_name in UBI_CLICKS else one.action_name
        where = one.event_attributes and one.event_attributes.position
        batch.append(
            UserEvent(
                one.query_id,
                str(clicked.object_id),
                kind,
                one.event_id,
                None,
                _seconds(one.timestamp),
                None if where is None else where.ordinal,
            )
        )
    return json_response(answer_events(await record(state, batch, len(messages) - len(batch))))


def _listed(body: bytes, kind: type[Any]) -> list[Any]:
    if body.lstrip()[:1] == b"[":
        many: list[Any] = decode(body, list[kind])  # type: ignore[valid-type]
        return many
    return [decode(body, kind)]


def _seconds(given: str | int | None) -> float | None:
    """A time in milliseconds since 1970, as a number or as text, or in ISO 8601: UTC if it names no zone."""
    if given is None:
        return None
    try:
        if isinstance(given, int) or given.isdigit():
            seconds = int(given) / 1000.0
        else:
            at = datetime.fromisoformat(given)
            seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0.0 <= seconds <= LATEST:
        raise RequestError(f"timestamp: {str(given)[:50]!r} is not a time after 1970")
    return seconds


def _milliseconds(begun: float) -> int:
    return round(1000 * (time.perf_counter() - begun))
