"""The description of the interface, derived from the messages themselves."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rankloop._version import __version__
from rankloop.live.http.guards import json_response
from rankloop.live.http.messages import (
    DeployMessage,
    EventsAnswer,
    EventsMessage,
    RankAnswer,
    RankMessage,
    RollbackMessage,
)
from rankloop.live.http.state import ServerState

# Path, method, what it does, the message and the answer; None where it is plain JSON.
OPERATIONS: tuple[tuple[str, str, str, Any, Any], ...] = (
    ("/rank", "post", "Rank candidates; scope rank.", RankMessage, RankAnswer),
    ("/events", "post", "Report clicks and other events; scope events.", EventsMessage, EventsAnswer),
    ("/rank/{model}", "post", "Rank, as clients of Metarank ask for it; scope rank.", None, None),
    ("/feedback", "post", "Events, as clients of Metarank send them; scope events.", None, None),
    ("/ubi/events", "post", "UBI events, as browsers send them; scope events.", None, None),
    ("/policies", "get", "Policies, and the features that requests may give; scope admin.", None, None),
    ("/policies", "post", "Register a policy: a model file, or a kind; scope admin.", None, None),
    ("/deployments", "get", "The history of deployments; scope admin.", None, None),
    ("/deployments", "post", "Deploy policies with shares; scope admin.", DeployMessage, None),
    ("/rollback", "post", "Restore an earlier deployment; scope admin.", RollbackMessage, None),
    ("/evidence", "get", "The trial, and what the learner found out; scope admin.", None, None),
    ("/healthz", "get", "Whether the process runs.", None, None),
    ("/readyz", "get", "Whether it can serve.", None, None),
    ("/metrics", "get", "Metrics for Prometheus; scope admin.", None, None),
)
ERRORS = {
    "400": "the request cannot be done; the answer says why",
    "401": "a key is needed",
    "403": "the key lacks the scope",
    "413": "the body is too large",
    "422": "the request is not valid; the answer says where and why",
    "429": "too many requests",
    "503": "try again: nothing was stored",
}


def describe() -> dict[str, Any]:
    """The description, as OpenAPI 3.1.

    >>> sorted(describe()["paths"]["/rank"]["post"]["responses"])[:2]
    ['200', '400']
    """
    kinds = [kind for *_, message, answer in OPERATIONS for kind in (message, answer) if kind is not None]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for path, method, summary, message, answer in OPERATIONS:
        done = {"description": "done", **({"content": _content(answer)} if answer is not None else {})}
        operation: dict[str, Any] = {
            "summary": summary,
            "responses": {"200": done, **{status: {"description": text} for status, text in ERRORS.items()}},
        }
        if message is not None:
            operation["requestBody"] = {"required": True, "content": _content(message)}
        if "{model}" in path:
            schema = {"type": "string"}
            operation["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": schema}]
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "rankloop", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _content(kind: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


async def openapi(state: ServerState, request: Request) -> Response:  # noqa: ARG001
    """Answer `GET /openapi.json`."""
    return json_response(describe())
