"""Ranking and events over HTTP: `POST /rank` and `POST /events`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.diagnostics import LOGGER
from rankloop.live.http.guards import AnswerError, json_response
from rankloop.live.http.instruments import rank_label
from rankloop.live.http.messages import (
    EventMessage,
    EventsAnswer,
    EventsMessage,
    RankAnswer,
    RankMessage,
)
from rankloop.live.http.state import ServerState
from rankloop.live.ranking.live_policy import FALLBACK, FAULTS, RESTING
from rankloop.live.ranking.rules import FeatureFilter, RequestError
from rankloop.live.service import OWN, Choice, Draft, RankRequest
from rankloop.live.store.events import ACCEPTED, Recorded, UserEvent, record_events
from rankloop.live.store.impressions import Served
from rankloop.live.store.keys import EVENTS, RANK

LARGEST_CONTEXT = 4000


async def rank(state: ServerState, request: Request) -> Response:
    """Answer `POST /rank`."""
    state.allow(request, RANK)
    message: RankMessage = await state.message(request, RankMessage)
    served, note = await serve(state, to_request(message))
    answer = RankAnswer(
        served.id, list(served.shown.values()), served.policy.name, served.deployment, note or None
    )
    return json_response(answer)


def to_request(message: RankMessage) -> RankRequest:
    """The request that a message describes.

    Raises:
        RequestError: the id is one that only the service makes, a position is pinned twice, or the context is
            too large.
    """
    if message.id is not None and message.id.startswith(OWN):
        raise RequestError(f"id: an id that begins with {OWN!r} cannot be chosen")
    pins = {pin.position: pin.id for pin in message.pins}
    if len(pins) < len(message.pins):
        raise RequestError("pins: a position is given twice")
    if sum(len(name) + len(str(value)) for name, value in message.context.items()) > LARGEST_CONTEXT:
        raise RequestError(f"context: more than {LARGEST_CONTEXT} characters")
    return RankRequest(
        message.query,
        tuple([candidate.id for candidate in message.candidates]),
        tuple([candidate.features for candidate in message.candidates]),
        message.id,
        message.top,
        pins,
        tuple(message.exclude),
        tuple([FeatureFilter(each.feature, each.at_least, each.at_most) for each in message.filters]),
        message.context,
    )


async def serve(state: ServerState, request: RankRequest) -> tuple[Served, str]:
    """Rank, store, and return what was shown; if the policy failed, also why.

    Raises:
        AnswerError: the id of the request was used for another one.
    """
    service = state.service
    draft = service.draft(request)
    served, note = await _scored(state, draft, service.choose())
    stored: Served = await asyncio.wrap_future(service.keep(served))
    if stored is not served:
        if not stored.answers(served):
            raise AnswerError(
                409,
                f"id: {served.id!r} is that of another request, with another query, candidates or rules: "
                f"choose a new id",
            )
        return stored, note if stored.policy.name == FALLBACK else ""
    state.instruments.impressions.labels(stored.policy.name).inc()
    state.instruments.count_displays(len(stored.shown))
    return stored, note


async def _scored(state: ServerState, draft: Draft, choice: Choice) -> tuple[Served, str]:
    service, breaker, policy = state.service, state.breaker, choice.policy
    crowded = state.scoring.crowded
    if breaker.rests(policy):
        reason = RESTING
        note = f"the policy {policy.name!r} failed several times and is left out for a while"
    else:
        try:
            if policy.quick:
                served = service.serve(draft, choice)
            else:
                scoring = asyncio.wrap_future(state.scoring.submit(service.serve, draft, choice))
                served = await asyncio.wait_for(scoring, state.settings.model_seconds)
        except TimeoutError:
            reason, note = "timeout", f"the policy {policy.name!r} took too long"
            if crowded:
                # Who waits for others to be scored is late whatever the policy does.
                reason, note = "busy", f"too many requests waited for the policy {policy.name!r}"
        except RequestError as error:
            reason, note = "features", str(error)
        except Exception as error:
            LOGGER.warning("policy %r failed: %s", policy.name, error)
            reason, note = "error", f"the policy {policy.name!r} failed"
            if not await asyncio.to_thread(service.at_fault, policy, draft.problem):
                reason, note = "values", f"the policy {policy.name!r} cannot score these features: {error}"
        else:
            breaker.succeeded(policy)
            return served, ""
        if reason in FAULTS:
            breaker.failed(policy)
    state.instruments.fallbacks.labels(reason).inc()
    return service.serve(draft, service.fall_back(choice, reason)), note


async def events(state: ServerState, request: Request) -> Response:
    """Answer `POST /events`."""
    state.allow(request, EVENTS)
    message: EventsMessage = await state.message(request, EventsMessage)
    return json_response(answer_events(await record(state, [to_event(each) for each in message.events])))


def answer_events(counts: Counter[str]) -> EventsAnswer:
    """What a client is told about its events."""
    return EventsAnswer(counts[ACCEPTED], {name: n for name, n in counts.items() if name != ACCEPTED})


def to_event(message: EventMessage) -> UserEvent:
    """The event that a message describes."""
    return UserEvent(
        message.impression,
        message.document,
        message.kind,
        message.id,
        message.value,
        message.time,
        message.position,
    )


async def record(state: ServerState, batch: Sequence[UserEvent], unused: int = 0) -> Counter[str]:
    """Store a batch of events, and count what became of them, and of those that came with them unused."""
    if len(batch) + unused > state.settings.max_events:
        raise RequestError(
            f"{len(batch) + unused} events; at most {state.settings.max_events} are taken at once"
        )
    received = time.time()
    found: Recorded = await state.write(lambda connection: record_events(connection, batch, received, unused))
    for name, count in found.counts.items():
        state.instruments.events.labels(name).inc(count)
    for position in found.clicked:
        state.instruments.clicks.labels(rank_label(position)).inc()
    return found.counts
