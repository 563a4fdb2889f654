"""The description of the interface, derived from the messages and answers themselves."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rankloop._version import __version__
from rankloop.live.http import messages
from rankloop.live.http.administration import NAME
from rankloop.live.http.aliases import (
    MetarankAnswer,
    MetarankFeedback,
    MetarankFeedbackAnswer,
    MetarankRanking,
    UbiEvent,
)
from rankloop.live.http.guards import JSON, json_response
from rankloop.live.http.messages import (
    DeployMessage,
    EventsAnswer,
    EventsMessage,
    LearnerMessage,
    RankAnswer,
    RankMessage,
    RollbackMessage,
)
from rankloop.live.http.state import ServerState
from rankloop.live.ranking.live_policy import INCOMING, LONGEST_NAME, MODEL, SCORES, UNIFORM
from rankloop.live.store.keys import ADMIN, EVENTS, RANK

ERRORS = MappingProxyType(
    {
        400: "the request cannot be done; the answer says why",
        401: "a key is needed",
        403: "the key lacks the scope",
        408: "the body did not come in time",
        409: "the id was used for another request",
        413: "the body is too large",
        422: "the request is not valid; the answer says where and why",
        429: "too many requests",
        503: "try again: nothing was stored",
    }
)
OF_BODIES = (400, 408, 413, 422)
OF_SCOPES = (401, 403, 429)
TEXT, BYTES = "text/plain", "application/octet-stream"


@dataclass(frozen=True)
class Operation:
    """A path and a method.

    Attributes:
        path: the path.
        method: the method, in lower case.
        summary: what it does.
        scope: the scope that a key needs; None if no key is needed.
        message: the type of the body; None if there is none, or if it is not JSON.
        answer: the type of the answer; None if it is text.
        status: the status if all is well.
        required: whether a body is needed.
        parameters: parameters of the path and of the query.
    """

    path: str
    method: str
    summary: str
    scope: str | None
    message: Any
    answer: Any
    status: int = 200
    required: bool = True
    parameters: tuple[dict[str, Any], ...] = ()

    @property
    def errors(self) -> tuple[int, ...]:
        """The statuses of errors that it may answer."""
        body = OF_BODIES if self.method == "post" else ()
        conflict = (409,) if self.scope == RANK else ()
        return (*body, *conflict, *(OF_SCOPES if self.scope else ()), 503)


def _parameter(name: str, schema: dict[str, Any], where: str = "query", *, required: bool = False) -> Any:
    return {"name": name, "in": where, "required": required, "schema": schema}


MODEL_NAME = _parameter("model", {"type": "string", "minLength": 1}, "path", required=True)
EXPLAIN = _parameter("explain", {"type": "boolean"})
OF_POLICIES = (
    _parameter("name", {"type": "string", "pattern": f"^{NAME.pattern}$"}, required=True),
    _parameter("scale", {"type": "number", "exclusiveMinimum": 0, "default": 1}),
    _parameter("kind", {"enum": [MODEL, SCORES, UNIFORM, INCOMING], "default": MODEL}),
    _parameter("feature", {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}),
)
OPERATIONS = (
    Operation("/rank", "post", "Rank candidates.", RANK, RankMessage, RankAnswer),
    Operation("/events", "post", "Report clicks and other events.", EVENTS, EventsMessage, EventsAnswer),
    Operation(
        "/rank/{model}",
        "post",
        "Rank, as clients of Metarank ask for it.",
        RANK,
        MetarankRanking,
        MetarankAnswer,
        parameters=(MODEL_NAME, EXPLAIN),
    ),
    Operation(
        "/feedback",
        "post",
        "Events, as clients of Metarank send them.",
        EVENTS,
        MetarankFeedback | list[MetarankFeedback],
        MetarankFeedbackAnswer,
    ),
    Operation(
        "/ubi/events",
        "post",
        "UBI events, as browsers send them.",
        EVENTS,
        UbiEvent | list[UbiEvent],
        EventsAnswer,
    ),
    Operation(
        "/policies",
        "get",
        "Policies, and the features that requests may give.",
        ADMIN,
        None,
        messages.PoliciesAnswer,
    ),
    Operation(
        "/policies",
        "post",
        "Register a policy: a model file, or a kind that needs none.",
        ADMIN,
        None,
        messages.RegisteredAnswer,
        201,
        parameters=OF_POLICIES,
    ),
    Operation("/deployments", "get", "The history of deployments.", ADMIN, None, messages.DeploymentsAnswer),
    Operation(
        "/deployments",
        "post",
        "Deploy policies with shares.",
        ADMIN,
        DeployMessage,
        messages.DeploymentAnswer,
        201,
    ),
    Operation(
        "/rollback",
        "post",
        "Restore an earlier deployment.",
        ADMIN,
        RollbackMessage,
        messages.DeploymentAnswer,
        201,
        required=False,
    ),
    Operation(
        "/evidence",
        "get",
        "The trial, and what the learner found out.",
        ADMIN,
        None,
        messages.EvidenceAnswer,
    ),
    Operation(
        "/learner",
        "get",
        "The learner: whether it lives, what it watches, and what people decided.",
        ADMIN,
        None,
        messages.LearnerAnswer,
    ),
    Operation(
        "/learner",
        "post",
        "Pause the learner, resume it, or end its trial.",
        ADMIN,
        LearnerMessage,
        messages.LearnerAnswer,
    ),
    Operation("/healthz", "get", "Whether the process runs.", None, None, messages.HealthAnswer),
    Operation("/readyz", "get", "Whether it can serve.", None, None, messages.ReadyAnswer),
    Operation("/metrics", "get", "Metrics for Prometheus.", ADMIN, None, None),
)


def describe(*, keys: bool = False, root: str = "") -> dict[str, Any]:
    """The description, as OpenAPI 3.1.

    Args:
        keys: whether there are keys, so that requests need one.
        root: what comes before the paths: that of a surface.

    >>> sorted(describe()["paths"]["/rank"]["post"]["responses"])
    ['200', '400', '401', '403', '408', '409', '413', '422', '429', '503']
    """
    kinds = [kind for one in OPERATIONS for kind in (one.message, one.answer) if kind is not None]
    found, components = msgspec.json.schema_components(
        [*kinds, messages.ErrorAnswer], ref_template="#/components/schemas/{name}"
    )
    # By identity: types that are unions cannot be told apart otherwise.
    schemas = {id(kind): schema for kind, schema in zip(kinds, found, strict=False)}
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method] = _operation(one, schemas, found[-1])
    return {
        "openapi": "3.1.0",
        "info": {"title": "rankloop", "version": __version__},
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # Without keys, the service answers to everybody on its machine.
        "security": [{"key": []}] if keys else [{"key": []}, {}],
    }


def _operation(one: Operation, schemas: dict[int, Any], error: Any) -> dict[str, Any]:
    answer = (
        _content(TEXT, {"type": "string"}) if one.answer is None else _content(JSON, schemas[id(one.answer)])
    )
    responses = {str(one.status): {"description": "done", "content": answer}}
    for status in one.errors:
        ready = one.answer is messages.ReadyAnswer
        content = answer if ready else _content(JSON, error)
        responses[str(status)] = {"description": ERRORS[status], "content": content}
    scope = "No key is needed." if one.scope is None else f"Scope {one.scope}."
    result: dict[str, Any] = {"summary": one.summary, "description": scope, "responses": responses}
    if one.scope is None:
        result["security"] = []
    if one.parameters:
        result["parameters"] = list(one.parameters)
    if one.message is not None:
        body = _content(JSON, schemas[id(one.message)])
        result["requestBody"] = {"required": one.required, "content": body}
    elif one.method == "post":
        result["requestBody"] = {"required": False, "content": _content(BYTES, {})}
    return result


def _content(kind: str, schema: Any) -> dict[str, Any]:
    return {kind: {"schema": schema}}


async def openapi(state: ServerState, request: Request) -> Response:
    """Answer `GET /openapi.json`."""
    return json_response(describe(keys=not state.access.open, root=request.scope.get("root_path", "")))
