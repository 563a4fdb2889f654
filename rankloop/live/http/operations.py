"""Health, metrics and the description of the interface."""

from __future__ import annotations

import time

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from rankloop.live.http.guards import json_response
from rankloop.live.http.state import REFRESH_SECONDS, ServerState
from rankloop.live.store.database import read
from rankloop.live.store.keys import ADMIN

# A server that did not see the store for this long does not know what is deployed.
STALE_SECONDS = 40 * REFRESH_SECONDS


async def healthz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /healthz`: the process runs."""
    return json_response({"status": "ok"})


async def readyz(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /readyz`: something is deployed, and the store can be read and written."""
    problems = []
    if state.service.mixture is None:
        problems.append("nothing is deployed")
    if state.service.writer.failing:
        problems.append("the store cannot be written")
    if time.monotonic() - state.refreshed_at > STALE_SECONDS:
        problems.append("the store was not read for a while")
    try:
        with read(state.service.store) as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        problems.append("the store cannot be read")
    return json_response({"ready": not problems, "problems": problems}, 503 if problems else 200)


async def metrics(state: ServerState, request: Request) -> Response:
    """Answer `GET /metrics`, for Prometheus."""
    state.allow(request, ADMIN)
    state.instruments.waiting.set(state.service.writer.waiting)
    return Response(state.instruments.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
