"""The application: paths, and what every request goes through."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from rankloop.live import learner_sections, page
from rankloop.live.diagnostics import LOGGER, REQUEST_HEADER, REQUEST_ID, request_id
from rankloop.live.http import administration, aliases, openapi, operations, pages, requests
from rankloop.live.http.guards import answered, json_response
from rankloop.live.http.state import REFRESH_SECONDS, ServerState
from rankloop.live.service import Service

Handler = Callable[[ServerState, Request], Awaitable[Response]]

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/rank", requests.rank),
    ("POST", "/events", requests.events),
    ("POST", "/rank/{model}", aliases.metarank_rank),
    ("POST", "/feedback", aliases.metarank_feedback),
    ("POST", "/ubi/events", aliases.ubi_events),
    ("GET", "/", pages.page),
    ("POST", f"/{page.ROLL_BACK}", pages.page_rollback),
    ("POST", f"/{page.DEPLOY}", pages.page_deploy),
    ("POST", f"/{learner_sections.LEARNER}", pages.page_learner),
    ("GET", "/evidence", pages.evidence),
    ("GET", "/learner", operations.get_learner),
    ("POST", "/learner", operations.post_learner),
    ("GET", "/policies", administration.get_policies),
    ("POST", "/policies", administration.post_policy),
    ("GET", "/deployments", administration.get_deployments),
    ("POST", "/deployments", administration.post_deployment),
    ("POST", "/rollback", administration.post_rollback),
    ("GET", "/healthz", operations.healthz),
    ("GET", "/readyz", operations.readyz),
    ("GET", "/metrics", operations.metrics),
    ("GET", "/openapi.json", openapi.openapi),
)


def build_app(
    service: Service, *, host: str, surfaces: Mapping[str, Service] = MappingProxyType({})
) -> Starlette:
    """The application that serves a store; it closes the service when it ends.

    Args:
        service: what serves.
        host: the address that the server listens on: a store without keys is open only if it is of this
            machine alone.
        surfaces: what serves the paths that begin with the name of a surface; keys are those of the first.
    """
    state = ServerState(service, host)
    state.surfaces = {
        name: ServerState(own, host, keys=service.store, name=name) for name, own in sorted(surfaces.items())
    }
    states = [state, *state.surfaces.values()]
    for each in states:
        each.pages = pages.PageCache()
    middleware = []
    if service.settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=service.settings.origins,
                allow_methods=["POST"],
                allow_headers=["authorization", "content-type", "x-api-key"],
            )
        )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        refreshing = [asyncio.create_task(_keep_fresh(each)) for each in states]
        try:
            yield
        finally:
            for task in refreshing:
                task.cancel()
            await asyncio.gather(*refreshing, return_exceptions=True)
            for each in states:
                each.close()

    routes = [
        *_routes(state),
        *(Mount(f"/{name}", routes=_routes(own)) for name, own in state.surfaces.items()),
    ]
    refusals = {404: _refused, 405: _refused}
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan, exception_handlers=refusals)
    app.state.server = state
    return app


def _routes(state: ServerState) -> list[Route]:
    return [
        Route(path, partial(_observed, state, handlers, path), methods=list(handlers))
        for path, handlers in _handlers().items()
    ]


def _handlers() -> dict[str, dict[str, Handler]]:
    """The handlers of each path, by method; GET also answers HEAD."""
    found: dict[str, dict[str, Handler]] = {}
    for method, path, handler in ROUTES:
        own = found.setdefault(path, {})
        own[method] = handler
        if method == "GET":
            own["HEAD"] = handler
    return found


async def _refused(request: Request, error: Exception) -> Response:
    """Say that there is no such path, or which methods it has."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:100]
    if error.status_code == 404:
        return json_response({"error": f"there is no path {path!r}: GET /openapi.json lists them"}, 404)
    headers = dict(error.headers or {})
    text = f"{path} answers {headers.get('Allow', 'other methods')}, not {request.method}"
    return json_response({"error": text}, error.status_code, headers)


async def _observed(
    state: ServerState, handlers: Mapping[str, Handler], path: str, request: Request
) -> Response:
    begun, handler = time.perf_counter(), handlers[request.method]
    name = request_id(request.headers.get(REQUEST_HEADER))
    # Every request has a context of its own: nothing need be put back.
    REQUEST_ID.set(name)
    limit = pages.LONGEST_SECONDS if handler is pages.page else state.settings.request_seconds
    response = await answered(partial(handler, state), request, limit)
    state.instruments.requests.labels(path, response.status_code).inc()
    took = time.perf_counter() - begun
    state.instruments.seconds.labels(path).observe(took)
    if LOGGER.isEnabledFor(logging.DEBUG):
        status = response.status_code
        fields = {"method": request.method, "path": path, "status": status, "seconds": round(took, 6)}
        said = f"{request.method} {path} {status} in {1000.0 * took:.1f} ms"
        LOGGER.debug(said, extra={"fields": fields})
    response.headers[REQUEST_HEADER] = name
    return response


async def _keep_fresh(state: ServerState) -> None:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            await asyncio.to_thread(state.refresh)
        except Exception as error:
            LOGGER.warning("the store cannot be read: %s", error)
