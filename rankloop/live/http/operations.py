"""Health, metrics and the description of the interface."""

from __future__ import annotations

import time

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.http.guards import json_response
from rankloop.live.http.learner import metrics_text, read_state
from rankloop.live.http.state import REFRESH_SECONDS, ServerState
from rankloop.live.learner.health import read_health
from rankloop.live.store.database import StoreLostError, read
from rankloop.live.store.keys import ADMIN

# A server that did not see the store for this long does not know what is deployed.
STALE_SECONDS = 40 * REFRESH_SECONDS


async def healthz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /healthz`: the process runs."""
    return json_response({"status": "ok"})


async def readyz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /readyz`: something is deployed, and the store can be read and written.

    A learner that died is a warning: rankings are served and stored as before, and a balancer that took the
    server away would turn it into an outage. What is wrong with a surface follows its name.
    """
    problems, warnings = _look(state)
    for name, surface in state.surfaces.items():
        own = _look(surface)
        problems += [f"{name}: {text}" for text in own[0]]
        warnings += [f"{name}: {text}" for text in own[1]]
    return json_response(
        {"ready": not problems, "problems": problems, "warnings": warnings}, 503 if problems else 200
    )


def _look(state: ServerState) -> tuple[list[str], list[str]]:
    """The problems and the warnings of one store."""
    problems, warnings = list[str](), list[str]()
    if state.service.mixture is None:
        problems.append("nothing is deployed")
    if state.service.writer.failing:
        problems.append("the store cannot be written")
    if time.monotonic() - state.refreshed_at > STALE_SECONDS:
        problems.append("the store was not read for a while")
    try:
        state.service.store.check()
        with read(state.service.store) as connection:
            warnings = read_health(connection).problems
    except SQLAlchemyError:
        problems.append("the store cannot be read")
    except StoreLostError as error:
        problems.append(str(error))
    return problems, warnings


async def metrics(state: ServerState, request: Request) -> Response:
    """Answer `GET /metrics`, for Prometheus."""
    state.allow(request, ADMIN)
    state.instruments.waiting.set(state.service.writer.waiting)
    text = state.instruments.text() + metrics_text(read_state(state.service.store))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
